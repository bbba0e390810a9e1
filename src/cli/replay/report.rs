//! What replay prints: an episode as a JSON line or for people, and the figures at the end.

use std::{collections::BTreeSet, fmt::Write as _};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::{
    cli::{
        Failure,
        output::{Output, plain},
    },
    engine::{EpisodeOutcome, Pack},
    model::{Malformed, Num, PolicyId, Turn},
    reward::{EpisodeReward, Metrics, Part, rounded},
};

/// A line that is no episode; in its place.
#[derive(Debug, Serialize)]
pub struct BrokenLine {
    /// Where the line stands, if there are several files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub error: String,
}

impl BrokenLine {
    /// As JSON, keys in order.
    pub fn json(&self) -> String {
        // Text and a number: nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An episode as scripts read it. The order of the keys is part of the contract.
#[derive(Debug, Serialize)]
pub struct EpisodeLine<'o> {
    episode_id: &'o str,
    pack: &'o str,
    pack_version: String,
    pack_digest: String,
    hits: Vec<HitLine<'o>>,
    undecided: Vec<UndecidedLine<'o>>,
    malformed: Vec<MalformedLine<'o>>,
    signals: Vec<SignalLine<'o>>,
    violation_reward: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<RewardLine>,
}

/// The reward, part by part, of a pack that declares components.
#[derive(Debug, Serialize)]
struct RewardLine {
    violation: PartLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    plausibility: Option<PartLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<PartLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diversity: Option<PartLine>,
    total: Option<f64>,
}

/// Before its weight, and the weight.
#[derive(Debug, Serialize)]
struct PartLine {
    value: Option<f64>,
    weight: f64,
}

impl RewardLine {
    fn of(pack: &Pack, outcome: &EpisodeOutcome, known: &BTreeSet<String>) -> Option<RewardLine> {
        if !pack.components().is_declared() {
            return None;
        }
        let EpisodeReward { violation, plausibility, progress, diversity, total } = outcome.reward(pack, known);
        let part = |part: Part| PartLine { value: part.value.map(shown), weight: shown(part.weight) };
        Some(RewardLine {
            violation: part(violation),
            plausibility: plausibility.map(part),
            progress: progress.map(part),
            diversity: diversity.map(part),
            total: total.map(shown),
        })
    }

    /// As `plausibility 0.5 x 0.2, .., total 1`.
    fn words(&self) -> String {
        let RewardLine { violation, plausibility, progress, diversity, total } = self;
        let named = [
            ("violation", Some(violation)),
            ("plausibility", plausibility.as_ref()),
            ("progress", progress.as_ref()),
            ("diversity", diversity.as_ref()),
        ];
        let number = |n: Option<f64>| n.map_or_else(|| "beyond 38 digits".to_owned(), |n| n.to_string());
        let mut parts: Vec<String> = named
            .into_iter()
            .filter_map(|(name, part)| part.map(|p| format!("{name} {} x {}", number(p.value), p.weight)))
            .collect();
        parts.push(format!("total {}", number(*total)));
        parts.join(", ")
    }
}

#[derive(Debug, Serialize)]
struct HitLine<'o> {
    policy: &'o str,
    turn: Turn,
    n: u32,
    reward: f64,
    message: &'o str,
}

#[derive(Debug, Serialize)]
struct UndecidedLine<'o> {
    policy: &'o str,
    turn: Turn,
    reason: &'o str,
}

#[derive(Debug, Serialize)]
struct MalformedLine<'o> {
    turn: Turn,
    reason: &'o str,
}

#[derive(Debug, Serialize)]
struct SignalLine<'o> {
    policy: &'o str,
    turn: Turn,
    effect: &'static str,
    message: &'o str,
}

impl<'o> EpisodeLine<'o> {
    /// The line of an episode.
    pub fn of(pack: &'o Pack, outcome: &'o EpisodeOutcome, known: &BTreeSet<String>) -> EpisodeLine<'o> {
        let hits = outcome.hits.iter().map(|hit| HitLine {
            policy: &hit.firing.policy,
            turn: hit.turn,
            n: hit.n,
            reward: shown(hit.reward),
            message: &hit.firing.message,
        });
        let undecided =
            outcome.undecided.iter().map(|u| UndecidedLine { policy: &u.policy, turn: u.turn, reason: &u.reason });
        let malformed =
            outcome.malformed.iter().map(|Malformed { turn, reason }| MalformedLine { turn: *turn, reason });
        let signals = outcome.signals.iter().map(|s| SignalLine {
            policy: &s.firing.policy,
            turn: s.turn,
            effect: s.effect.word(),
            message: &s.firing.message,
        });
        EpisodeLine {
            episode_id: &outcome.episode_id,
            pack: pack.name(),
            pack_version: pack.version().to_string(),
            pack_digest: pack.digest().to_string(),
            hits: hits.collect(),
            undecided: undecided.collect(),
            malformed: malformed.collect(),
            signals: signals.collect(),
            violation_reward: sum(outcome),
            reward: RewardLine::of(pack, outcome, known),
        }
    }

    /// As JSON, keys in order.
    pub fn json(&self) -> String {
        // Text, numbers and lists: nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Rounded here and nowhere before.
fn shown(n: Num) -> f64 {
    rounded(n.to_f64())
}

fn sum(outcome: &EpisodeOutcome) -> f64 {
    let approximate = || rounded(outcome.hits.iter().fold(0.0, |sum, h| sum + h.reward.to_f64()));
    outcome.violation_reward.map_or_else(approximate, shown)
}

/// An episode for people: nothing if there is nothing to say.
pub fn episode(
    pack: &Pack,
    outcome: &EpisodeOutcome,
    known: &BTreeSet<String>,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut lines: Vec<(Turn, &'static str, &str, String)> = Vec::new();
    let title = |id: &PolicyId| pack.policies().find(|p| p.id == *id).map(|p| p.title.to_string()).unwrap_or_default();
    let said = |id: &PolicyId, message: &str| match message {
        "" => title(id),
        message => format!("{}: {}", title(id), on_one_line(message)),
    };
    for hit in &outcome.hits {
        let id = &hit.firing.policy;
        lines.push((hit.turn, "hit", id, format!("{:<6} {}", shown(hit.reward), said(id, &hit.firing.message))));
    }
    for signal in &outcome.signals {
        let id = &signal.firing.policy;
        lines.push((signal.turn, signal.effect.word(), id, format!("{:<6} {}", "", said(id, &signal.firing.message))));
    }
    for undecided in &outcome.undecided {
        lines.push((undecided.turn, "undecided", &undecided.policy, format!("{:<6} {}", "", undecided.reason)));
    }
    for malformed in &outcome.malformed {
        lines.push((malformed.turn, "malformed", "", format!("{:<6} {}", "", malformed.reason)));
    }
    if lines.is_empty() {
        return Ok(());
    }
    // By turn; within one in the order of the groups above.
    lines.sort_by_key(|(turn, ..)| *turn);
    out.line(format_args!("{}  violation reward {}", outcome.episode_id, sum(outcome)))?;
    if let Some(reward) = RewardLine::of(pack, outcome, known) {
        out.line(format_args!("  reward: {}", reward.words()))?;
    }
    for (turn, what, policy, words) in lines {
        out.line(format_args!("  turn {turn:>3}  {what:<9}  {policy:<5}  {words}").to_string().trim_end())?;
    }
    out.line("")
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The figures of all episodes.
pub fn summary(pack: &Pack, figures: &Metrics, out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["POLICY", "SEVERITY", "HITS", "EPISODES", "UNDECIDED", "TITLE"]);
    for column in 1..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut policies: Vec<_> = pack.policies().collect();
    policies.sort_by(|a, b| a.id.cmp(&b.id));
    for policy in policies {
        let of = |counts: &std::collections::BTreeMap<String, u64>| counts.get(policy.id.as_ref()).copied();
        let signals = figures.signals_by_policy.get(policy.effect.word()).and_then(of);
        let hits = of(&figures.raw_hits_by_policy).or(signals);
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let title = match policy.effect.is_declared() {
            true => policy.title.to_string(),
            false => format!("{} ({})", policy.title, policy.effect.word()),
        };
        table.add_row([
            policy.id.to_string(),
            policy.severity.to_string(),
            number(hits),
            number(of(&figures.distinct_hits_by_policy)),
            number(of(&figures.undecided_by_policy).or(hits.map(|_| 0))),
            title,
        ]);
    }
    out.text(plain(&table))?;
    out.line("")?;
    out.text(totals(figures))
}

fn totals(figures: &Metrics) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    line("episodes", format!("{}, {} with hits", figures.episodes, figures.episodes_with_hits));
    line(
        "coverage",
        format!(
            "{} ({} of {} policies; {} without a predicate)",
            figures.coverage,
            figures.covered_policies,
            figures.declared_policies,
            figures.unsupported_policies.len()
        ),
    );
    line("hits", format!("{}, {} per 100 episodes", figures.raw_hits, figures.violation_yield_per_100_episodes));
    line(
        "hits, once per episode",
        format!(
            "{}, {} per 100 episodes",
            figures.distinct_episode_policy_hits, figures.distinct_yield_per_100_episodes
        ),
    );
    line("violation reward", figures.total_violation_reward.to_string());
    let undecided: u64 = figures.undecided_by_policy.values().sum();
    let reasons: usize = figures.malformed.iter().map(|m| m.reasons.len()).sum();
    let limited = figures.undecided_by_limit.iter().map(|(limit, n)| format!(", {n} of them by {limit}"));
    line("undecided", format!("{undecided}{}", limited.collect::<String>()));
    line("malformed", (u64::try_from(reasons).unwrap_or(u64::MAX).saturating_sub(undecided)).to_string());
    text
}

/// How judges did.
pub fn judges(figures: &Metrics) -> String {
    let Some(judge) = &figures.judge else { return "no episode carries a judge's verdict\n".to_owned() };
    let mut text = String::from("\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    line("judge's verdicts", format!("{}, {} of them hits", judge.verdicts, judge.hits));
    line("agreement with predicates", judge.agreement.to_string());
    line("precision", judge.precision.to_string());
    line("recall", judge.recall.to_string());
    line("unverified hits", judge.unverified.to_string());
    line("about no declared policy", judge.unknown_policy.to_string());
    line("coverage without the judge", judge.coverage_deterministic.to_string());
    line("coverage with the judge", judge.coverage_with_judge.to_string());
    text
}
