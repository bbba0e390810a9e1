//! What does one more probe cost after ten and after ten thousand, and does a hostile answer cost more to redact
//! than prose of the same length?
//!
//! Read the figures as ratios within one run; absolute times say more about the machine.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, path::Path, sync::Arc, time::Duration};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use probity::{
    drift::{Accumulator, Category, ProbeResult, Settings},
    engine::load_pack,
};

fn result(n: usize) -> ProbeResult {
    let score = (n % 17) as f64 / 17.0;
    ProbeResult {
        probe_type: Arc::from("data_disclosure"),
        score: Some(score),
        threshold: 0.5,
        category: (score > 0.4).then_some(Category::PolicyDisagreement),
        anomaly: None,
        diverged: score > 0.0,
        triangulation: None,
        escape: false,
        confidence: 1.0,
    }
}

fn record(acc: &mut Accumulator, n: usize, settings: &Settings) -> f64 {
    let (longitudinal, consistency) = (&settings.longitudinal, &settings.consistency);
    acc.record(None, "1", &result(n), longitudinal, consistency, settings.isolation.min_confidence).unwrap();
    acc.signal(longitudinal)
}

/// A session with so many probes behind it.
fn session(probes: usize, settings: &Settings) -> Accumulator {
    let mut acc = Accumulator::new("s", "1");
    for n in 0..probes {
        record(&mut acc, n, settings);
    }
    acc
}

fn repeated(text: &str) -> String {
    text.chars().cycle().take(1 << 20).collect()
}

fn drift(c: &mut Criterion) {
    let pack = load_pack(Path::new("rules/default")).result.unwrap();
    let plain = pack.drift().unwrap().settings.clone();
    let mut aged = plain.clone();
    aged.longitudinal.window = Some(50);

    let mut group = c.benchmark_group("one more probe");
    for (name, settings) in [("all probes count", &plain), ("the last 50 count", &aged)] {
        for probes in [10, 10_000] {
            let acc = session(probes, settings);
            group.bench_with_input(BenchmarkId::new(name, probes), &probes, |b, probes| {
                b.iter_batched_ref(
                    || acc.clone(),
                    |acc| black_box(record(acc, *probes, settings)),
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();

    let mut group = c.benchmark_group("redact 1 MiB");
    group.throughput(Throughput::Bytes(1 << 20));
    let prose = "The request was declined because rule 7.2 asks for the owner's consent, which was not given. ";
    for (name, text) in [
        ("prose", prose),
        ("prose with accents", "La demande a été refusée parce que la règle 7.2 exige l’accord du propriétaire. "),
        ("one letter", "a"),
        ("one digit", "4"),
        ("one sign", "@"),
        ("near e-mail addresses", "jane.doe@ logo@2x.png @example.com a@b react@latest "),
        ("nearer e-mail addresses", "{{{{{{{{{{{{{{{{{{{{{{{{{{}@ jane at example "),
        ("hidden addresses", "j\u{200b}a\u{200b}n\u{200b}e (at) exa mple dot "),
        ("near telephone numbers", "order 415-555-013 12-34-56 +1 (415 5550 "),
        ("digits in groups", "12 34 56 78 "),
        ("digits with separators", "1-2.3/4-5 (67) 8 "),
        ("single digits", "1 "),
        ("near secrets", "sk-short ghp_short eyJhbG.eyJ token = x Bearer y "),
        ("near keys", "AKIAIOSFODNN7EXAMPL -----BEGIN RSA KEY----- glpat-0123 npm_abc "),
        ("base64", "dGhpcyBpcyBub3QgYSBzZWNyZXQgYnV0IGxvbmc="),
        ("near accounts and cards", "DE89370400440532013001 4111 1111 1111 1112 GB00 AB12 "),
        ("near addresses of machines", "1.2.3 256.1.1.1 fe80::zz ::: 10.0.0.1.2 a:b:c:d "),
    ] {
        let text = repeated(text);
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap()));
        group.bench_function(name, |b| b.iter(|| black_box(pack.redactor().text(&text))));
    }
    group.finish();

    // JSON in strings is read, redacted and scanned once more at each level.
    let mut group = c.benchmark_group("redact JSON in strings, 256 KiB");
    for levels in [0, 1, 4] {
        let mut text: String = prose.chars().cycle().take(1 << 18).collect();
        for _ in 0..levels {
            text = serde_json::json!({ "said": text }).to_string();
        }
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap()));
        group.bench_function(BenchmarkId::from_parameter(levels), |b| {
            b.iter(|| black_box(pack.redactor().text(&text)));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = drift
}
criterion_main!(benches);
