//! `probity explain`: what a policy means, what it costs, and how it fared on a trace.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::{
    diag::suggest,
    engine::{Outcome as Fate, Pack, Visit, nearest_miss, walk_through},
    ingest::Episode,
    lang::explain::Explanation,
    model::Limit,
};

use super::{
    Exit, Failure, Format, Outcome,
    output::{Output, counted, plain},
    packs,
};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of a pack, or the name of a pack of the rules folder
    pack: String,
    /// Id of the policy; without one, all policies with what they cost
    policy: Option<String>,
    /// Folder of rule packs, for a pack that is given by name
    #[arg(long, value_name = "DIR", env = "PROBITY_RULES", default_value = "rules")]
    rules: PathBuf,
    /// Say of each turn of these episodes why the policy hit, passed or was undecided
    #[arg(long, value_name = "FILE", requires = "policy")]
    trace: Option<PathBuf>,
    /// Only this episode of the trace
    #[arg(long, value_name = "ID", requires = "trace")]
    episode: Option<String>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let pack = find(&args)?;
    let mut out = Output::new();
    let mut exit = Exit::Fine;
    match &args.policy {
        None => overview(&pack, args.format, &mut out)?,
        Some(id) => {
            let explanation = pack.program().explain(id, pack.limits()).ok_or_else(|| unknown(&pack, id))?;
            match &args.trace {
                None => match args.format {
                    Format::Table => out.text(&explanation)?,
                    Format::Json => out.line(json(&explanation))?,
                },
                Some(trace) => exit = walk(&pack, &explanation, trace, &args, &mut out)?,
            }
        }
    }
    out.flush()?;
    Ok(exit)
}

fn find(args: &Args) -> Result<Arc<Pack>, Failure> {
    let path = Path::new(&args.pack);
    if path.is_dir() { packs::select(path, None) } else { packs::select(&args.rules, Some(&args.pack)) }
}

fn unknown(pack: &Pack, id: &str) -> Failure {
    let ids: Vec<Arc<str>> = pack.policies().map(|p| p.id).collect();
    let help = match suggest(id, ids.iter().map(AsRef::as_ref)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    Failure::bad_input(format!("the pack {} has no policy `{id}`{help}", pack.name()))
}

fn json(value: &impl Serialize) -> String {
    // Text, numbers and lists: nothing that JSON cannot hold.
    serde_json::to_string(value).unwrap_or_default()
}

/// All policies, a line each.
fn overview(pack: &Pack, format: Format, out: &mut Output) -> Result<(), Failure> {
    let mut all: Vec<Explanation> =
        pack.policies().filter_map(|p| pack.program().explain(&p.id, pack.limits())).collect();
    all.sort_by(|a, b| a.policy.cmp(&b.policy));
    if format == Format::Json {
        return out.line(json(&all));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["POLICY", "EFFECT", "SEVERITY", "COST", "HISTORY", "TITLE"]);
    for policy in &all {
        let history = if policy.cost.scans_history { "looks back" } else { "no scan" };
        let history = if policy.history.is_empty() { "-" } else { history };
        table.add_row([
            policy.policy.as_str(),
            policy.effect,
            &policy.severity.to_string(),
            policy.cost.class,
            history,
            &policy.title,
        ]);
    }
    out.text(plain(&table))?;
    let scanning = all.iter().filter(|p| p.cost.scans_history).count();
    let verdict = match scanning {
        0 => "none of them scans history; the cost of an event does not grow with the trace".to_owned(),
        n => format!("{n} of them look back at earlier events, within a bound"),
    };
    out.line(format_args!("\n{} {}: {verdict}", pack.name(), pack.version()))?;
    for base in &pack.inherited().bases {
        let theirs = pack.program().policies.iter().filter(|policy| base.files.contains(&policy.span.file));
        let mut ids: Vec<&str> = theirs.map(|policy| policy.id.as_ref()).collect();
        ids.sort_unstable();
        let ids = if ids.is_empty() { "no policy".to_owned() } else { ids.join(", ") };
        out.line(format_args!("from {} {}: {ids}", base.name, base.version))?;
    }
    let limits = Limit::ALL.map(|limit| format!("{} {}", limit.key(), pack.limits().get(limit)));
    out.line(format_args!("limits of a session: {}; beyond them policies are undecided", limits.join(", ")))
}

/// An episode, and how the policy fared in it.
#[derive(Debug, Serialize)]
struct Walked<'e> {
    episode_id: &'e str,
    policy: &'e str,
    judged: Vec<Visit>,
}

fn walk(pack: &Pack, policy: &Explanation, trace: &Path, args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    let refused = |e: std::io::Error| Failure::bad_input(format!("{}: {e}", trace.display()));
    let reader = BufReader::new(File::open(trace).map_err(refused)?);
    let mut exit = Exit::Fine;
    let (mut episodes, mut fired, mut undecided, mut passed) = (0usize, 0usize, 0usize, 0usize);
    let mut nearest: Option<(String, Visit)> = None;
    if args.format == Format::Table {
        out.line(format_args!("{}  {}", policy.policy, policy.title))?;
    }
    for (number, line) in (1u64..).zip(reader.split(b'\n')) {
        let line = line.map_err(refused)?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let episode = match Episode::from_line(number, &line) {
            Ok(episode) => episode,
            Err(e) => {
                eprintln!("{}:{number}: {e}", trace.display());
                exit = Exit::BadInput;
                continue;
            }
        };
        if args.episode.as_ref().is_some_and(|wanted| *wanted != episode.id) {
            continue;
        }
        episodes += 1;
        let judged = walk_through(pack, &policy.policy, &episode).unwrap_or_default();
        let count = |fate: Fate| judged.iter().filter(|v| v.outcome == fate).count();
        fired += count(Fate::Fires);
        undecided += count(Fate::Undecided);
        passed += count(Fate::Passes);
        if let Some(miss) = nearest_miss(&judged)
            && nearest.as_ref().is_none_or(|(_, so_far)| miss.short < so_far.short)
        {
            nearest = Some((episode.id.clone(), miss.clone()));
        }
        let walked = Walked { episode_id: &episode.id, policy: &policy.policy, judged };
        match args.format {
            Format::Json => out.line(json(&walked))?,
            Format::Table if walked.judged.is_empty() => {}
            Format::Table => visits(&walked, out)?,
        }
    }
    if let (Some(id), 0) = (&args.episode, episodes) {
        return Err(Failure::bad_input(format!("{}: there is no episode `{id}`", trace.display())));
    }
    if args.format == Format::Table {
        let episodes = counted(episodes, "episode", "episodes");
        out.line(format_args!("\nfires {fired}, passes {passed}, undecided {undecided} times in {episodes}"))?;
        if let Some((episode, miss)) = nearest {
            nearest_words(&episode, &miss, out)?;
        }
    }
    Ok(exit)
}

fn truth(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "true",
        Some(false) => "false",
        None => "unknown",
    }
}

/// Where the policy was nearest to firing without doing so, and what kept it.
fn nearest_words(episode: &str, miss: &Visit, out: &mut Output) -> Result<(), Failure> {
    let kept = counted(miss.short, "condition", "conditions");
    out.line(format_args!("nearest miss: {episode}, turn {}, {}: {kept} short", miss.turn, miss.event))?;
    for condition in miss.conditions.iter().filter(|c| c.short) {
        out.line(format_args!("    {:<8} {}", truth(condition.holds), condition.source))?;
    }
    Ok(())
}

fn visits(walked: &Walked<'_>, out: &mut Output) -> Result<(), Failure> {
    out.line(format_args!("\n{}", walked.episode_id))?;
    for visit in &walked.judged {
        let fate = match visit.outcome {
            Fate::Fires => "FIRES".to_owned(),
            Fate::Repeats => "holds, and was reported".to_owned(),
            Fate::Passes => "passes".to_owned(),
            Fate::Undecided => format!("UNDECIDED: {}", visit.reason.as_deref().unwrap_or_default()),
        };
        out.line(format_args!("  turn {:<3} {:<40} {fate}", visit.turn, visit.event))?;
        for condition in &visit.conditions {
            let turns: Vec<String> = condition.rests_on_turns.iter().map(ToString::to_string).collect();
            let mut words = condition.source.clone();
            if let Some(reason) = &condition.reason {
                words.push_str(&format!("  ({reason})"));
            }
            if !turns.is_empty() {
                words.push_str(&format!("  (from turn {})", turns.join(", ")));
            }
            out.line(format_args!("    {:<8} {words}", truth(condition.holds)))?;
        }
    }
    Ok(())
}
