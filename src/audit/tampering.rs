//! What happens to a chain that somebody meddled with: each change is found, at its place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::{ops::ControlFlow, sync::Arc};

use crate::model::{Digest, Step};

use super::*;

/// A record as somebody may change it, with its payload.
#[derive(Clone, Debug)]
struct Kept {
    bytes: Vec<u8>,
    link: Digest,
    payload: Option<Payload>,
}

fn pack() -> Arc<PackRef> {
    Arc::new(PackRef { name: "airline".into(), version: "1.0.0".into(), digest: Digest::new([7; 32]) })
}

fn judged(seq: u64) -> Draft {
    Draft::Judged {
        session: "s".into(),
        agent: "a".into(),
        pack: pack(),
        mode: Mode::Gate,
        item: ItemKind::Message,
        seq,
        input: Digest::new([seq as u8; 32]),
        step: Arc::new(Step::default()),
    }
}

fn checkpoint_key() -> CheckpointKey {
    CheckpointKey::new([5; 32])
}

fn drafts(before: Head) -> Vec<Draft> {
    let checkpoint = Checkpoint::new(before, 1_700_000_000_000, Some(&checkpoint_key()));
    let report = JudgeReport {
        session: "s".into(),
        pack: pack(),
        policy: "A01".into(),
        turn: 3,
        hit: true,
        judge_id: "j".into(),
    };
    let lost = Loss { count: 2, sessions: vec![("s".into(), 4, 5)] };
    let closed = Closed { session: "s".into(), pack: Some(pack()), reason: CloseReason::Idle };
    vec![
        Draft::Checkpoint(Arc::new(checkpoint)),
        Draft::Activated(Activation { pack: pack(), commit: None }),
        judged(0),
        Draft::Judge(report),
        Draft::Drift(Arc::new(drift_layout::tests::record(true))),
        Draft::Lost(Arc::new(lost)),
        judged(1),
        Draft::Closed(closed),
        Draft::Pruned { first: 1 },
        Draft::Refused(Arc::new(Refusal {
            fingerprint: Digest::new([3; 32]),
            errors: 2,
            codes: vec!["P0201".into(), "P0301".into()],
        })),
        Draft::SetAside(Arc::new(SetAside { folder: "damaged-1".into(), reason: "its head is gone".into() })),
    ]
}

/// A store with one record of each kind, and its records.
fn sample() -> (MemoryStore, Vec<Kept>) {
    let store = MemoryStore::default();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
    for draft in drafts(store.head().unwrap()) {
        builder.push(&draft, 1_700_000_000_000);
    }
    store.append(&builder.finish(), Safety::Disk).unwrap();
    let records = kept(&store);
    (store, records)
}

fn kept(store: &dyn Store) -> Vec<Kept> {
    let mut records = Vec::new();
    for block in store.blocks(1, 100).unwrap() {
        for entry in entries(&block.bytes).unwrap().1 {
            let decoded = decode_record(entry.bytes).unwrap();
            let payload = decoded.record.payload_session().and_then(|session| {
                store.payload(&PayloadKey { session: session.clone(), number: entry.number }).unwrap()
            });
            records.push(Kept { bytes: entry.bytes.to_vec(), link: entry.link, payload });
        }
    }
    records
}

fn verify_with(base: Head, records: &[Kept], end: Head, trust: Trust) -> Verified {
    let mut verifier = Verifier::new(base, trust);
    for (number, kept) in (base.last + 1..).zip(records) {
        let entry = Entry { number, bytes: &kept.bytes, link: kept.link };
        if !verifier.take(&entry, |_| kept.payload.clone()) {
            break;
        }
    }
    verifier.finish(end)
}

/// The place of the first fault; 0 if there is none.
fn place(verified: &Verified) -> RecordNumber {
    match verified.faults.first() {
        None => 0,
        Some(
            Fault::Missing { expected: at, .. }
            | Fault::Changed { number: at }
            | Fault::Unreadable { number: at, .. }
            | Fault::Payload { number: at }
            | Fault::Checkpoint { number: at },
        ) => *at,
        // The end is one behind the last record that is there.
        Some(Fault::End { found, .. }) => found + 1,
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn what_nobody_touched_is_whole() {
    let (store, records) = sample();
    let verified = verify_store(&store, Trust::default()).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!((verified.head, verified.checkpoints, verified.signed), (store.head().unwrap(), 1, 1));
    assert_eq!(records.len(), 11);
    assert!(records[4].payload.is_some());
}

/// A store with a record in each block.
fn in_blocks(count: u64) -> FaultyStore {
    let store = FaultyStore::default();
    for seq in 0..count {
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        builder.push(&judged(seq), 1_700_000_000_000);
        store.append(&builder.finish(), Safety::Disk).unwrap();
    }
    store
}

#[test]
fn what_is_pruned_while_it_is_read_is_no_fault() {
    for first in [1, 2, 17, 40] {
        let store = in_blocks(40);
        store.prune_at_next_read(first);
        let verified = verify_store(&store, Trust::default()).unwrap();
        assert!(verified.is_whole(), "{verified:?}");
        assert_eq!((verified.base.last + 1, verified.head.last), (first, 40));
    }
}

#[test]
fn every_flipped_bit_is_found_at_its_record() {
    let (store, records) = sample();
    let (base, end) = (store.base().unwrap(), store.head().unwrap());
    let mut flips = 0;
    for n in 0..records.len() {
        let at = n as u64 + 1;
        let mut found = |change: &dyn Fn(&mut Kept)| {
            let mut changed = records.clone();
            change(&mut changed[n]);
            let verified = verify_with(base, &changed, end, Trust::default());
            assert_eq!(place(&verified), at, "{verified:?}");
            flips += 1;
        };
        for byte in 0..records[n].bytes.len() {
            for bit in 0..8 {
                found(&|kept| kept.bytes[byte] ^= 1 << bit);
            }
        }
        for byte in 0..32 {
            found(&|kept| {
                let mut link = *kept.link.bytes();
                link[byte] ^= 1;
                kept.link = Digest::new(link);
            });
        }
        if let Some(payload) = &records[n].payload {
            for byte in 0..payload.bytes().len() {
                found(&|kept| {
                    let mut bytes = kept.payload.as_ref().unwrap().bytes().to_vec();
                    bytes[byte] ^= 1;
                    kept.payload = Payload::from_bytes(bytes);
                });
            }
        }
    }
    assert!(flips > 5_000, "{flips}");
}

#[test]
fn removed_swapped_repeated_put_in_and_cut_records_are_found_at_their_place() {
    let (store, records) = sample();
    let (base, end) = (store.base().unwrap(), store.head().unwrap());
    let verify = |records: &[Kept]| verify_with(base, records, end, Trust::default());
    for n in 0..records.len() {
        let at = n as u64 + 1;
        let mut without = records.clone();
        without.remove(n);
        assert_eq!(place(&verify(&without)), at, "removed");
        let mut twice = records.clone();
        twice.insert(n, records[n].clone());
        // The first of the two is right where it stands.
        assert_eq!(place(&verify(&twice)), at + 1, "repeated");
        let mut foreign = records.clone();
        foreign.insert(n, Kept { bytes: records[n].bytes.clone(), link: Digest::new([0; 32]), payload: None });
        assert_eq!(place(&verify(&foreign)), at, "put in");
        if n + 1 < records.len() {
            let mut swapped = records.clone();
            swapped.swap(n, n + 1);
            assert_eq!(place(&verify(&swapped)), at, "swapped");
        }
        assert_eq!(place(&verify(&records[..n])), at, "cut");
    }
}

#[test]
fn a_chain_of_another_store_does_not_pass() {
    let (store, records) = sample();
    let other = Head::genesis(StoreId::new([9; 16]));
    assert_eq!(place(&verify_with(other, &records, store.head().unwrap(), Trust::default())), 1);
}

/// The sample, written anew with one judgement left out: a chain that is whole in itself.
fn rewritten() -> MemoryStore {
    let store = MemoryStore::default();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
    let drafts = drafts(store.head().unwrap());
    for draft in drafts.iter().take(6).chain(drafts.iter().skip(7)) {
        builder.push(draft, 1_700_000_000_000);
    }
    store.append(&builder.finish(), Safety::Disk).unwrap();
    store
}

#[test]
fn a_checkpoint_from_elsewhere_finds_what_the_chain_cannot() {
    let (store, records) = sample();
    let head = store.head().unwrap();
    let at = |last: u64, link: Digest| Checkpoint::new(Head { last, link, ..head }, 5, Some(&checkpoint_key()));
    let checkpoints = vec![at(3, records[2].link), at(11, head.link)];
    let trust = |checkpoints: Vec<Checkpoint>| Trust { checkpoints, public_key: Some(checkpoint_key().public()) };
    let verified = verify_store(&store, trust(checkpoints.clone())).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(verified.confirmed, 2);

    // A store that was rolled back, and one that was written anew, are whole in themselves.
    let behind = Head { last: 5, link: records[4].link, ..head };
    let back = |trust| verify_with(store.base().unwrap(), &records[..5], behind, trust).faults;
    assert_eq!(back(Trust::default()), []);
    assert_eq!(back(trust(checkpoints.clone())), [Fault::Cut { from: 6, last: 11 }]);
    let anew = rewritten();
    assert!(verify_store(&anew, Trust::default()).unwrap().is_whole());
    let shorter = verify_store(&anew, trust(checkpoints.clone())).unwrap().faults;
    assert_eq!(shorter, [Fault::Cut { from: 11, last: 11 }]);
    let mut builder = BatchBuilder::new(anew.head().unwrap(), [1; 32]);
    builder.push(&judged(9), 1_700_000_000_000);
    anew.append(&builder.finish(), Safety::Disk).unwrap();
    assert_eq!(verify_store(&anew, trust(checkpoints)).unwrap().faults, [Fault::Rewritten { last: 11 }]);

    // Checkpoints that prove nothing.
    let unsigned = Checkpoint::new(head, 5, None);
    assert_eq!(verify_store(&store, trust(vec![unsigned])).unwrap().faults, [Fault::Unsigned { last: 11 }]);
    let stranger = Checkpoint::new(head, 5, Some(&CheckpointKey::new([6; 32])));
    assert_eq!(verify_store(&store, trust(vec![stranger])).unwrap().faults, [Fault::Unsigned { last: 11 }]);
    let mut forged = at(11, head.link);
    forged.at_millis = 6;
    assert_eq!(verify_store(&store, trust(vec![forged])).unwrap().faults, [Fault::Signature { last: 11 }]);
    let elsewhere = Checkpoint::new(Head::genesis(StoreId::new([9; 16])), 5, Some(&checkpoint_key()));
    let faults = verify_store(&store, trust(vec![elsewhere])).unwrap().faults;
    assert!(matches!(faults.as_slice(), [Fault::OtherStore { last: 0, .. }]), "{faults:?}");
}

/// Records behind another base, numbered and linked anew; without checkpoints, which nobody can forge.
fn moved(base: Head, records: &[Kept]) -> Vec<Kept> {
    let mut head = base;
    let mut forged = Vec::new();
    for kept in records.iter().filter(|kept| !matches!(body(kept), Body::Checkpoint(_))) {
        let mut bytes = vec![kept.bytes[0]];
        bytes::put_number(&mut bytes, head.last + 1);
        // The numbers of the sample take one byte.
        bytes.extend_from_slice(&kept.bytes[2..]);
        head = head.after(&bytes);
        forged.push(Kept { bytes, link: head.link, payload: kept.payload.clone() });
    }
    forged
}

fn body(kept: &Kept) -> Body {
    decode_record(&kept.bytes).unwrap().record.body
}

#[test]
fn a_chain_that_is_written_anew_behind_all_checkpoints_is_found() {
    let (store, records) = sample();
    let head = store.head().unwrap();
    let fourth = Head { last: 4, link: records[3].link, ..head };
    let kept = [fourth, head].map(|head| Checkpoint::new(head, 5, Some(&checkpoint_key())));
    let base = Head { last: 1011, link: Digest::new([8; 32]), ..head };
    let forged = moved(base, &records);
    let end = Head { last: 1021, link: forged[9].link, ..head };
    let verify = |checkpoints: &[Checkpoint], public_key| {
        verify_with(base, &forged, end, Trust { checkpoints: checkpoints.to_vec(), public_key }).faults
    };
    let none = Fault::Unconfirmed { given: 2, base: 1011, last: 11 };
    assert_eq!(verify(&kept, None), std::slice::from_ref(&none));
    assert_eq!(verify(&kept, Some(checkpoint_key().public())), [none.clone(), Fault::Unvouched]);
    assert_eq!(verify(&[], Some(checkpoint_key().public())), [Fault::Unvouched]);
    assert_eq!(
        none.to_string(),
        "none of the 2 checkpoints from elsewhere lies on the chain that is held: it begins behind record 1011, and \
         they tell of record 11 and those before"
    );
    // Nothing to hold it against: as a store that was pruned it is whole in itself.
    assert_eq!(verify(&[], None), []);
    // One before the base, and one behind the end.
    let later = Checkpoint::new(Head { last: 2000, ..head }, 7, Some(&checkpoint_key()));
    let (cut, none) = (Fault::Cut { from: 1022, last: 2000 }, Fault::Unconfirmed { given: 2, base: 1011, last: 4 });
    assert_eq!(verify(&[kept[0], later], None), [cut, none]);
}

#[test]
fn a_store_that_was_pruned_verifies_with_checkpoints_of_what_it_holds_and_without_any() {
    let store = MemoryStore::default();
    let append = |drafts: &[Draft]| {
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        drafts.iter().for_each(|draft| builder.push(draft, 1_700_000_000_000));
        store.append(&builder.finish(), Safety::Disk).unwrap();
        Checkpoint::new(store.head().unwrap(), 5, Some(&checkpoint_key()))
    };
    let [early, at_base, late] = [0, 1, 2].map(|seq| append(&[judged(seq)]));
    store.prune(3).unwrap();
    let key = Some(checkpoint_key().public());
    let verify = |checkpoints: &[Checkpoint], public_key| {
        let verified = verify_store(&store, Trust { checkpoints: checkpoints.to_vec(), public_key }).unwrap();
        (verified.confirmed, verified.faults)
    };
    assert_eq!(verify(&[], None), (0, vec![]));
    assert_eq!(verify(&[early, at_base, late], key), (2, vec![]));
    assert_eq!(verify(&[at_base], key), (1, vec![]));
    assert_eq!(verify(&[early], None), (0, vec![Fault::Unconfirmed { given: 1, base: 2, last: 1 }]));
    // A checkpoint of its own will do for a key.
    assert_eq!(verify(&[], key), (0, vec![Fault::Unvouched]));
    append(&[Draft::Checkpoint(Arc::new(late))]);
    assert_eq!(verify(&[], key), (0, vec![]));
    // Where nothing is held, nothing can be signed.
    let empty = MemoryStore::default();
    assert!(verify_store(&empty, Trust { checkpoints: vec![], public_key: key }).unwrap().is_whole());
}

#[test]
fn a_chain_must_begin_with_its_store() {
    let (store, _) = sample();
    let mut lines = export(&store);
    let begun = lines[0].replace("\"store\":\"0", "\"store\":\"1");
    assert_ne!(begun, lines[0]);
    lines[0] = begun;
    assert_eq!(import(&lines).unwrap().0.faults, [Fault::Genesis]);
}

#[test]
fn a_checkpoint_in_the_chain_must_fit_it() {
    let store = MemoryStore::default();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
    builder.push(&judged(0), 1);
    let wrong = Checkpoint::new(store.head().unwrap(), 1, None);
    builder.push(&Draft::Checkpoint(Arc::new(wrong)), 1);
    store.append(&builder.finish(), Safety::Disk).unwrap();
    assert_eq!(verify_store(&store, Trust::default()).unwrap().faults, [Fault::Checkpoint { number: 2 }]);
}

fn export(store: &dyn Store) -> Vec<String> {
    let mut lines = vec![head_line(store.base().unwrap())];
    for (number, kept) in (1..).zip(kept(store)) {
        let entry = Entry { number, bytes: &kept.bytes, link: kept.link };
        lines.push(record_line(&entry, kept.payload.as_ref()).unwrap());
    }
    lines.push(end_line(store.head().unwrap()));
    lines
}

/// Verifies lines; gives a store that was rebuilt from them too.
fn import(lines: &[String]) -> Result<(Verified, MemoryStore), ExportError> {
    let store = MemoryStore::default();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [2; 32]);
    let lines = lines.iter().cloned().map(Ok::<_, ExportError>);
    let verified = verify_export(
        lines,
        Trust::default(),
        |_| Ok(()),
        |record, Imported { bytes, payload, .. }| {
            builder.push_recorded(record, &bytes, payload);
            Ok(())
        },
    )?;
    store.append(&builder.finish(), Safety::Disk).unwrap();
    Ok((verified, store))
}

#[test]
fn an_export_verifies_and_a_store_rebuilt_from_it_is_the_same() {
    let (store, _) = sample();
    let lines = export(&store);
    let (verified, rebuilt) = import(&lines).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(rebuilt.head().unwrap(), store.head().unwrap());
    assert_eq!(export(&rebuilt), lines);
    assert!(verify_store(&rebuilt, Trust::default()).unwrap().is_whole());
    let mut read = Vec::new();
    scan(&rebuilt, 1, |record| {
        read.push(record);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(read.len(), 11);
}

#[test]
fn an_export_that_shows_something_else_than_its_bytes_say_is_found() {
    let (store, _) = sample();
    let lines = export(&store);
    let changed = |n: usize, from: &str, to: &str| {
        let mut lines = lines.clone();
        assert!(lines[n].contains(from), "{}", lines[n]);
        lines[n] = lines[n].replacen(from, to, 1);
        import(&lines).unwrap().0.faults
    };
    assert_eq!(changed(3, "\"seq\":0", "\"seq\":1"), [Fault::Shown { number: 3 }]);
    assert_eq!(changed(4, "\"hit\":true", "\"hit\":false"), [Fault::Shown { number: 4 }]);
    assert_eq!(changed(3, "\"kind\":\"judged\"", "\"kind\":\"judge\""), [Fault::Shown { number: 3 }]);
    assert_eq!(changed(3, "2023-", "2024-"), [Fault::Shown { number: 3 }]);
    assert_eq!(changed(3, "\"number\":3", "\"number\":4"), [Fault::Missing { expected: 3, found: 4 }]);
    let end = lines.len() - 1;
    assert_eq!(changed(end, "\"last\":11", "\"last\":12"), [Fault::End { expected: 12, found: 11 }]);
    let mut without = lines.clone();
    without.remove(5);
    assert_eq!(import(&without).unwrap().0.faults, [Fault::Missing { expected: 5, found: 6 }]);
    assert!(matches!(import(&lines[..end]), Err(ExportError::Cut)));
    assert!(matches!(import(&[]), Err(ExportError::Cut)));
    assert!(matches!(import(&lines[1..]), Err(ExportError::Form { line: 1, .. })));
    let said = |lines: &[String]| import(lines).unwrap_err().to_string();
    assert_eq!(said(&[lines[0].clone(), lines[0].clone()]), "line 2: a second head");
    for behind in [lines[end].as_str(), lines[1].as_str(), "", "{"] {
        let longer = [lines.as_slice(), &[behind.to_owned()]].concat();
        assert_eq!(said(&longer), "line 14: a line behind the one that says where the chain ends");
    }
    assert!(said(&[lines[0].clone(), "{".to_owned()]).starts_with("line 2: EOF while parsing"));
}

#[test]
fn an_erased_payload_is_told_in_an_export_and_is_no_fault() {
    let (store, _) = sample();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
    builder.push(&Draft::Erased { session: "s".into() }, 1_700_000_000_000);
    store.append(&builder.finish(), Safety::Disk).unwrap();
    let lines = export(&store);
    assert!(lines[5].contains("\"erased\":true"), "{}", lines[5]);
    let (verified, _) = import(&lines).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(verified.erased, 1);
}

#[test]
fn a_payload_that_the_record_does_not_tell_of_is_found() {
    let (store, _) = sample();
    let lines = export(&store);
    let with = |n: usize, payload: &[u8]| {
        let mut lines = lines.clone();
        let mut line: serde_json::Value = serde_json::from_str(&lines[n]).unwrap();
        line["payload"] = data_encoding::BASE64.encode(payload).into();
        lines[n] = line.to_string();
        import(&lines).unwrap().0.faults
    };
    for (n, payload) in [(3, [1; 40].as_slice()), (4, &[]), (8, &[1; 40])] {
        assert_eq!(with(n, payload), [Fault::Stray { number: n as u64 }]);
    }
    // Too short to be one: changed, and not erased.
    let faults = with(5, &[1; 3]);
    assert_eq!(faults[0], Fault::Payload { number: 5 });
}
