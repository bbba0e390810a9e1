//! A session that goes on and on: what it remembers stays within its limit, what it costs does not grow, and what
//! it can no longer decide it says. `PROBITY_ENDURANCE_EVENTS=1000000` runs it at full length.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use probity::{
    diag::Style,
    engine::{Pack, Session, load_pack_files},
    model::{Limit, Value, json},
};

const POLICIES: &str = r#"
fact account[json.id as string] = json as object from result read
fact notes[json.id as string] collects json.note from result read

policy WINDOW "a sum in a window" {
  severity 1  on call pay
  deny if args.amount + sum(it.args.amount over call pay where it.args.to == args.to within 30m) > 500000
}
policy EVER "counted over the whole session" { severity 1  on call pay  deny if count(call pay where it.args.to == args.to) < 0 - 1 or args.amount > 500 }
policy SEEN "read before it is paid" { severity 1  on call pay  deny unless seen(account[args.to]) }
policy REACH "different payees" { severity 1  on call pay  flag if distinct(it.args.to over call pay) > 1000000000 }
policy ORDER "looked at and read" {
  severity 1  on call pay
  deny if once(result read as seen then call look where it.args.id == seen.call.args.id then this without call look)
}
policy DERIVED "named by a result" { severity 1  on call pay  flag if derived_from(args.to as string, result read) }
"#;

const LIMIT: usize = 1 << 20;

fn pack() -> Arc<Pack> {
    let manifest = format!("name: long\nversion: 1.0.0\nformat: 1\nlimits: {{state_bytes: {LIMIT}}}\n");
    let files: BTreeMap<PathBuf, Vec<u8>> = [("pack.yaml", manifest.as_str()), ("policies/long.policy", POLICIES)]
        .into_iter()
        .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()))
        .collect();
    let loaded = load_pack_files(Path::new("long"), &files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}"))
}

/// One event a message, but for calls, which are two. Every value is new: nothing repeats that could be shared.
fn message(i: usize) -> Value {
    let (round, time) = (i / 4, i * 10);
    let call = |tool: &str, args: String| {
        format!(
            r#"{{"role":"assistant","content":null,"time":{time},"tool_calls":[{{"id":"c{i}","type":"function","function":{{"name":"{tool}","arguments":{{{args}}}}}}}]}}"#
        )
    };
    let text = match i % 4 {
        0 => call("read", format!(r#""id":"r{round}""#)),
        1 => format!(
            r#"{{"role":"tool","tool_call_id":"c{}","time":{time},"content":"{{\"id\":\"account_{round}\",\"note\":\"by clerk_{round}\"}}"}}"#,
            i - 1
        ),
        2 => call("look", format!(r#""id":"q{round}""#)),
        _ => call("pay", format!(r#""to":"account_{round}","amount":10"#)),
    };
    json::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_long_session_stays_within_its_limit_and_says_what_it_cannot_decide() {
    let wanted = std::env::var("PROBITY_ENDURANCE_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(60_000);
    let mut session = Session::new(pack());
    let (mut events, mut largest, mut most_steps) = (0usize, 0, 0);
    let mut by_limit = 0u64;
    let mut i = 0;
    while events < wanted {
        let message = message(i);
        events += if i % 4 == 1 { 1 } else { 2 };
        let was_full = session.is_incomplete();
        let step = session.message(&message).unwrap();
        largest = largest.max(session.bytes());
        most_steps = most_steps.max(session.steps());
        by_limit += step.undecided.iter().filter(|u| u.reason == Limit::StateBytes.reason()).count() as u64;
        if was_full && i % 4 == 3 {
            // What reads history or facts is undecided from then on, and what does not is decided as before.
            let open: Vec<&str> = step.undecided.iter().map(|u| u.policy.as_ref()).collect();
            assert!(open.contains(&"SEEN") && open.contains(&"WINDOW"), "{open:?} at {i}");
        }
        i += 1;
    }
    println!(
        "{events} events: at most {largest} bytes and {most_steps} steps a message, {by_limit} undecided by a limit"
    );
    assert!(largest < LIMIT + (16 << 10), "{largest} bytes");
    assert!(most_steps < 5_000, "{most_steps} steps");
    assert!(session.is_incomplete() && by_limit > 0, "the limit was reached");
}
