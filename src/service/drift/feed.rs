//! Signals for those who watch: read from the store, so that a cursor outlives a restart.

use std::ops::ControlFlow;

use tokio::sync::watch;

use crate::{
    audit::{Body, DriftRecord, Record, RecordNumber, scan},
    model::PackQuery,
    service::{QueryError, Service},
};

/// Records looked at for one page.
const SCANNED_PER_PAGE: usize = 20_000;
/// Signals of one page.
const SIGNALS_PER_PAGE: usize = 256;

/// Significant signals, and where the reading stopped.
#[derive(Debug, Default)]
pub struct SignalPage {
    /// The signals with the numbers of their records.
    pub signals: Vec<(RecordNumber, DriftRecord)>,
    /// The last record that was looked at; the cursor if there was none.
    pub reached: RecordNumber,
    /// Whether there may be more behind it already.
    pub more: bool,
}

impl Service {
    /// Significant signals behind a cursor; of a pack and a session, if they are named.
    pub async fn significant(
        &self,
        cursor: RecordNumber,
        pack: Option<PackQuery>,
        session: String,
    ) -> Result<SignalPage, QueryError> {
        self.read(move |store| {
            let mut page = SignalPage { reached: cursor, ..SignalPage::default() };
            let mut looked_at = 0;
            scan(store, cursor.saturating_add(1), |Record { number, body, .. }| {
                if looked_at >= SCANNED_PER_PAGE || page.signals.len() >= SIGNALS_PER_PAGE {
                    page.more = true;
                    return ControlFlow::Break(());
                }
                looked_at += 1;
                page.reached = number;
                if let Body::Drift(signal) = body {
                    let asked = pack.as_ref().is_none_or(|pack| signal.pack.is_of(pack))
                        && (session.is_empty() || *signal.session == *session);
                    if asked && signal.is_significant() {
                        page.signals.push((number, *signal));
                    }
                }
                ControlFlow::Continue(())
            })?;
            Ok(page)
        })
        .await
    }

    /// Changes when drift signals have been stored.
    pub fn signals_stored(&self) -> watch::Receiver<RecordNumber> {
        self.audit.signals_stored()
    }

    /// The number of the last stored record.
    pub async fn last_record(&self) -> Result<RecordNumber, QueryError> {
        self.read(|store| store.last()).await
    }
}
