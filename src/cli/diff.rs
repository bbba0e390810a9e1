//! `probity diff`: what differs between two versions of packs, and what that does to recorded traces.

use std::{path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::engine::{
    Aspect, Change, Figures, Pack, PackDiff, Pair, PolicyChange, PolicyVerdicts, Recount, TraceDiff, VerdictAt, diff,
    predecessor,
};

use super::{
    Exit, Failure, Format, Outcome, episodes,
    output::{Output, counted},
    packs,
};

/// How many verdicts of a policy are listed for people.
const LISTED: usize = 10;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The first version: the folder of a pack or of packs, or git:REF:PATH for one as it was at a commit
    before: String,
    /// The second version
    after: String,
    /// Also judge the episodes of these files by both, and tell the verdicts that differ; `-` is standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    trace: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The report.
#[derive(Debug, Serialize)]
struct Report {
    /// Packs that only the second side has.
    added: Vec<String>,
    /// Packs that only the first side has.
    removed: Vec<String>,
    /// Packs of both sides.
    packs: Vec<Compared>,
}

#[derive(Debug, Serialize)]
struct Compared {
    #[serde(flatten)]
    diff: PackDiff,
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<TraceDiff>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let before = packs::version(&args.before, None)?;
    let after = packs::version(&args.after, None)?;
    let pairs = pairs(&before, &after);
    let mut recounts: Vec<Recount> =
        pairs.iter().map(|(before, after)| Recount::new(Arc::clone(before), Arc::clone(after))).collect();
    let broken = episodes::each(&args.trace, |episode| recounts.iter_mut().for_each(|recount| recount.add(episode)))?;
    let (old, new): (Vec<&Arc<Pack>>, Vec<&Arc<Pack>>) = pairs.iter().copied().unzip();
    let beside = |these: &[Arc<Pack>], paired: &[&Arc<Pack>]| {
        let alone = these.iter().filter(|pack| !paired.iter().any(|other| Arc::ptr_eq(other, pack)));
        alone.map(|pack| pack.name().to_string()).collect()
    };
    let compared = pairs.iter().zip(recounts).map(|((before, after), recount)| Compared {
        diff: diff(before, after),
        traces: (!args.trace.is_empty()).then(|| recount.finish()),
    });
    let report = Report { added: beside(&after, &new), removed: beside(&before, &old), packs: compared.collect() };
    let mut out = Output::new();
    match args.format {
        Format::Json => out.line(serde_json::json!(report))?,
        Format::Table => people(&report, &mut out)?,
    }
    out.flush()?;
    Ok(if broken > 0 { Exit::BadInput } else { Exit::Fine })
}

/// Each pack with the one that it came out of; one pack on each side belongs to the other, whatever its name.
fn pairs<'p>(before: &'p [Arc<Pack>], after: &'p [Arc<Pack>]) -> Vec<(&'p Arc<Pack>, &'p Arc<Pack>)> {
    if let ([before], [after]) = (before, after) {
        return vec![(before, after)];
    }
    after.iter().filter_map(|new| predecessor(before, new).map(|old| (old, new))).collect()
}

fn people(report: &Report, out: &mut Output) -> Result<(), Failure> {
    for name in &report.added {
        out.line(format_args!("+ {name}  a pack that is new"))?;
    }
    for name in &report.removed {
        out.line(format_args!("- {name}  a pack that is gone"))?;
    }
    for (place, Compared { diff, traces }) in report.packs.iter().enumerate() {
        if place > 0 || !report.added.is_empty() || !report.removed.is_empty() {
            out.line("")?;
        }
        pack(diff, out)?;
        if let Some(traces) = traces {
            on_traces(traces, out)?;
        }
    }
    Ok(())
}

fn pack(diff: &PackDiff, out: &mut Output) -> Result<(), Failure> {
    let PackDiff { before, after, .. } = diff;
    let versions = match before.version == after.version {
        true => after.version.clone(),
        false => format!("{} -> {}", before.version, after.version),
    };
    let verdict = match (diff.meaning_changed, diff.is_empty()) {
        (true, _) => "another meaning",
        (false, true) => "no difference",
        (false, false) => "the same meaning",
    };
    out.line(format_args!("{} {versions}: {verdict}", diff.pack))?;
    if diff.meaning_changed {
        let short = |digest: &str| digest.get(..12).unwrap_or_default().to_owned();
        out.line(format_args!("digest {} -> {}", short(&before.digest), short(&after.digest)))?;
    }
    if !diff.policies.is_empty() {
        out.line("\npolicies")?;
        diff.policies.iter().try_for_each(|change| policy(change, out))?;
    }
    if !diff.declarations.is_empty() {
        out.line("\ndeclarations")?;
    }
    for change in &diff.declarations {
        out.line(format_args!("  {} {} {}", change.change.sign(), change.kind, change.name))?;
        lines(&change.before, &change.after, out)?;
    }
    if !diff.settings.is_empty() {
        out.line("\nsettings")?;
    }
    for setting in &diff.settings {
        let value = match (&setting.before, &setting.after) {
            (Some(before), Some(after)) => format!("{before} -> {after}"),
            (one, other) => one.clone().or(other.clone()).unwrap_or_default(),
        };
        let line = format!("  {} {} {}  {value}", setting.change.sign(), setting.file, setting.at);
        out.line(line.trim_end())?;
    }
    Ok(())
}

fn policy(change: &PolicyChange, out: &mut Output) -> Result<(), Failure> {
    let PolicyChange { policy, title, change, aspects } = change;
    out.line(format_args!("  {} {policy}  {title}", change.sign()))?;
    debug_assert!(*change == Change::Changed || aspects.is_empty());
    for aspect in aspects {
        let pair = |out: &mut Output, what: &str, Pair { before, after }: &Pair| {
            let none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
            out.line(format_args!("      {what}: {} -> {}", none(before), none(after)))
        };
        match aspect {
            Aspect::Meaning { before, after } => {
                out.line("      when it fires, and what happens then")?;
                lines(before, after, out)?;
            }
            Aspect::Through { names } => out.line(format_args!("      what it rests on: {}", names.join(", ")))?,
            Aspect::Severity(values) => pair(out, "severity", values)?,
            Aspect::Title(values) => pair(out, "title", values)?,
            Aspect::Message(values) => pair(out, "message", values)?,
            Aspect::Tags(values) => pair(out, "tags", values)?,
            Aspect::Layout => out.line("      layout and comments alone")?,
        }
    }
    Ok(())
}

/// Lines that only the first side has, then those that only the second has.
fn lines(before: &[String], after: &[String], out: &mut Output) -> Result<(), Failure> {
    for (sign, texts) in [('-', before), ('+', after)] {
        for line in texts.iter().flat_map(|text| text.lines()) {
            out.line(format_args!("        {sign} {line}"))?;
        }
    }
    Ok(())
}

fn on_traces(traces: &TraceDiff, out: &mut Output) -> Result<(), Failure> {
    out.line(format_args!("\non {}", counted_long(traces.episodes)))?;
    if traces.verdicts.is_empty() {
        out.line("  no verdict differs")?;
    }
    for (policy, PolicyVerdicts { gained, lost }) in &traces.verdicts {
        let of = |verdicts: &[VerdictAt]| counted(verdicts.len(), "verdict", "verdicts");
        out.line(format_args!("  {policy}: {} gained, {} lost", of(gained), of(lost)))?;
        for (sign, verdicts) in [('-', lost), ('+', gained)] {
            for VerdictAt { episode_id, turn, verdict } in verdicts.iter().take(LISTED) {
                out.line(format_args!("    {sign} {episode_id} turn {turn}: {verdict}"))?;
            }
            if let Some(more @ 1..) = verdicts.len().checked_sub(LISTED) {
                out.line(format_args!("    {sign} {more} more, which --format json lists"))?;
            }
        }
    }
    let Figures { hits, episodes_with_hits, undecided, violation_reward, coverage } = &traces.before;
    let after = &traces.after;
    for (what, before, after) in [
        ("hits", hits.to_string(), after.hits.to_string()),
        ("episodes with hits", episodes_with_hits.to_string(), after.episodes_with_hits.to_string()),
        ("undecided", undecided.to_string(), after.undecided.to_string()),
        ("violation reward", violation_reward.to_string(), after.violation_reward.to_string()),
        ("coverage", coverage.to_string(), after.coverage.to_string()),
    ] {
        let change = if before == after { before } else { format!("{before} -> {after}") };
        out.line(format_args!("  {what:<20} {change}"))?;
    }
    Ok(())
}

fn counted_long(n: u64) -> String {
    counted(usize::try_from(n).unwrap_or(usize::MAX), "episode", "episodes")
}
