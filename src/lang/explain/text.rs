//! An explanation as text for a terminal: one heading a line, what belongs to it indented.

use std::fmt::{self, Write as _};

use super::{Clause, Explanation, FactUse, HistoryUse, Read};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.policy, self.title)?;
        writeln!(f, "{}", self.at)?;
        let tags = if self.tags.is_empty() { String::new() } else { format!(", tags {}", self.tags.join(", ")) };
        let effect = match self.effect {
            "judge" => "decided by a judge, not by this engine",
            other => other,
        };
        writeln!(f, "\neffect    {effect}, severity {}{tags}", self.severity)?;
        if let Some(question) = &self.question {
            return writeln!(f, "asks      {question}");
        }
        entries(f, "judges", self.judges.iter().map(String::as_str))?;
        entries(f, "where", self.names.iter().map(|n| format!("{} = {}", n.name, n.is)))?;
        writeln!(f, "\nfires when {}", if self.conditions.len() == 1 { "this holds" } else { "all of these hold" })?;
        self.conditions.iter().try_for_each(|clause| lines(f, clause, 1))?;
        if !self.once_per.is_empty() {
            writeln!(f, "\nreported once a session for each {}", self.once_per.join(", "))?;
        }
        if !self.facts.is_empty() {
            writeln!(f, "\nfacts it reads")?;
            self.facts.iter().try_for_each(|fact| fact_lines(f, fact))?;
        }
        if !self.history.is_empty() {
            writeln!(f, "\nwhat it asks about earlier events")?;
            self.history.iter().try_for_each(|question| history_lines(f, question))?;
        }
        if !self.orders.is_empty() {
            writeln!(f, "\norders of events that it asks for")?;
            self.orders.iter().try_for_each(|order| super::order::lines(f, order))?;
        }
        writeln!(f)?;
        let scans = if self.cost.scans_history { "looks back" } else { "no scan of history" };
        writeln!(f, "cost      {} per event, {scans}", self.cost.class)?;
        self.cost.because.iter().try_for_each(|reason| writeln!(f, "          {reason}"))
    }
}

/// A heading with one or several lines beside it.
fn entries<T: fmt::Display>(f: &mut fmt::Formatter<'_>, heading: &str, items: impl Iterator<Item = T>) -> fmt::Result {
    for (i, item) in items.enumerate() {
        writeln!(f, "{:<10}{item}", if i == 0 { heading } else { "" })?;
    }
    Ok(())
}

/// A condition, one leaf a line.
fn lines(f: &mut fmt::Formatter<'_>, clause: &Clause, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let (heading, parts) = match clause {
        Clause::Leaf(text) => return writeln!(f, "{indent}{text}"),
        Clause::All(parts) => ("all of", parts),
        Clause::Any(parts) => ("at least one of", parts),
        Clause::Not(inner) => match &**inner {
            Clause::Leaf(text) => return writeln!(f, "{indent}not: {text}"),
            Clause::All(parts) => ("not all of", parts),
            Clause::Any(parts) => ("none of", parts),
            other => {
                writeln!(f, "{indent}not")?;
                return lines(f, other, depth + 1);
            }
        },
    };
    writeln!(f, "{indent}{heading}")?;
    parts.iter().try_for_each(|part| lines(f, part, depth + 1))
}

fn fact_lines(f: &mut fmt::Formatter<'_>, fact: &FactUse) -> fmt::Result {
    let key = if fact.key.is_empty() { String::new() } else { format!("[{}]", fact.key.join(", ")) };
    writeln!(f, "  {}{key}  ({})", fact.fact, fact.at)?;
    writeln!(f, "    keeps   the {} of `{}`", fact.keeps, fact.value)?;
    let when = fact.when.as_ref().map(|w| format!(", when {w}")).unwrap_or_default();
    writeln!(f, "    fed by  {}{when}", fact.from.join("; "))?;
    fact.forgotten_by.iter().try_for_each(|by| writeln!(f, "    forgets at {by}"))?;
    for (i, read) in fact.reads.iter().enumerate() {
        let mut how = String::new();
        match read {
            Read::Key => how.push_str("by its key: one look-up"),
            Read::Index { entry, equals, at_most } => {
                write!(how, "the entries whose `{entry}` equals `{equals}`, found by an index: at most {at_most}")?
            }
            Read::Walk { at_most } => write!(how, "its entries one by one: at most {at_most}")?,
        }
        writeln!(f, "    {:<8}{how}", if i == 0 { "read" } else { "" })?;
    }
    Ok(())
}

fn history_lines(f: &mut fmt::Formatter<'_>, question: &HistoryUse) -> fmt::Result {
    writeln!(f, "  {}", question.source)?;
    writeln!(f, "    about   {}", question.about.join("; "))?;
    if let Some(list) = &question.each_of {
        writeln!(f, "    of each the elements of {list}")?;
    }
    for condition in &question.tested_on_arrival {
        writeln!(f, "    where   {condition}, tested once, when it arrives")?;
    }
    for join in &question.joined_on {
        writeln!(f, "    where   {} equals {}, found by an index", join.earlier, join.present)?;
    }
    for condition in &question.tested_one_by_one {
        writeln!(f, "    where   {condition}, tested one by one")?;
    }
    question.window.iter().try_for_each(|window| writeln!(f, "    window  {window}"))?;
    writeln!(f, "    keeps   {}", question.keeps)?;
    match question.at_most {
        Some(most) => writeln!(f, "    answer  by looking at them: at most {most}"),
        None => writeln!(f, "    answer  always ready"),
    }
}
