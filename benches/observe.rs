//! What does one more event cost: at any trace length, with any number of other policies, and against
//! the same check written by hand?
//!
//! Read the figures as ratios within one run; absolute times say more about the machine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use probity::{
    diag::Style,
    engine::{Pack, Session, load_pack, load_pack_files, run_episode},
    ingest::Episode,
    model::json,
};

/// Messages that are timed once a session has reached its length.
const TIMED: usize = 400;

/// The check that the hand-written code makes as well.
const RELEVANT: &str = r#"
fact reservation[json.reservation_id as string] = json as object from result get_reservation_details when not is_error
policy CANCEL "cancellation needs a reason and a yes" {
  severity 1.0
  on call cancel_reservation
  let r = reservation[args.reservation_id as string]
  deny unless (last(user).text default "") mentions affirmation
          and ((r.cabin as string) == "business" or (r.insurance as string) == "yes")
}
"#;

const KEYWORDS: &str =
    "categories:\n  affirmation:\n    match: word\n    normalize: [ascii_case]\n    terms: ['yes', go ahead]\n";

/// A pack of one policy file.
fn pack(policies: &str) -> Arc<Pack> {
    let manifest = "name: bench\nversion: 1.0.0\nformat: 1\ndescription: a benchmark\nerrors: {prefix: Error}\n";
    let files: BTreeMap<PathBuf, Vec<u8>> =
        [("pack.yaml", manifest), ("keywords.yaml", KEYWORDS), ("policies/bench.policy", policies)]
            .into_iter()
            .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()))
            .collect();
    let loaded = load_pack_files(Path::new("bench"), &files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}"))
}

fn others(count: usize) -> String {
    (0..count)
        .map(|i| {
            format!(
                "policy OTHER{i} \"about another tool\" {{ severity 0.5 on call tool_{i} \
                 deny if args.amount > {i} and once(call tool_{i} where it.args.id == args.id) }}\n"
            )
        })
        .collect()
}

/// A conversation that goes on for ever: the user agrees, a reservation is read and cancelled.
fn conversation(turns: usize) -> Vec<String> {
    let call = |i: usize, tool: &str, of: usize| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{i}","type":"function","function":{{"name":"{tool}","arguments":"{{\"reservation_id\":\"R{}\"}}"}}}}]}}"#,
            of % 40
        )
    };
    (0..turns)
        .map(|i| match i % 4 {
            0 => r#"{"role":"user","content":"Yes, go ahead with the next one please, I am in a hurry."}"#.to_owned(),
            1 => call(i, "get_reservation_details", i / 4),
            2 => format!(
                r#"{{"role":"tool","tool_call_id":"c{}","content":"{{\"reservation_id\":\"R{}\",\"user_id\":\"u1\",\"cabin\":\"economy\",\"insurance\":\"yes\",\"created_at\":\"2024-05-10T10:00:00\",\"total_baggages\":1,\"flights\":[{{\"flight_number\":\"HAT001\",\"date\":\"2024-05-20\"}}],\"passengers\":[{{\"first_name\":\"A\",\"last_name\":\"B\"}}]}}"}}"#,
                i - 1,
                (i / 4) % 40
            ),
            _ => call(i, "cancel_reservation", i / 4),
        })
        .collect()
}

/// Time of [`TIMED`] messages, their JSON included, once the session holds `length` of them.
fn after(pack: &Arc<Pack>, length: usize, rounds: u64) -> Duration {
    let messages = conversation(length + TIMED);
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        let mut session = Session::new(pack.clone());
        for message in &messages[..length] {
            session.message(&json::parse(message.as_bytes()).unwrap()).unwrap();
        }
        let start = Instant::now();
        for message in &messages[length..] {
            black_box(session.message(&json::parse(message.as_bytes()).unwrap()).unwrap());
        }
        total += start.elapsed();
    }
    total
}

/// The same check by hand: incremental, with a look-up by tool, reading only the fields that it needs.
#[derive(Default)]
struct ByHand {
    eligible: HashMap<String, bool>,
    open: HashMap<String, ()>,
    agreed: bool,
}

#[derive(serde::Deserialize)]
struct Message<'m> {
    role: &'m str,
    #[serde(borrow, default)]
    content: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCall<'m>>,
    #[serde(default)]
    tool_call_id: &'m str,
}

#[derive(serde::Deserialize)]
struct ToolCall<'m> {
    id: &'m str,
    #[serde(borrow)]
    function: Function<'m>,
}

#[derive(serde::Deserialize)]
struct Function<'m> {
    name: &'m str,
    #[serde(borrow)]
    arguments: Cow<'m, str>,
}

#[derive(serde::Deserialize)]
struct Arguments<'m> {
    #[serde(borrow)]
    reservation_id: Cow<'m, str>,
}

#[derive(serde::Deserialize)]
struct Reservation<'m> {
    #[serde(borrow)]
    reservation_id: Cow<'m, str>,
    #[serde(borrow)]
    cabin: Cow<'m, str>,
    #[serde(borrow)]
    insurance: Cow<'m, str>,
}

impl ByHand {
    fn message(&mut self, text: &str) -> bool {
        let message: Message<'_> = serde_json::from_str(text).unwrap();
        match message.role {
            "user" => {
                let text = message.content.unwrap_or_default().to_ascii_lowercase();
                let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                self.agreed = words.any(|word| word == "yes") || text.contains("go ahead");
                false
            }
            "assistant" => message.tool_calls.iter().fold(false, |denied, call| {
                let arguments: Arguments<'_> = serde_json::from_str(&call.function.arguments).unwrap();
                let eligible = || self.eligible.get(arguments.reservation_id.as_ref()).copied().unwrap_or(false);
                let bad = call.function.name == "cancel_reservation" && !(self.agreed && eligible());
                if call.function.name == "get_reservation_details" {
                    self.open.insert(call.id.to_owned(), ());
                }
                denied || bad
            }),
            _ => {
                if self.open.remove(message.tool_call_id).is_some()
                    && let Ok(r) = serde_json::from_str::<Reservation<'_>>(&message.content.unwrap_or_default())
                {
                    self.eligible.insert(r.reservation_id.into_owned(), r.cabin == "business" || r.insurance == "yes");
                }
                false
            }
        }
    }
}

fn by_hand(rounds: u64) -> Duration {
    let messages = conversation(100 + TIMED);
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        let mut check = ByHand::default();
        for message in &messages[..100] {
            check.message(message);
        }
        let start = Instant::now();
        for message in &messages[100..] {
            black_box(check.message(message));
        }
        total += start.elapsed();
    }
    total
}

fn observe(c: &mut Criterion) {
    let airline = load_pack(Path::new("rules/airline")).result.unwrap();
    let per_message = Throughput::Elements(u64::try_from(TIMED).unwrap());

    let mut group = c.benchmark_group("length, 20 airline policies");
    group.throughput(per_message.clone());
    for length in [12, 5_000] {
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|rounds| after(&airline, length, rounds));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("one relevant policy");
    group.throughput(per_message);
    group.bench_function("by hand", |b| b.iter_custom(by_hand));
    for count in [0, 10_000] {
        let pack = pack(&format!("{RELEVANT}{}", others(count)));
        group.bench_function(format!("and {count} others"), |b| b.iter_custom(|rounds| after(&pack, 100, rounds)));
    }
    group.finish();

    let text = fs::read_to_string("tests/data/traces/airline/episodes.jsonl").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut group = c.benchmark_group("the airline set");
    group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap()));
    group.bench_function("serde_json into its Value", |b| {
        b.iter(|| lines.iter().for_each(|l| drop(black_box(serde_json::from_str::<serde_json::Value>(l).unwrap()))));
    });
    group.bench_function("model::json", |b| {
        b.iter(|| lines.iter().for_each(|l| drop(black_box(json::parse(l.as_bytes()).unwrap()))));
    });
    group.bench_function("replay", |b| {
        b.iter(|| {
            for (number, line) in (1..).zip(&lines) {
                black_box(run_episode(&airline, &Episode::from_line(number, line.as_bytes()).unwrap()));
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = observe
}
criterion_main!(benches);
