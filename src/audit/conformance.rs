//! What every store must do, run on each of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::{ops::ControlFlow, sync::Arc};

use crate::model::{
    CallAnswer, Condition, Digest, Effect, Evidence, Firing, Gate, Hit, Malformed, Num, Signal, Step, Undecided,
};

use super::*;

/// What stands in for a value of a trace: nothing that is stored may contain it.
const SECRET: &str = "mia.li@example.com";

pub(in crate::audit) fn pack(version: &str) -> Arc<PackRef> {
    Arc::new(PackRef { name: "airline".into(), version: version.into(), digest: Digest::new([7; 32]) })
}

fn firing(policy: &str) -> Firing {
    Firing {
        policy: policy.into(),
        message: format!("a message that quotes {SECRET}"),
        evidence: Evidence {
            seq: 9,
            conditions: vec![
                Condition { source: "tool = \"x\"".into(), holds: true, rests_on: vec![2, 3, 300] },
                Condition { source: "known(y)".into(), holds: false, rests_on: vec![] },
            ],
        },
    }
}

fn hit(policy: &str, turn: u32, reward: &str) -> Hit {
    Hit { firing: firing(policy), turn, n: 0, reward: reward.parse().unwrap() }
}

pub(in crate::audit) fn judged(session: &str, seq: u64, step: Step) -> Draft {
    Draft::Judged {
        session: session.into(),
        agent: "agent-7".into(),
        pack: pack("1.0.0"),
        mode: Mode::Gate,
        item: ItemKind::Message,
        seq,
        input: Digest::new([8; 32]),
        step: Arc::new(step),
    }
}

pub(in crate::audit) fn full_step() -> Step {
    Step {
        speaker: None,
        turn: 4,
        calls: vec![
            CallAnswer { index: 0, call_id: SECRET.to_owned(), gate: Gate::Allow },
            CallAnswer { index: 2, call_id: String::new(), gate: Gate::Deny },
        ],
        hits: vec![hit("A01", 4, "0.5"), hit("A02", 4, "1e30")],
        undecided: vec![Undecided { policy: "A03".into(), turn: 4, reason: "args.reservation_id".to_owned() }],
        malformed: vec![Malformed { turn: 4, reason: "a result whose call cannot be found".to_owned() }],
        signals: vec![Signal { firing: firing("R01"), turn: 4, effect: Effect::Review }],
    }
}

/// Builds one batch of drafts, as the writer does.
pub(in crate::audit) fn batch(head: Head, drafts: &[Draft]) -> Batch {
    let mut builder = BatchBuilder::new(head, [1; 32]);
    for draft in drafts {
        builder.push(draft, 1_700_000_000_000);
    }
    builder.finish()
}

pub(in crate::audit) fn commit(store: &dyn Store, drafts: &[Draft]) {
    store.append(&batch(store.head().unwrap(), drafts), Safety::Disk).unwrap();
}

pub(in crate::audit) fn read(store: &dyn Store, from: RecordNumber) -> Vec<Record> {
    let mut records = Vec::new();
    scan(store, from, |record| {
        records.push(record);
        ControlFlow::Continue(())
    })
    .unwrap();
    records
}

pub(in crate::audit) fn hits(store: &dyn Store, policy: &str, span: Span) -> u64 {
    store.tally(&TallyKey { pack: "airline".into(), span, policy: policy.into() }).unwrap().hits
}

fn an_empty_store_has_nothing(store: &dyn Store) {
    assert_eq!(store.last().unwrap(), 0);
    assert_eq!(store.blocks(0, 10).unwrap(), []);
    assert_eq!(read(store, 1), []);
    assert_eq!(hits(store, "A01", Span::AllTime), 0);
    assert_eq!(store.tallies("airline", &Span::AllTime).unwrap(), []);
    assert_eq!(store.head().unwrap(), Head::genesis(store.head().unwrap().store));
    assert_eq!(store.base().unwrap(), store.head().unwrap());
    assert!(verify_store(store, Trust::default()).unwrap().is_whole());
}

fn records_come_back_as_they_were(store: &dyn Store) {
    let report = JudgeReport {
        session: "s1".into(),
        pack: pack("1.0.0"),
        policy: "S1".into(),
        turn: 3,
        hit: true,
        judge_id: "judge-a".into(),
    };
    let reading = Reading {
        session: "s1".into(),
        pack: pack("1.0.0"),
        record: 300,
        principal: "kim".into(),
        reason: "case 7".into(),
    };
    let drafts = [
        Draft::Activated(Activation { pack: pack("1.0.0"), commit: None }),
        judged("s1", 0, full_step()),
        Draft::Judge(report.clone()),
        Draft::Reading(reading.clone()),
    ];
    commit(store, &drafts);
    let records = read(store, 1);
    assert_eq!(records.iter().map(|r| r.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(records.iter().all(|r| r.at_millis == 1_700_000_000_000));
    assert_eq!(records[0].body, Body::Activated(Activation { pack: pack("1.0.0"), commit: None }));
    assert_eq!(records[2].body, Body::Judge(report));
    assert_eq!(records[3].body, Body::Reading(reading));
    let Body::Judged(j) = &records[1].body else { panic!("{records:?}") };
    assert_eq!((j.session.as_ref(), j.seq, j.turn, j.mode, j.item), ("s1", 0, 4, Mode::Gate, ItemKind::Message));
    assert_eq!(j.pack, pack("1.0.0"));
    assert_eq!((j.agent.as_ref(), j.input), ("agent-7", Digest::new([8; 32])));
    assert_eq!(j.calls[1], CallRecord { index: 2, gate: Gate::Deny });
    let conditions = vec![
        ConditionRecord { holds: true, rests_on: vec![2, 3, 300] },
        ConditionRecord { holds: false, rests_on: vec![] },
    ];
    assert_eq!(
        j.hits[1],
        HitRecord {
            policy: "A02".into(),
            turn: 4,
            n: 0,
            reward: "1e30".parse().unwrap(),
            event: 9,
            conditions: conditions.clone()
        }
    );
    assert_eq!(j.hits[0].reward, "0.5".parse::<Num>().unwrap());
    assert_eq!(
        j.signals,
        [SignalRecord { policy: "R01".into(), turn: 4, effect: Effect::Review, event: 9, conditions }]
    );
    assert_eq!(j.undecided, [("A03".into(), 4, "args.reservation_id".to_owned())]);
    assert_eq!(j.malformed, [(4, "a result whose call cannot be found".to_owned())]);
}

fn no_value_of_a_trace_is_stored(store: &dyn Store) {
    commit(store, &[judged("s1", 0, full_step())]);
    for block in store.blocks(1, 10).unwrap() {
        assert!(!block.bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()));
    }
}

fn numbers_run_on_over_batches_and_blocks(store: &dyn Store) {
    // Many enough that one batch needs several blocks.
    let many: Vec<Draft> = (0..600).map(|seq| judged("s1", seq, full_step())).collect();
    for drafts in many.chunks(250) {
        commit(store, drafts);
    }
    assert_eq!(store.last().unwrap(), 600);
    assert!(store.blocks(1, usize::MAX).unwrap().len() > 3);
    let seqs: Vec<u64> = read(store, 1)
        .iter()
        .map(|r| match &r.body {
            Body::Judged(j) => j.seq,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seqs, (0..600).collect::<Vec<_>>());
}

fn reading_starts_at_any_record(store: &dyn Store) {
    let drafts: Vec<Draft> = (0..300).map(|seq| judged("s1", seq, full_step())).collect();
    commit(store, &drafts[..10]);
    commit(store, &drafts[10..]);
    for from in [0, 1, 2, 10, 11, 12, 150, 299, 300] {
        let records = read(store, from);
        assert_eq!(records.first().unwrap().number, from.max(1));
        assert_eq!(records.last().unwrap().number, 300);
    }
    assert_eq!(read(store, 301), []);
}

fn counters_add_up_per_span(store: &dyn Store) {
    let one = |policy: &str| Step { hits: vec![hit(policy, 1, "1")], ..Step::default() };
    commit(store, &[judged("s1", 0, one("A01")), judged("s1", 1, one("A01")), judged("s2", 0, one("A01"))]);
    commit(store, &[judged("s2", 1, one("A02")), judged("s1", 2, full_step())]);
    let newer = Draft::Judged {
        session: "s3".into(),
        agent: "".into(),
        pack: pack("1.1.0"),
        mode: Mode::Episode,
        item: ItemKind::End,
        seq: 0,
        input: Digest::new([0; 32]),
        step: Arc::new(one("A01")),
    };
    commit(store, &[newer]);
    assert_eq!(hits(store, "A01", Span::AllTime), 5);
    assert_eq!(hits(store, "A01", Span::Version("1.0.0".into())), 4);
    assert_eq!(hits(store, "A01", Span::Version("1.1.0".into())), 1);
    assert_eq!(hits(store, "A01", Span::Session("s1".into())), 3);
    assert_eq!(hits(store, "A01", Span::Session("s2".into())), 1);
    assert_eq!(hits(store, "A02", Span::Session("s2".into())), 1);
    let session = store.tallies("airline", &Span::Session("s1".into())).unwrap();
    let hits = |hits: u64, reward: &str| Tally {
        hits,
        sessions: hits,
        reward: reward.parse().unwrap(),
        last_hit_millis: 1_700_000_000_000,
        ..Tally::default()
    };
    assert_eq!(
        session,
        [
            ("A01".to_owned(), hits(3, "2.5")),
            ("A02".to_owned(), hits(1, "1e30")),
            ("A03".to_owned(), Tally { undecided: 1, ..Tally::default() }),
            ("R01".to_owned(), Tally { signals: 1, ..Tally::default() }),
        ]
    );
    // Neither a session nor a pack whose name begins like another's is mistaken for it.
    assert_eq!(store.tallies("airline", &Span::Session("s".into())).unwrap(), []);
    assert_eq!(store.tallies("air", &Span::AllTime).unwrap(), []);
}

fn only_the_first_hit_of_a_session_counts_the_session(store: &dyn Store) {
    let nth = |n: u32| Step { hits: vec![Hit { n, ..hit("A01", 1, "0.25") }], ..Step::default() };
    commit(store, &[judged("s1", 0, nth(0)), judged("s1", 1, nth(1))]);
    commit(store, &[judged("s1", 2, nth(2)), judged("s2", 0, nth(0))]);
    let key = TallyKey { pack: "airline".into(), span: Span::AllTime, policy: "A01".into() };
    let tally = store.tally(&key).unwrap();
    assert_eq!((tally.hits, tally.sessions, tally.reward), (4, 2, "1".parse().unwrap()));
}

/// The numbers of a posting's blocks, and of the records in them that name it.
fn posted(store: &dyn Store, posting: &Posting, from: RecordNumber) -> Vec<RecordNumber> {
    let mut numbers = Vec::new();
    scan_posted(store, posting, from, |record| {
        if record.names().postings().contains(posting) {
            numbers.push(record.number);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    numbers
}

fn records_are_found_by_session_and_policy(store: &dyn Store) {
    let quiet = || Step::default();
    commit(store, &[judged("s1", 0, full_step()), judged("s2", 0, quiet())]);
    // Enough that the next one of the first session lies in another block.
    let many: Vec<Draft> = (1..500).map(|seq| judged("s2", seq, full_step())).collect();
    commit(store, &many);
    commit(store, &[judged("s1", 1, quiet()), Draft::Activated(Activation { pack: pack("1.1.0"), commit: None })]);
    let s1 = Posting::Session("s1".into());
    assert_eq!(posted(store, &s1, 0), [1, 502]);
    assert_eq!(posted(store, &s1, 2), [502]);
    assert_eq!(posted(store, &s1, 502), [502]);
    assert_eq!(posted(store, &s1, 503), [0; 0]);
    assert_eq!(posted(store, &Posting::Session("s".into()), 0), [0; 0]);
    assert_eq!(store.postings(&s1, RecordNumber::MAX, 1).unwrap(), [502]);
    assert_eq!(store.postings(&s1, 0, 10).unwrap(), [1, 502]);
    assert_eq!(store.postings(&s1, 400, 10).unwrap(), [1, 502]);
    let policy = |policy: &str| Posting::Policy { pack: "airline".into(), policy: policy.into() };
    assert_eq!(posted(store, &policy("A03"), 0).len(), 500);
    assert_eq!(posted(store, &policy("A0"), 0), [0; 0]);
}

fn drift(session: &str, answer: &str) -> Draft {
    let mut record = drift_layout::tests::record(true);
    record.session = session.into();
    record.answers = Answers { snapshot: answer.to_owned(), shadow: "{}".to_owned(), ..Answers::default() };
    Draft::Drift(Arc::new(record))
}

fn answers(store: &dyn Store) -> Vec<(String, bool)> {
    let signals = read(store, 1).into_iter().filter_map(|record| match record.body {
        Body::Drift(drift) => Some((drift.answers.snapshot, record.erased)),
        _ => None,
    });
    signals.collect()
}

fn payloads_can_be_erased_and_the_chain_still_verifies(store: &dyn Store) {
    let large = format!("[{}3]", "3, ".repeat(20_000));
    commit(store, &[drift("s1", "[1]"), drift("s2", "[2]"), drift("s1", &large), drift("s11", "[4]")]);
    let kept = |texts: &[(&str, bool)]| texts.iter().map(|(t, e)| ((*t).to_owned(), *e)).collect::<Vec<_>>();
    assert_eq!(answers(store), kept(&[("[1]", false), ("[2]", false), (&large, false), ("[4]", false)]));
    // What comes behind in the same commit stays.
    let erased = || Draft::Erased { session: "s1".into() };
    commit(store, &[drift("s1", "[5]"), erased(), drift("s1", "[6]")]);
    let after = kept(&[("", true), ("[2]", false), ("", true), ("[4]", false), ("", true), ("[6]", false)]);
    assert_eq!(answers(store), after);
    let verified = verify_store(store, Trust::default()).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(verified.erased, 3);
}

fn requests_are_remembered_as_long_as_their_records(store: &dyn Store) {
    let key = |id: &str| RequestKey { method: "ReportJudge", id: id.into() };
    let print = Digest::new([4; 32]);
    assert_eq!(store.answered(&key("r1")).unwrap(), None);
    for (round, id) in ["r1", "r11"].iter().enumerate() {
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        builder.push(&judged("s1", round as u64, full_step()), 1_700_000_000_000);
        builder.answers(key(id), print);
        store.append(&builder.finish(), Safety::Disk).unwrap();
    }
    assert_eq!(store.answered(&key("r1")).unwrap(), Some(Answered { print, record: 1 }));
    assert_eq!(store.answered(&key("r11")).unwrap(), Some(Answered { print, record: 2 }));
    assert_eq!(store.answered(&RequestKey { method: "Report", id: "r1".into() }).unwrap(), None);
    let size = store.size().unwrap();
    assert_eq!(size, store.blocks(1, 10).unwrap().iter().map(|block| block.bytes.len() as u64).sum::<u64>());
    store.prune(2).unwrap();
    assert_eq!(store.size().unwrap(), size / 2);
    assert_eq!(store.answered(&key("r1")).unwrap(), None);
    assert!(store.answered(&key("r11")).unwrap().is_some());
}

fn what_was_pruned_is_gone_and_the_rest_still_verifies(store: &dyn Store) {
    for round in 0..6 {
        let drafts: Vec<Draft> = (0..100).map(|n| judged("s1", round * 100 + n, full_step())).collect();
        commit(store, &drafts);
        commit(store, &[drift("s2", "[1]")]);
    }
    let (before, hits_before) = (store.head().unwrap(), hits(store, "A01", Span::AllTime));
    let kept_elsewhere = Checkpoint::new(before, 0, None);
    let base = store.prune(303).unwrap();
    assert!(base.last < 303 && base.last >= 202, "{base:?}");
    assert_eq!(store.base().unwrap(), base);
    assert_eq!(store.head().unwrap(), before);
    assert_eq!(read(store, 1).first().unwrap().number, base.last + 1);
    assert_eq!(hits(store, "A01", Span::AllTime), hits_before, "counters stay");
    assert!(store.postings(&Posting::Session("s1".into()), 0, 100).unwrap().iter().all(|first| *first > base.last));
    assert_eq!(answers(store).iter().filter(|(_, erased)| *erased).count(), 0);
    let trust = Trust { checkpoints: vec![kept_elsewhere], public_key: None };
    let verified = verify_store(store, trust).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(verified.confirmed, 1);
    commit(store, &[judged("s1", 600, full_step())]);
    assert_eq!(store.prune(0).unwrap(), base);
    assert!(verify_store(store, Trust::default()).unwrap().is_whole());
    // All of it may go.
    let end = store.head().unwrap();
    assert_eq!(store.prune(end.last + 1).unwrap(), end);
    assert_eq!(read(store, 1), []);
    commit(store, &[judged("s1", 601, full_step())]);
    assert!(verify_store(store, Trust::default()).unwrap().is_whole());
}

fn journals_come_and_go_with_a_commit(store: &dyn Store) {
    let add = |session: &str, number: u64, text: &str| JournalWrite {
        session: session.into(),
        change: JournalChange::Add { number, bytes: text.into() },
    };
    let gone = |session: &str| JournalWrite { session: session.into(), change: JournalChange::Drop };
    let commit = |writes: Vec<JournalWrite>| {
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        builder.journal(writes);
        let batch = builder.finish();
        assert!(!batch.is_empty());
        store.append(&batch, Safety::Disk).unwrap();
    };
    let read = |session: &str| {
        let entries = store.journal(session).unwrap().into_iter();
        entries.map(|(number, bytes)| format!("{number} {}", String::from_utf8(bytes).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(store.journaled(None, 10).unwrap(), [""; 0]);
    commit(vec![add("s1", 0, "a"), add("s1", 1, "b"), add("s11", 0, "c"), add("s2", 0, "d")]);
    commit(vec![add("s1", 2, "e"), add("s2", 300, "f")]);
    assert_eq!(read("s1"), ["0 a", "1 b", "2 e"]);
    assert_eq!(read("s2"), ["0 d", "300 f"]);
    assert_eq!(read("s"), [""; 0]);
    let mut all = Vec::new();
    loop {
        let after: Option<&String> = all.last();
        let page = store.journaled(after.map(String::as_str), 2).unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    all.sort();
    assert_eq!(all, ["s1", "s11", "s2"]);
    // What comes before in the same commit goes as well, what comes after stays.
    commit(vec![add("s1", 3, "g"), gone("s1"), add("s2", 301, "h"), gone("s2"), add("s2", 0, "i")]);
    assert_eq!(read("s1"), [""; 0]);
    assert_eq!(read("s2"), ["0 i"]);
    assert_eq!(read("s11"), ["0 c"]);
    // A large entry, and one of nothing.
    let large = "x".repeat(100_000);
    commit(vec![add("s3", 0, &large), add("s3", 1, ""), add("s3", 2, "end")]);
    assert_eq!(read("s3"), [format!("0 {large}"), "1 ".to_owned(), "2 end".to_owned()]);
    commit(vec![gone("s3")]);
    assert_eq!(store.journaled(None, 10).unwrap().len(), 2);
    commit(vec![gone("s1"), gone("s2"), gone("s11")]);
    assert_eq!(store.journaled(None, 10).unwrap(), [""; 0]);
}

fn a_batch_that_does_not_follow_on_is_refused_whole(store: &dyn Store) {
    let genesis = store.head().unwrap();
    commit(store, &[judged("s1", 0, full_step())]);
    let again = batch(genesis, &[judged("s1", 1, full_step())]);
    assert!(matches!(store.append(&again, Safety::Disk), Err(StoreError::Order { last: 1, got: 0 })));
    let mut torn = batch(store.head().unwrap(), &[judged("s1", 1, full_step())]);
    torn.blocks.clear();
    assert!(matches!(store.append(&torn, Safety::Disk), Err(StoreError::Order { .. })));
    assert_eq!(store.last().unwrap(), 1);
    assert_eq!(hits(store, "A01", Span::AllTime), 1);
    assert_eq!(store.recover().unwrap(), store.head().unwrap());
    commit(store, &[judged("s1", 1, full_step())]);
}

type Case = (&'static str, fn(&dyn Store));
const CASES: &[Case] = &[
    ("an_empty_store_has_nothing", an_empty_store_has_nothing),
    ("records_come_back_as_they_were", records_come_back_as_they_were),
    ("no_value_of_a_trace_is_stored", no_value_of_a_trace_is_stored),
    ("numbers_run_on_over_batches_and_blocks", numbers_run_on_over_batches_and_blocks),
    ("reading_starts_at_any_record", reading_starts_at_any_record),
    ("counters_add_up_per_span", counters_add_up_per_span),
    ("only_the_first_hit_of_a_session_counts_the_session", only_the_first_hit_of_a_session_counts_the_session),
    ("records_are_found_by_session_and_policy", records_are_found_by_session_and_policy),
    ("payloads_can_be_erased_and_the_chain_still_verifies", payloads_can_be_erased_and_the_chain_still_verifies),
    ("requests_are_remembered_as_long_as_their_records", requests_are_remembered_as_long_as_their_records),
    ("what_was_pruned_is_gone_and_the_rest_still_verifies", what_was_pruned_is_gone_and_the_rest_still_verifies),
    ("journals_come_and_go_with_a_commit", journals_come_and_go_with_a_commit),
    ("a_batch_that_does_not_follow_on_is_refused_whole", a_batch_that_does_not_follow_on_is_refused_whole),
];

fn run(mut open: impl FnMut() -> (Box<dyn Store>, Option<tempfile::TempDir>)) {
    for (name, case) in CASES {
        println!("{name}");
        let (store, _folder) = open();
        case(store.as_ref());
    }
}

pub(in crate::audit) fn open_sled(folder: &std::path::Path) -> SledStore {
    SledStore::open(folder, 1 << 20).unwrap()
}

#[test]
fn the_memory_store_conforms() {
    run(|| (Box::new(MemoryStore::default()), None));
}

#[test]
fn the_sled_store_conforms() {
    run(|| {
        let folder = tempfile::tempdir().unwrap();
        (Box::new(open_sled(folder.path())), Some(folder))
    });
}

#[test]
fn broken_bytes_are_errors_and_never_a_panic() {
    let head = Head::genesis(StoreId::new([0; 16]));
    let whole =
        batch(head, &[judged("s1", 0, full_step()), Draft::Activated(Activation { pack: pack("1"), commit: None })])
            .blocks
            .remove(0)
            .bytes;
    assert_eq!(decode_block(&whole).unwrap().len(), 2);
    for len in 0..whole.len() {
        assert!(decode_block(&whole[..len]).is_err(), "cut at {len}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            // Whether it still reads depends on the place; the chain finds every flip.
            let _ = decode_block(&flipped);
        }
    }
    let mut newer = whole.clone();
    newer[0] = 3;
    assert_eq!(decode_block(&newer), Err(LayoutError::Version(3)));
}
