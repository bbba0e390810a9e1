//! What each kind of question costs, and that it costs the same late in a session as early: windows, orders,
//! derivation, and a fact with many entries.
//!
//! Read the two figures of a group as a ratio; absolute times say more about the machine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use probity::{
    diag::Style,
    engine::{Pack, Session, load_pack_files},
    model::{Value, json},
};

/// Messages that are timed once a session has reached its length.
const TIMED: usize = 400;

/// Early and late in a session, in messages.
const LENGTHS: [usize; 2] = [400, 10_000];

/// One policy per kind of question.
const QUESTIONS: [(&str, &str); 5] = [
    ("nothing but the event", r#"policy P "p" { severity 1 on call pay deny if args.amount > 500 }"#),
    (
        "a sum in a window",
        r#"policy P "p" { severity 1 on call pay
           deny if args.amount + sum(it.args.amount over call pay where it.args.to == args.to within 30m) > 500000 }"#,
    ),
    (
        "an order of two and this",
        r#"policy P "p" { severity 1 on call pay
           deny if once(result read as seen then call look where it.args.id == seen.call.args.id without user then this) }"#,
    ),
    (
        "derived from a result",
        r#"policy P "p" { severity 1 on call pay deny if derived_from(args.to as string, result read) }"#,
    ),
    (
        "a fact with many entries",
        r#"fact account[json.id as string] = json as object from result read
           policy P "p" { severity 1 on call pay
           deny if any a in account where a.id == args.to: a.closed == true }"#,
    ),
];

fn pack(policies: &str) -> Arc<Pack> {
    let files: BTreeMap<PathBuf, Vec<u8>> =
        [("pack.yaml", "name: bench\nversion: 1.0.0\nformat: 1\n"), ("policies/bench.policy", policies)]
            .into_iter()
            .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()))
            .collect();
    let loaded = load_pack_files(Path::new("bench"), &files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}"))
}

/// A minute of a session that goes on for ever: a user, a result with a new account, a look, a payment.
fn message(i: usize) -> Value {
    let (round, time) = (i / 5, i * 12);
    // Only what is answered has an id: calls that wait for ever are another question.
    let call = |id: &str, tool: &str, args: String| {
        format!(
            r#"{{"role":"assistant","content":null,"time":{time},"tool_calls":[{{{id}"type":"function","function":{{"name":"{tool}","arguments":{{{args}}}}}}}]}}"#
        )
    };
    let text = match i % 5 {
        0 => format!(r#"{{"role":"user","content":"Please go on with number {round}.","time":{time}}}"#),
        1 => call(&format!(r#""id":"c{i}","#), "read", format!(r#""id":"r{round}""#)),
        2 => format!(
            r#"{{"role":"tool","tool_call_id":"c{}","time":{time},"content":"{{\"id\":\"account_{round}\",\"note\":\"opened on day {round} by clerk_{}\",\"closed\":false}}"}}"#,
            i - 1,
            round % 90
        ),
        3 => call("", "look", format!(r#""id":"r{round}""#)),
        _ => call("", "pay", format!(r#""to":"payee_{}","amount":10"#, round % 40)),
    };
    json::parse(text.as_bytes()).unwrap()
}

fn after(pack: &Arc<Pack>, length: usize, rounds: u64) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        let mut session = Session::new(pack.clone());
        (0..length).for_each(|i| drop(session.message(&message(i)).unwrap()));
        let next: Vec<Value> = (length..length + TIMED).map(message).collect();
        let start = Instant::now();
        for message in &next {
            black_box(session.message(message).unwrap());
        }
        total += start.elapsed();
    }
    total
}

fn language(c: &mut Criterion) {
    for (name, policies) in QUESTIONS {
        let pack = pack(policies);
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(u64::try_from(TIMED).unwrap()));
        for length in LENGTHS {
            group.bench_function(BenchmarkId::from_parameter(length), |b| {
                b.iter_custom(|rounds| after(&pack, length, rounds));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = language
}
criterion_main!(benches);
