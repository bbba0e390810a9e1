//! What the embedded store does beyond what every store must do: it lives in a folder, and gives room back.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::{
    fs,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::audit::{
    BatchBuilder, Draft, JournalChange, JournalWrite, MemoryStore, PayloadKey, Posting, Safety, Span, Trust,
    conformance::{commit, full_step, hits, judged, open_sled, read},
    drift_layout, verify_store,
};
use crate::model::Digest;

use super::*;

#[test]
fn the_sled_store_keeps_all_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3u64 {
        let store = open_sled(folder.path());
        assert_eq!(store.last().unwrap(), round * 40);
        let drafts: Vec<Draft> = (0..40).map(|n| judged("s1", round * 40 + n, full_step())).collect();
        commit(&store, &drafts);
    }
    let store = open_sled(folder.path());
    assert_eq!(read(&store, 1).len(), 120);
    assert_eq!(hits(&store, "A01", Span::Session("s1".into())), 120);
}

#[test]
fn a_sled_store_in_use_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open_sled(folder.path());
    let second = SledStore::open(folder.path(), 1 << 20);
    assert!(matches!(second, Err(StoreError::Locked { .. })), "{second:?}");
}

#[test]
fn a_sled_store_of_another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_sled(folder.path()));
    {
        let db = sled::open(folder.path().join("store-1")).unwrap();
        db.insert("format", &9u32.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    let opened = SledStore::open(folder.path(), 1 << 20);
    assert!(matches!(&opened, Err(StoreError::Format { found, known: FORMAT }) if found == "9"), "{opened:?}");
}

#[test]
fn a_sled_store_whose_head_is_not_its_last_block_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    commit(&store, &[judged("s1", 1, full_step())]);
    drop(store);
    {
        let db = sled::open(folder.path().join("store-1")).unwrap();
        let (last, _) = db.scan_prefix(b"b").next_back().unwrap().unwrap();
        db.remove(last).unwrap();
        db.flush().unwrap();
    }
    let opened = SledStore::open(folder.path(), 1 << 20);
    assert!(matches!(&opened, Err(StoreError::Damaged(what)) if what.contains("ends at record 1")), "{opened:?}");
}

/// The n-th batch of a life with everything in it.
fn batch_of(n: u64, head: Head) -> Batch {
    let session = format!("s{}", n % 7);
    let mut builder = BatchBuilder::new(head, [1; 32]);
    builder.push(&judged(&session, n, full_step()), 1_700_000_000_000 + n);
    builder.push(&Draft::Drift(Arc::new(drift_layout::tests::record(true))), 1_700_000_000_000 + n);
    if n % 11 == 10 {
        builder.push(&Draft::Erased { session: "s".into() }, 1_700_000_000_000 + n);
    }
    let mut batch = builder.finish();
    let change = if n % 13 == 12 {
        JournalChange::Drop
    } else {
        JournalChange::Add { number: n, bytes: vec![n as u8; 10 + 900 * (n as usize % 20)] }
    };
    batch.journal.push(JournalWrite { session: session.into(), change });
    let key = RequestKey { method: "observe", id: format!("r{n}").into() };
    batch.answered.push((key, Answered { print: Digest::new([n as u8; 32]), record: batch.after.last }));
    batch
}

/// All that a store holds, in words that can be compared.
fn told(store: &dyn Store, batches: u64) -> Vec<String> {
    let mut told = vec![format!("{:?} {:?} {}", store.base().unwrap(), store.head().unwrap(), store.size().unwrap())];
    let blocks = store.blocks(0, usize::MAX).unwrap();
    told.extend(blocks.iter().map(|block| format!("{block:?}")));
    store.all_tallies(&mut |key, tally| told.push(format!("{key:?} {tally:?}"))).unwrap();
    for session in store.journaled(None, usize::MAX).unwrap() {
        told.push(format!("{session} {:?}", store.journal(&session).unwrap()));
    }
    for n in 0..batches {
        let key = RequestKey { method: "observe", id: format!("r{n}").into() };
        told.push(format!("{:?}", store.answered(&key).unwrap()));
        let posting = Posting::Session(format!("s{}", n % 7).into());
        told.push(format!("{:?}", store.postings(&posting, 0, usize::MAX).unwrap()));
    }
    for number in 0..=store.last().unwrap() {
        told.push(format!("{:?}", store.payload(&PayloadKey { session: "s".into(), number }).unwrap()));
    }
    told
}

#[test]
fn what_is_copied_while_it_is_written_to_is_the_same_store() {
    const BATCHES: u64 = 240;
    let memory = MemoryStore::default();
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::create(folder.path(), 1 << 20, memory.head().unwrap()).unwrap();
    let done = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for n in 0..BATCHES {
                let batch = batch_of(n, memory.head().unwrap());
                memory.append(&batch, Safety::Process).unwrap();
                store.append(&batch, Safety::Process).unwrap();
                if n % 60 == 59 {
                    let first = memory.head().unwrap().last / 2;
                    assert_eq!(memory.prune(first).unwrap(), store.prune(first).unwrap());
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut copies = 0;
        while !done.load(Ordering::SeqCst) {
            store.compact().unwrap();
            copies += 1;
        }
        writing.join().unwrap();
        copies
    });
    assert!(copies > 1, "{copies}");
    assert_eq!(told(&store, BATCHES), told(&memory, BATCHES));
    let verified = verify_store(&store, Trust::default()).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    drop(store);
    assert_eq!(told(&open_sled(folder.path()), BATCHES), told(&memory, BATCHES));
}

#[test]
fn room_is_given_back_once_there_is_enough_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    assert_eq!(store.tidy().unwrap(), None, "a small folder is left alone");
    // Sessions that came and went.
    let journals = |change: &dyn Fn() -> JournalChange| {
        for session in 0..80 {
            let mut batch = Batch::at(store.head().unwrap());
            batch.journal.push(JournalWrite { session: format!("s{session}").into(), change: change() });
            store.append(&batch, Safety::Process).unwrap();
        }
    };
    journals(&|| JournalChange::Add { number: 0, bytes: vec![7; 64 << 10] });
    assert_eq!(store.compact_if_worth(2 << 20).unwrap(), None, "all of it is needed");
    journals(&|| JournalChange::Drop);
    journals(&|| JournalChange::Add { number: 1, bytes: vec![7; 64] });
    *store.compacting.lock().unwrap() = 0;
    let tidied = store.compact_if_worth(2 << 20).unwrap().unwrap();
    assert!(tidied.before >= 4 << 20 && tidied.after < 2 << 20, "{tidied:?}");
    assert_eq!((store.journaled(None, 100).unwrap().len(), read(&store, 1).len()), (80, 1));
    assert_eq!(store.compact_if_worth(2 << 20).unwrap(), None);
}

#[test]
fn a_copy_that_was_cut_off_is_nothing_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    drop(store);
    fs::create_dir(folder.path().join("store-2")).unwrap();
    fs::write(folder.path().join("store-2/db"), "half").unwrap();
    let store = open_sled(folder.path());
    assert_eq!(read(&store, 1).len(), 1);
    assert!(!folder.path().join("store-2").exists());
    fs::create_dir(folder.path().join("store-2")).unwrap();
    fs::write(folder.path().join("store-2/db"), "half").unwrap();
    store.compact().unwrap();
    commit(&store, &[judged("s1", 1, full_step())]);
    drop(store);
    assert_eq!(fs::read_to_string(folder.path().join("store.current")).unwrap(), "store-2\n");
    assert_eq!(read(&open_sled(folder.path()), 1).len(), 2);
}

#[test]
fn a_copy_that_fails_leaves_the_store_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    // Where the copy should go stands a file, which no folder can be made in.
    fs::write(folder.path().join("store-2"), "").unwrap();
    assert!(store.compact().is_err());
    commit(&store, &[judged("s1", 1, full_step())]);
    fs::remove_file(folder.path().join("store-2")).unwrap();
    store.compact().unwrap();
    assert_eq!(read(&store, 1).len(), 2);
}

#[test]
fn which_of_several_stores_is_meant_is_never_guessed() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_sled(folder.path()));
    let refused = |what: &str| {
        let opened = SledStore::open(folder.path(), 1 << 20);
        assert!(matches!(&opened, Err(StoreError::Damaged(why)) if why.contains(what)), "{opened:?}");
    };
    fs::write(folder.path().join("store.current"), "store-7\n").unwrap();
    refused("names `store-7`");
    fs::write(folder.path().join("store.current"), "../elsewhere").unwrap();
    refused("names `../elsewhere`");
    fs::create_dir(folder.path().join("store-2")).unwrap();
    fs::remove_file(folder.path().join("store.current")).unwrap();
    refused("there are 2 stores");
    fs::remove_dir(folder.path().join("store-2")).unwrap();
    // The first store may have been made and its name not: then it is the one.
    drop(open_sled(folder.path()));
    assert_eq!(fs::read_to_string(folder.path().join("store.current")).unwrap(), "store-1\n");
}

#[test]
fn an_older_arrangement_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("db"), "what format 2 kept").unwrap();
    let opened = SledStore::open(folder.path(), 1 << 20);
    assert!(matches!(&opened, Err(StoreError::Format { .. })), "{opened:?}");
    assert_eq!(fs::read_to_string(folder.path().join("db")).unwrap(), "what format 2 kept");
}

#[test]
fn a_damaged_store_is_set_aside_whole_and_another_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    assert!(matches!(SledStore::set_aside(folder.path()), Err(StoreError::Locked { .. })));
    drop(store);
    fs::write(folder.path().join("store.current"), "store-9\n").unwrap();
    assert!(SledStore::open(folder.path(), 1 << 20).is_err());
    let aside = SledStore::set_aside(folder.path()).unwrap();
    assert_eq!(aside, folder.path().join("damaged-1"));
    assert!(!SledStore::is_in(folder.path()));
    assert_eq!(read(&open_sled(folder.path()), 1).len(), 0);
    // Once its fault is mended, what was set aside is a data folder like any other.
    fs::write(aside.join("store.current"), "store-1\n").unwrap();
    assert_eq!(read(&open_sled(&aside), 1).len(), 1);
    assert_eq!(SledStore::set_aside(folder.path()).unwrap(), folder.path().join("damaged-2"));
}

#[test]
fn a_snapshot_that_was_not_written_to_its_end_keeps_nothing_from_opening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    drop(store);
    fs::write(folder.path().join("store-1/snap.0000000000000010.generating"), "").unwrap();
    fs::write(folder.path().join("store-1/snap.0000000000000020"), "no snapshot").unwrap();
    let store = open_sled(folder.path());
    assert_eq!(read(&store, 1).len(), 1);
    assert!(verify_store(&store, Trust::default()).unwrap().is_whole());
}

#[test]
fn an_empty_folder_is_no_store_once_one_was_there() {
    let damaged = |folder: &Path| {
        let opened = SledStore::open(folder, 1 << 20);
        assert!(matches!(&opened, Err(StoreError::Damaged(why)) if why.contains("holds no store")), "{opened:?}");
    };
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path());
    commit(&store, &[judged("s1", 0, full_step())]);
    drop(store);
    let db = folder.path().join("store-1/db");
    let whole = fs::read(&db).unwrap();
    fs::write(&db, "").unwrap();
    damaged(folder.path());
    fs::remove_file(&db).unwrap();
    damaged(folder.path());
    assert!(!db.exists(), "nothing is made in its place");
    // One that stands beside it is nobody's to remove.
    fs::create_dir(folder.path().join("store-9")).unwrap();
    fs::write(&db, whole).unwrap();
    assert_eq!(read(&open_sled(folder.path()), 1).len(), 1);
    assert!(folder.path().join("store-9").exists());
}
