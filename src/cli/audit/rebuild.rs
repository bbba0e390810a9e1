//! `probity audit rebuild`: a store anew from an export, for one that is damaged, or to take less room.

use std::{cell::RefCell, path::PathBuf};

use serde_json::json;

use crate::{
    audit::{self, BatchBuilder, Imported, Safety, SledStore, Store, Trust},
    cli::{Exit, Failure, Format, Outcome},
};

use super::{
    CACHE_BYTES, say,
    verify::{ImportError, lines},
};

/// Records of one commit.
const RECORDS_AT_ONCE: u64 = 4096;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The folder of the new store, which must not hold one
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// What `probity audit export` wrote
    #[arg(value_name = "EXPORT")]
    export: PathBuf,
}

/// A store that is being made.
struct Making {
    store: SledStore,
    builder: BatchBuilder,
    waiting: u64,
}

impl Making {
    fn commit(&mut self) -> Result<(), ImportError> {
        self.waiting = 0;
        Ok(self.store.append(&self.builder.finish(), Safety::Disk)?)
    }
}

/// Runs the command.
pub fn run(args: &Args, format: Format) -> Outcome {
    // Both steps of the reading write to it.
    let making: RefCell<Option<Making>> = RefCell::new(None);
    let verified = lines(&args.export).and_then(|lines| {
        audit::verify_export(
            lines,
            Trust::default(),
            |base| {
                let store = SledStore::create(&args.data, CACHE_BYTES, base)?;
                // Payloads bring their salts along: this key makes none.
                let builder = BatchBuilder::new(base, [0; 32]);
                *making.borrow_mut() = Some(Making { store, builder, waiting: 0 });
                Ok(())
            },
            |record, Imported { bytes, payload, .. }| {
                let mut making = making.borrow_mut();
                let Some(making) = making.as_mut() else { return Ok(()) };
                making.builder.push_recorded(record, &bytes, payload);
                making.waiting += 1;
                if making.waiting >= RECORDS_AT_ONCE { making.commit() } else { Ok(()) }
            },
        )
    });
    let verified = verified.map_err(|e| e.of(&args.export))?;
    let mut made = making.into_inner();
    if let Some(making) = &mut made {
        making.commit().map_err(|e| e.of(&args.export))?;
    }
    if let Some(fault) = verified.faults.first() {
        let message = format!("{fault}; the records before it are in {}", args.data.display());
        return Err(Failure { exit: Exit::No, message });
    }
    let text = format!("records {} to {} are in {}", verified.base.last + 1, verified.head.last, args.data.display());
    say(format, &text, &json!({ "first_record": verified.base.last + 1, "last_record": verified.head.last }))
}
