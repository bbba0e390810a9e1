//! From syntax tree to text: one canonical spelling, which reads back to the same tree.
//!
//! Parentheses stand where the grammar needs them, and around a cast or a quantifier that something
//! follows, where a reader would stumble. Comments are not in the tree. [`meaning`] is the text of a
//! whole pack that its digest is made of.

#[cfg(test)]
pub(super) mod laws;
mod sequence;
mod words;

use std::{collections::BTreeSet, fmt::Write as _};

use super::{
    ast::*,
    parse::{MAX_NESTING, is_name},
};
use crate::model::Num;
use words::is_word;

/// The text of a declaration, without a line end.
pub fn print_item(item: &Item) -> String {
    let mut out = Printer::default();
    out.item(item);
    out.text
}

/// The text of an expression.
pub fn print_expr(expr: &Expr) -> String {
    let mut out = Printer { text: String::new(), plain: too_deep(expr) };
    out.expr(expr, OR, true);
    out.text
}

/// A length of time as it is written.
pub(super) fn duration(seconds: Num) -> String {
    let mut out = Printer::default();
    out.duration(seconds);
    out.text
}

/// An element of a set or table as it is written.
pub(super) fn constant(value: &Literal) -> String {
    let mut out = Printer::default();
    out.constant(value);
    out.text
}

/// What the policies of a pack mean, as text: independent of layout, comments, redundant parentheses,
/// and of the order of files, declarations, set elements, table rows and of statements that say
/// something about a policy as a whole. Names and titles count.
pub fn meaning(modules: &[Module]) -> String {
    let mut items: Vec<String> = modules.iter().flat_map(|m| &m.items).map(|i| print_item(&ordered(i))).collect();
    items.sort();
    // No declaration has an empty line in it, so this can be taken apart in one way only.
    items.join("\n\n")
}

/// The same declaration with those parts in order whose order means nothing.
pub(super) fn ordered(item: &Item) -> Item {
    let mut item = item.clone();
    let shown = |constant: &Constant| {
        let mut out = Printer::default();
        out.constant(&constant.value);
        out.text
    };
    match &mut item {
        Item::Set(set) => {
            let mut seen = BTreeSet::new();
            set.items.retain(|c| seen.insert(shown(c)));
            set.items.sort_by_cached_key(shown);
        }
        Item::Table(table) => table.rows.sort_by_cached_key(|(key, _)| key.iter().map(shown).collect::<Vec<_>>()),
        // `let` and `when` keep their places among the others: names are known from their `let` on.
        Item::Policy(policy) => policy.statements.sort_by_key(|statement| match statement.kind {
            StatementKind::Severity(_) => 0,
            StatementKind::Tags(_) => 1,
            StatementKind::On(_) => 2,
            _ => 3,
        }),
        Item::Const(_) | Item::Fact(_) | Item::Forget(_) | Item::Def(_) => {}
    }
    item
}

// How tightly a construct binds: the levels of the grammar, loosest first.
const OR: u8 = 0;
const AND: u8 = 1;
const NOT: u8 = 2;
const COMPARISON: u8 = 3;
const DEFAULT: u8 = 4;
const JOINED: u8 = 5;
const SUM: u8 = 6;
const PRODUCT: u8 = 7;
const UNARY: u8 = 8;
const POSTFIX: u8 = 9;
const PRIMARY: u8 = 10;

fn level(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::Or(_) => OR,
        ExprKind::And(_) => AND,
        ExprKind::Not(inner) if matches!(inner.kind, ExprKind::Is(..)) => COMPARISON,
        ExprKind::Not(_) | ExprKind::Quantifier(..) => NOT,
        ExprKind::Is(..) | ExprKind::Mentions(..) | ExprKind::Detects(..) | ExprKind::Matches(..) => COMPARISON,
        ExprKind::Binary(op, ..) => operator_level(*op),
        ExprKind::Default(..) => DEFAULT,
        ExprKind::Neg(_) => UNARY,
        ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Each(_) | ExprKind::Cast(..) => POSTFIX,
        ExprKind::Literal(_)
        | ExprKind::Name(_)
        | ExprKind::List(_)
        | ExprKind::Set(_)
        | ExprKind::Apply(..)
        | ExprKind::Comprehension { .. }
        | ExprKind::Fold(..)
        | ExprKind::History(..)
        | ExprKind::Sequence(_)
        | ExprKind::Derived(_) => PRIMARY,
    }
}

fn operator_level(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Union | BinaryOp::Concat => JOINED,
        BinaryOp::Add | BinaryOp::Sub => SUM,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => PRODUCT,
        _ => COMPARISON,
    }
}

/// Whether parentheses that only help a reader could pass the parser's limit. A bracket stands for a
/// level of the tree at least; around the expression there are those of a policy and of a message.
fn too_deep(expr: &Expr) -> bool {
    expr.depth + 2 > MAX_NESTING
}

#[derive(Default)]
struct Printer {
    text: String,
    /// Only the parentheses that the grammar needs.
    plain: bool,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn show(&mut self, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// A whole expression: what follows it cannot be taken for a part of it.
    fn whole(&mut self, expr: &Expr) {
        let outer = self.plain;
        self.plain = outer || too_deep(expr);
        self.expr(expr, OR, true);
        self.plain = outer;
    }

    fn separated<T>(&mut self, items: &[T], between: &str, mut each: impl FnMut(&mut Printer, &T)) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.put(between);
            }
            each(self, item);
        }
    }

    // ---- declarations ----

    fn item(&mut self, item: &Item) {
        match item {
            Item::Set(set) => {
                self.put("set ");
                self.put(&set.name.text);
                self.put(" = ");
                self.braced(&set.items, |out, c| out.constant(&c.value));
            }
            Item::Table(table) => {
                self.put("table ");
                self.put(&table.name.text);
                self.names_in_parentheses(&table.params);
                self.put(" = ");
                self.braced(&table.rows, |out, (key, value)| {
                    match key.as_slice() {
                        [only] => out.constant(&only.value),
                        several => {
                            out.put("(");
                            out.separated(several, ", ", |out, c| out.constant(&c.value));
                            out.put(")");
                        }
                    }
                    out.put(": ");
                    out.constant(&value.value);
                });
            }
            Item::Const(constant) => {
                self.put("const ");
                self.put(&constant.name.text);
                self.put(" = ");
                self.literal(&constant.value.value);
            }
            Item::Fact(fact) => {
                self.put("fact ");
                self.keyed(&fact.name, &fact.key);
                self.put(if fact.collects { " collects " } else { " = " });
                self.whole(&fact.value);
                self.feeding(&fact.from, fact.when.as_ref());
            }
            Item::Forget(forget) => {
                self.put("forget ");
                self.keyed(&forget.name, &forget.key);
                self.feeding(&forget.from, forget.when.as_ref());
            }
            Item::Def(def) => {
                self.put("def ");
                self.put(&def.name.text);
                self.names_in_parentheses(&def.params);
                self.put(" = ");
                self.whole(&def.body);
            }
            Item::Policy(policy) => {
                self.put("policy ");
                self.put(&policy.id.text);
                self.put(" ");
                self.string(&policy.title);
                self.put(" {\n");
                for statement in &policy.statements {
                    self.put("  ");
                    self.statement(&statement.kind);
                    self.put("\n");
                }
                self.put("}");
            }
        }
    }

    fn braced<T>(&mut self, items: &[T], each: impl FnMut(&mut Printer, &T)) {
        if items.is_empty() {
            self.put("{}");
            return;
        }
        self.put("{ ");
        self.separated(items, ", ", each);
        self.put(" }");
    }

    fn names_in_parentheses(&mut self, names: &[Name]) {
        self.put("(");
        self.separated(names, ", ", |out, name| out.put(&name.text));
        self.put(")");
    }

    fn keyed(&mut self, name: &Name, key: &[Expr]) {
        self.put(&name.text);
        if !key.is_empty() {
            self.put("[");
            self.separated(key, ", ", Printer::whole);
            self.put("]");
        }
    }

    fn feeding(&mut self, from: &[Source], when: Option<&Expr>) {
        self.put("\n  from ");
        self.sources(from);
        if let Some(when) = when {
            self.put("\n  when ");
            self.whole(when);
        }
    }

    fn statement(&mut self, statement: &StatementKind) {
        match statement {
            StatementKind::Severity(n) => {
                self.put("severity ");
                self.show(n);
            }
            StatementKind::Tags(tags) => {
                self.put("tags ");
                self.separated(tags, ", ", |out, tag| out.put(&tag.text));
            }
            StatementKind::On(sources) => {
                self.put("on ");
                self.sources(sources);
            }
            StatementKind::Let(name, value) => {
                self.put("let ");
                self.put(&name.text);
                self.put(" = ");
                self.whole(value);
            }
            StatementKind::When(condition) => {
                self.put("when ");
                self.whole(condition);
            }
            StatementKind::Effect { effect, once_per, negated, condition } => {
                self.put(effect.word());
                if !once_per.is_empty() {
                    self.put(" once per ");
                    self.separated(once_per, ", ", Printer::whole);
                }
                self.put(if *negated { " unless " } else { " if " });
                self.whole(condition);
            }
            StatementKind::Message(parts) => {
                self.put("message \"");
                for part in parts {
                    match part {
                        TemplatePart::Text(text) => self.escaped(text, true),
                        TemplatePart::Hole(value) => {
                            self.put("{");
                            self.whole(value);
                            self.put("}");
                        }
                    }
                }
                self.put("\"");
            }
            StatementKind::Judge(question) => {
                self.put("judge ");
                self.string(question);
            }
        }
    }

    // ---- events ----

    fn sources(&mut self, sources: &[Source]) {
        self.separated(sources, " or ", Printer::source);
    }

    fn source(&mut self, source: &Source) {
        // Only `any` stands for several kinds.
        self.put(match source.kinds.as_slice() {
            [kind] => kind.word(),
            _ => "any",
        });
        match &source.tools {
            Tools::Any => {}
            Tools::Named(name) if is_name(&name.text) => self.spaced(&name.text),
            Tools::Named(name) => {
                self.put(" ");
                self.string(&name.text);
            }
            Tools::Glob(pattern) => self.spaced(&pattern.text),
            Tools::Set(name) => {
                self.put(" in");
                self.spaced(&name.text);
            }
            Tools::OneOf(names) => {
                self.put(" in ");
                self.braced(names, |out, tool| {
                    let bare = tool.is_glob || is_word(&tool.name.text);
                    if bare { out.put(&tool.name.text) } else { out.string(&tool.name.text) }
                });
            }
        }
    }

    fn spaced(&mut self, word: &str) {
        self.put(" ");
        self.put(word);
    }

    fn pattern(&mut self, pattern: &Pattern) {
        self.sources(&pattern.sources);
        let windows = pattern.windows();
        if let Some(filter) = &pattern.filter {
            self.put(" where ");
            self.expr(filter, OR, self.plain || (windows == 0 && pattern.elements.is_none()));
        }
        self.within(pattern.within_time.as_ref(), pattern.within_turns, pattern.within_events);
        if let Some(since) = &pattern.since {
            self.put(" since ");
            if since.sources.len() == 1 && since.filter.is_none() && since.windows() == 0 {
                self.sources(&since.sources);
            } else {
                self.put("(");
                self.pattern(since);
                self.put(")");
            }
        }
        if pattern.before_turn {
            self.put(" before this turn");
        }
        if pattern.including_this {
            self.put(" including this");
        }
        if let Some(elements) = &pattern.elements {
            self.put(", ");
            self.binder(elements, true);
        }
    }

    pub(super) fn within(&mut self, time: Option<&Within>, turns: Option<u32>, events: Option<u32>) {
        match time {
            None => {}
            Some(Within::Duration(seconds, _)) => {
                self.put(" within ");
                self.duration(*seconds);
            }
            Some(Within::Named(name)) => {
                self.put(" within ");
                self.put(&name.text);
            }
        }
        for (bound, one, many) in [(turns, "turn", "turns"), (events, "event", "events")] {
            if let Some(n) = bound {
                self.put(" within ");
                self.show(n);
                self.spaced(if n == 1 { one } else { many });
            }
        }
    }

    // ---- expressions ----

    /// An expression in a place of a level. `closed` says that what follows cannot be taken for the
    /// rest of a quantifier.
    fn expr(&mut self, expr: &Expr, at_least: u8, closed: bool) {
        let open = matches!(expr.kind, ExprKind::Quantifier(..)) && !closed;
        if level(&expr.kind) < at_least || open {
            self.in_parentheses(expr);
            return;
        }
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Name(name) => self.put(name),
            ExprKind::List(items) => {
                self.put("[");
                self.values(items);
                self.put("]");
            }
            ExprKind::Set(items) => {
                self.put("{");
                self.values(items);
                self.put("}");
            }
            ExprKind::Field(base, name) => {
                self.base(base);
                self.put(".");
                self.put(&name.text);
            }
            ExprKind::Index(base, keys) => {
                self.base(base);
                self.put("[");
                self.values(keys);
                self.put("]");
            }
            ExprKind::Each(base) => {
                self.base(base);
                self.put("[*]");
            }
            ExprKind::Cast(base, to) => {
                self.base(base);
                self.put(" as ");
                self.put(to.word());
            }
            ExprKind::Is(base, ty) => self.is(base, " is ", *ty),
            ExprKind::Default(first, otherwise) => {
                // It groups to the right.
                self.expr(first, JOINED, false);
                self.put(" default ");
                self.expr(otherwise, DEFAULT, false);
            }
            ExprKind::Neg(inner) => {
                self.put("-");
                self.expr(inner, UNARY, false);
            }
            ExprKind::Not(inner) => match &inner.kind {
                ExprKind::Is(base, ty) => self.is(base, " is not ", *ty),
                _ => {
                    self.put("not ");
                    self.expr(inner, NOT, closed);
                }
            },
            ExprKind::And(parts) => self.chain(parts, " and ", NOT, closed),
            ExprKind::Or(parts) => self.chain(parts, " or ", AND, closed),
            ExprKind::Binary(op, left, right) => {
                let level = operator_level(*op);
                // Comparisons do not chain; the others group to the left.
                self.expr(left, if level == COMPARISON { DEFAULT } else { level }, false);
                self.spaced(op.word());
                self.put(" ");
                self.expr(right, level + 1, false);
            }
            ExprKind::Mentions(text, category) => {
                self.expr(text, DEFAULT, false);
                self.put(" mentions ");
                self.put(&category.text);
            }
            ExprKind::Detects(text, detector) => {
                self.expr(text, DEFAULT, false);
                self.put(" detects ");
                self.put(&detector.text);
            }
            ExprKind::Matches(text, regex) => {
                self.expr(text, DEFAULT, false);
                self.put(" matches ");
                self.regex(regex);
            }
            ExprKind::Apply(name, arguments) => {
                self.put(&name.text);
                self.put("(");
                self.separated(arguments, ", ", |out, argument| match argument {
                    Argument::Expr(e) => out.expr(e, OR, true),
                    Argument::Regex(regex) => out.regex(regex),
                });
                self.put(")");
            }
            ExprKind::Quantifier(quantity, binder, body) => {
                self.put(quantity.word());
                self.put(" ");
                self.binder(binder, self.plain);
                self.put(": ");
                self.expr(body, OR, closed);
            }
            ExprKind::Comprehension { list, element, binder } => {
                self.put(if *list { "[" } else { "{" });
                self.expr(element, OR, self.plain);
                self.put(" for ");
                self.binder(binder, true);
                self.put(if *list { "]" } else { "}" });
            }
            ExprKind::Fold(op, element, binder) => {
                self.put(op.history().word());
                self.put("(");
                if let Some(element) = element {
                    self.expr(element, OR, self.plain);
                    self.put(" for ");
                }
                self.binder(binder, true);
                self.put(")");
            }
            ExprKind::History(op, element, pattern) => {
                self.put(op.word());
                self.put("(");
                if let Some(element) = element {
                    self.expr(element, OR, self.plain);
                    self.put(" over ");
                }
                self.pattern(pattern);
                self.put(")");
            }
            ExprKind::Sequence(sequence) => self.sequence(sequence),
            ExprKind::Derived(derived) => {
                self.put(derived.word());
                self.put("(");
                self.expr(&derived.value, OR, true);
                self.put(", ");
                self.pattern(&derived.pattern);
                if let Some(path) = &derived.path {
                    self.put(", ");
                    self.expr(path, OR, true);
                }
                self.put(")");
            }
        }
    }

    fn in_parentheses(&mut self, expr: &Expr) {
        self.put("(");
        self.expr(expr, OR, true);
        self.put(")");
    }

    fn values(&mut self, items: &[Expr]) {
        self.separated(items, ", ", |out, item| out.expr(item, OR, true));
    }

    fn chain(&mut self, parts: &[Expr], between: &str, level: u8, closed: bool) {
        let last = parts.len().saturating_sub(1);
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.put(between);
            }
            self.expr(part, level, closed && i == last);
        }
    }

    /// What a postfix step stands behind.
    fn base(&mut self, base: &Expr) {
        // `a as object.b` reads back as well, but not to a person.
        if matches!(base.kind, ExprKind::Cast(..)) && !self.plain {
            self.in_parentheses(base);
        } else {
            self.expr(base, POSTFIX, false);
        }
    }

    fn is(&mut self, base: &Expr, word: &str, ty: Type) {
        self.expr(base, DEFAULT, false);
        self.put(word);
        self.put(ty.word());
    }

    fn binder(&mut self, binder: &Binder, closed: bool) {
        if let Some(key) = &binder.key {
            self.put(&key.text);
            self.put(", ");
        }
        self.put(&binder.value.text);
        self.put(" in ");
        self.expr(&binder.collection, JOINED, false);
        if let Some(filter) = &binder.filter {
            self.put(" where ");
            self.expr(filter, OR, closed);
        }
    }
}

impl Pattern {
    /// How many windows it has.
    pub(super) fn windows(&self) -> usize {
        usize::from(self.within_time.is_some())
            + usize::from(self.within_turns.is_some())
            + usize::from(self.within_events.is_some())
            + usize::from(self.since.is_some())
            + usize::from(self.before_turn)
            + usize::from(self.including_this)
    }
}
