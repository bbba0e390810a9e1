//! Laws that hold for all inputs.

use std::{collections::BTreeMap, sync::Arc};

use probity::{
    drift::{
        Accumulator, Anomaly, Category, InjectAs, Library, Probe, ProbeResult, Schema, Selector, Settings,
        Triangulation, schedule,
    },
    redact::{Redactor, Rules},
};
use proptest::prelude::*;

use crate::parity;

fn step() -> impl Strategy<Value = ProbeResult> {
    let category = prop_oneof![
        Just(None),
        Just(Some(Category::PolicyDisagreement)),
        Just(Some(Category::ReasoningDivergence)),
        Just(Some(Category::StructuralInstability)),
    ];
    (prop::option::weighted(0.9, 0.0..=1.0f64), category, prop::option::weighted(0.2, Just(Anomaly::ParseFailure)))
        .prop_map(|(score, category, anomaly)| ProbeResult {
            probe_type: Arc::from("data_disclosure"),
            score,
            threshold: 0.5,
            category,
            anomaly,
            diverged: category.is_some(),
            triangulation: None,
            escape: false,
            confidence: 1.0,
        })
}

/// The formula read off the design, over the whole history.
fn naive(history: &[ProbeResult], s: &Settings) -> f64 {
    let s = &s.longitudinal;
    let all: Vec<&ProbeResult> = history.iter().filter(|r| r.score.is_some()).collect();
    let scored = s.window.map_or(&all[..], |w| &all[all.len().saturating_sub(w)..]);
    let failures = history.iter().filter(|r| r.anomaly.is_some()).count();
    let structural = match failures {
        0 => 0.0,
        1 => 0.1,
        2 | 3 => 0.4,
        _ => 0.8,
    };
    if scored.is_empty() && !s.structural_without_scores {
        return 0.0;
    }
    let n = scored.len() as f64;
    let scores: Vec<f64> = scored.iter().map(|r| r.score.unwrap()).collect();
    let high = scored.iter().filter(|r| r.score.unwrap() > r.threshold).count() as f64;
    let frequency = if scored.is_empty() { 0.0 } else { high / n };
    let trend = if scores.len() < 3 {
        0.0
    } else {
        let mean_x = (n - 1.0) / 2.0;
        let mean_y = scores.iter().sum::<f64>() / n;
        let above: f64 = scores.iter().enumerate().map(|(x, y)| (x as f64 - mean_x) * (y - mean_y)).sum();
        let below: f64 = (0..scores.len()).map(|x| (x as f64 - mean_x).powi(2)).sum();
        (above / below * 5.0).clamp(0.0, 1.0)
    };
    let hits = scored.iter().filter(|r| r.category == Some(Category::PolicyDisagreement)).count() as f64;
    (0.4 * frequency + 0.3 * trend + 0.2 * (0.25 * hits).min(1.0) + 0.1 * structural).min(1.0)
}

fn probes() -> Library {
    let types = parity::settings().score.types;
    let mut probes = Vec::new();
    for (t, count) in types.keys().zip(1..) {
        for i in 0..count {
            probes.push(Probe {
                id: Arc::from(format!("{t}-{i}")),
                probe_type: Arc::clone(t),
                inject_as: InjectAs::UserMessage,
                stress_type: Arc::from("s"),
                constraint: Arc::from("c"),
                scenario: Arc::from("one"),
                wordings: vec![Arc::from("two"), Arc::from("three")],
                schema: Schema::answer(),
            });
        }
    }
    Library::new("1.0.0", probes, &types).unwrap()
}

/// A secret, and the part of it that must not survive.
fn secret() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[a-z]{5,9}\\.[a-z]{5,9}".prop_map(|local| (format!("{local}@qzmail.example"), local)),
        "[2-9][0-9]{2}[2-9][0-9]{6}"
            .prop_map(|d| (format!("+1 {} {} {}", &d[..3], &d[3..6], &d[6..]), d[6..].to_owned())),
        "[A-Za-z0-9]{24}".prop_map(|k| (format!("sk-{k}"), k)),
        Just(("4111 1111 1111 1111".to_owned(), "1111".to_owned())),
        Just(("DE89370400440532013000".to_owned(), "3704".to_owned())),
        "[A-Za-z0-9]{36}".prop_map(|k| (format!("ghp_{k}"), k)),
    ]
}

proptest! {
    #[test]
    fn running_sums_equal_the_formula_over_the_history(
        history in prop::collection::vec(step(), 1..120),
        window in prop::option::of(1usize..20),
    ) {
        let mut settings = parity::better();
        settings.longitudinal.window = window;
        let mut acc = Accumulator::new("s", "1");
        for i in 0..history.len() {
            acc.record(None, "1", &history[i], &settings.longitudinal, &settings.consistency, 0.0).unwrap();
            let (ours, wanted) = (acc.signal(&settings.longitudinal), naive(&history[..=i], &settings));
            prop_assert!((ours - wanted).abs() <= 1e-12, "{ours} {wanted}");
        }
    }

    #[test]
    fn a_baseline_that_comes_later_counts_as_one_that_came_at_once(
        history in prop::collection::vec((step(), prop::option::of(0usize..4), 0usize..6), 1..40),
        window in prop::option::of(1usize..20),
    ) {
        let said = [
            Triangulation::Legitimate,
            Triangulation::DriftSignal,
            Triangulation::SummaryCalibrationAnomaly,
            Triangulation::NoSignal,
        ];
        let mut settings = parity::better();
        settings.longitudinal.window = window;
        let (longitudinal, consistency) = (&settings.longitudinal, &settings.consistency);
        let mut later = Accumulator::new("s", "1");
        let mut due: Vec<(usize, u64, Triangulation)> = Vec::new();
        let settle = |acc: &mut Accumulator, due: &mut Vec<(usize, u64, Triangulation)>, now: usize| {
            for (_, number, triangulation) in due.extract_if(.., |(at, _, _)| *at <= now) {
                acc.settle(number, triangulation, longitudinal);
            }
        };
        for (i, (result, baseline, wait)) in history.iter().enumerate() {
            later.record(None, "1", result, longitudinal, consistency, 0.0).unwrap();
            if let Some(which) = baseline {
                later.keep_open(i as u64);
                due.push((i + wait, i as u64, said[*which]));
            }
            settle(&mut later, &mut due, i);
        }
        settle(&mut later, &mut due, usize::MAX);
        let mut at_once = Accumulator::new("s", "1");
        for (result, baseline, _) in &history {
            let triangulation = baseline.filter(|_| result.score.is_some()).map(|which| said[which]);
            let result = ProbeResult { triangulation, ..result.clone() };
            at_once.record(None, "1", &result, longitudinal, consistency, 0.0).unwrap();
        }
        // With a window, a score that was in it when others aged out has pushed one of them out.
        if window.is_none() {
            let (a, b) = (later.signal(longitudinal), at_once.signal(longitudinal));
            prop_assert!((a - b).abs() <= 1e-9, "{a} {b}");
            prop_assert_eq!(later.scored(), at_once.scored());
            prop_assert_eq!(later.structural_failures(), at_once.structural_failures());
            prop_assert_eq!(later.streak(), at_once.streak());
        } else {
            prop_assert!((0.0..=1.0).contains(&later.signal(longitudinal)));
        }
    }

    #[test]
    fn selection_spreads_over_types_and_exhausts_each(seed in any::<u64>(), draws in 1usize..80) {
        let library = probes();
        let (mut a, mut b) = (Selector::new(seed), Selector::new(seed));
        let mut by_type: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for _ in 0..draws {
            let chosen = a.next(&library).unwrap();
            prop_assert_eq!(chosen, b.next(&library).unwrap());
            by_type.entry(chosen.probe.probe_type.to_string()).or_default().push(chosen.probe.id.to_string());
        }
        let uses: Vec<usize> = library.probes().iter().map(|p| by_type.get(&*p.probe_type).map_or(0, Vec::len)).collect();
        prop_assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1);
        for (t, ids) in &by_type {
            let size = library.probes().iter().filter(|p| *p.probe_type == **t).count();
            for round in ids.chunks(size) {
                let distinct: std::collections::BTreeSet<_> = round.iter().collect();
                prop_assert_eq!(distinct.len(), round.len());
            }
        }
    }

    #[test]
    fn no_run_of_a_secret_survives(
        secrets in prop::collection::vec((secret(), "[ ,;\n|(\"']{1,3}", "[a-z]{0,6}"), 1..6),
        layers in 0usize..4,
    ) {
        let redactor = Redactor::new(Rules::standard(), [9; 32]).unwrap();
        let mut text = String::new();
        for ((secret, _), gap, word) in &secrets {
            text.push_str(word);
            text.push_str(gap);
            text.push_str(secret);
            text.push(' ');
        }
        for _ in 0..layers {
            text = serde_json::json!({"note": [text, true]}).to_string();
        }
        let out = redactor.text(&text).into_inner();
        for ((_, part), _, _) in &secrets {
            let part: Vec<char> = part.chars().collect();
            for run in part.windows(4) {
                let run: String = run.iter().collect();
                prop_assert!(!out.contains(&run), "{run} in {out} of {text}");
            }
        }
        prop_assert_eq!(redactor.text(&out).into_inner(), out);
    }

    #[test]
    fn any_text_is_redacted_once_and_for_all(text in "(\\PC|[0-9@.+ ()-]){0,80}") {
        let redactor = Redactor::new(Rules::standard(), [9; 32]).unwrap();
        let once = redactor.text(&text).into_inner();
        prop_assert_eq!(redactor.text(&once).into_inner(), once);
    }

    #[test]
    fn a_gate_keeps_its_cap_and_its_cooldown(
        events in prop::collection::vec((0.0..100.0f64, 0i64..5_000, any::<bool>()), 1..60), seed in any::<u64>(),
    ) {
        let settings = parity::better().schedule;
        let mut gate = probity::drift::Gate::new(seed);
        let (mut now, mut last) = (0.0, None::<f64>);
        for (wait, tokens, taint) in events {
            now += wait;
            let (_, event) = schedule::from_view(0, taint, 1, tokens, parity::better().sensitivity);
            if let probity::drift::Verdict::Due { delay, .. } = gate.evaluate(now, event, &settings) {
                prop_assert!(last.is_none_or(|l| now - l >= settings.cooldown));
                prop_assert!((0.0..=settings.jitter).contains(&delay));
                last = Some(now);
            }
            prop_assert!(gate.sent() <= settings.max_probes);
        }
    }
}
