//! From text to syntax tree: the one file that knows pest.
//!
//! A line that begins with a top-level word begins a declaration, so a mistake ends where the next
//! such line begins and one run reports every broken declaration. Nesting is bounded before the
//! grammar sees the text, since the generated parser recurses.

use std::sync::Arc;

use pest::{
    Parser,
    error::{ErrorVariant, InputLocation},
    iterators::{Pair, Pairs},
};

pub(super) mod concrete;
mod mistake;
mod pattern;
mod scan;
mod words;

use scan::Found;
use words::{Expected, ITEM_WORDS};

use super::ast::*;
use crate::{
    diag::{Code, Diagnostic, Diagnostics, FileId, Span, quote},
    model::{Effect, EventKind, Num},
};

/// The generated parser, apart because its rules are public and undocumented.
#[allow(missing_docs, clippy::all, clippy::unwrap_used, reason = "generated code")]
mod generated {
    #[derive(pest_derive::Parser)]
    #[grammar = "grammar/policy.pest"]
    pub struct PolicyParser;
}
use generated::{PolicyParser, Rule};

/// How deep brackets and quantifiers may nest.
pub const MAX_NESTING: u16 = 64;

/// Reads one file. What could be read is in the module, whatever else is wrong.
pub fn parse(file: FileId, text: &str) -> (Module, Diagnostics) {
    let mut reader = Reader { file, base: 0, problems: Diagnostics::default() };
    let mut module = Module::default();
    let mut start = 0;
    while start < text.len() {
        let end = next_item(text, start);
        reader.block(start, text.get(start..end).unwrap_or_default(), &mut module);
        start = end;
    }
    (module, reader.problems)
}

/// Reads one expression by itself: for examples and tools.
pub fn parse_expr(file: FileId, text: &str) -> Result<Expr, Box<Diagnostic>> {
    let reader = Reader { file, base: 0, problems: Diagnostics::default() };
    if let Found::TooDeep { at } = scan::scan(text) {
        return Err(Box::new(reader.too_deep(at)));
    }
    match PolicyParser::parse(Rule::one_expr, text) {
        Ok(mut pairs) => {
            let whole = pairs.next().and_then(|p| p.into_inner().next());
            match whole {
                Some(expr) => reader.expr(expr),
                None => Err(Box::new(Diagnostic::error(Code::Syntax, Span::start_of(file), "nothing to read"))),
            }
        }
        Err(error) => Err(Box::new(reader.syntax_error(text, 0, &error))),
    }
}

/// Whether a text can be a name: a word that means nothing in the grammar.
pub(super) fn is_name(text: &str) -> bool {
    PolicyParser::parse(Rule::name, text).is_ok_and(|read| read.as_str() == text)
}

/// Skips white space and comments between items.
fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{FEFF}']);
        at += rest.len() - trimmed.len();
        if !trimmed.starts_with('#') {
            return at;
        }
        at += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

/// The start of the next line, after `from`, that begins with an item's word.
fn next_item(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        match text.get(at..).and_then(|rest| rest.find('\n')) {
            None => return text.len(),
            Some(line_end) => at += line_end + 1,
        }
        let rest = text.get(at..).unwrap_or_default();
        if begins_item(rest) {
            return at;
        }
    }
}

/// The name of a declaration that cannot be read: the second word.
fn declared_name(text: &str, at: usize) -> Option<Arc<str>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = text.get(at..)?.trim_start_matches(is_word).trim_start();
    let name = rest.get(..rest.find(|c| !is_word(c)).unwrap_or(rest.len()))?;
    (!name.is_empty()).then(|| Arc::from(name))
}

/// Whether a text begins with the word of a declaration.
fn begins_item(text: &str) -> bool {
    ITEM_WORDS
        .iter()
        .any(|word| text.strip_prefix(word).is_some_and(|after| after.starts_with(|c: char| c.is_whitespace())))
}

/// How much of a pair is code. Rules that allow white space inside end after it, and after comments: a
/// caret and a quoted condition cover words alone.
fn code_length(pair: &Pair<'_, Rule>) -> usize {
    let text = pair.as_str().trim_end();
    if !text.rsplit('\n').next().is_some_and(|line| line.contains('#')) {
        return text.len();
    }
    // Behind the last token of a name or value there are only brackets, white space and comments.
    let mut last = pair.clone();
    while let Some(inner) = last.clone().into_inner().next_back() {
        last = inner;
    }
    let start = pair.as_span().start();
    let token = last.as_span().end().saturating_sub(start);
    let mut end = token;
    let mut comment = false;
    for (i, c) in text.get(token..).unwrap_or_default().char_indices() {
        comment = c == '#' || (comment && c != '\n');
        if !comment && !c.is_whitespace() {
            end = token + i + c.len_utf8();
        }
    }
    end
}

type Read<T> = Result<T, Box<Diagnostic>>;

struct Reader {
    file: FileId,
    /// Offset of the item in the file: pest counts from the item's start.
    base: usize,
    problems: Diagnostics,
}

impl Reader {
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        let end = span.start() + code_length(pair);
        Span::new(self.file, self.base + span.start()..self.base + end)
    }

    fn problem<T>(&self, code: Code, pair: &Pair<'_, Rule>, message: impl Into<String>) -> Read<T> {
        Err(Box::new(Diagnostic::error(code, self.span(pair), message)))
    }

    /// Reads the declarations of a block: what stands between two lines that begin with an item's word.
    fn block(&mut self, base: usize, block: &str, module: &mut Module) {
        self.base = base;
        let mut at = skip_blank(block, 0);
        if let Found::TooDeep { at: deep } = scan::scan(block) {
            self.problems.push(self.too_deep(deep));
            module.unread.push(declared_name(block, at));
            return;
        }
        while at < block.len() {
            self.base = base + at;
            match PolicyParser::parse(Rule::one_item, block.get(at..).unwrap_or_default()) {
                Ok(mut pairs) => {
                    let end = pairs.as_str().len();
                    let item = pairs.next().and_then(|p| p.into_inner().next());
                    match item.map(|p| self.item(p)) {
                        Some(Ok(item)) => module.items.push(item),
                        Some(Err(problem)) => {
                            self.problems.push(*problem);
                            module.unread.push(declared_name(block, at));
                        }
                        None => {}
                    }
                    at = skip_blank(block, at + end);
                }
                Err(error) => {
                    self.base = base;
                    let problem = self.syntax_error(block, at, &error);
                    self.problems.push(problem);
                    module.unread.push(declared_name(block, at));
                    return;
                }
            }
        }
    }

    fn too_deep(&self, at: usize) -> Diagnostic {
        let at = Span::new(self.file, self.base + at..self.base + at + 1);
        Diagnostic::error(Code::TooDeep, at, "this is nested too deep")
            .label(format!("more than {MAX_NESTING} levels"))
            .help("split it with `let` or `def`")
    }

    /// What the grammar cannot read; `from` is where in the text the grammar began.
    fn syntax_error(&self, text: &str, from: usize, error: &pest::error::Error<Rule>) -> Diagnostic {
        let offset = from
            + match error.location {
                InputLocation::Pos(at) => at,
                InputLocation::Span((start, _)) => start,
            };
        let ErrorVariant::ParsingError { positives, .. } = &error.variant else {
            // The parser's own guard: a thread with a small stack.
            return self.too_deep(offset);
        };
        let mistake = mistake::explain(text, offset, Expected(positives));
        let span = |at: std::ops::Range<usize>| Span::new(self.file, self.base + at.start..self.base + at.end);
        let mut problem = Diagnostic::error(Code::Syntax, span(mistake.at), mistake.message).label(mistake.label);
        if let Some((at, text)) = mistake.also {
            problem = problem.secondary(span(at), text);
        }
        match mistake.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }

    // ---- items ----

    fn item(&self, pair: Pair<'_, Rule>) -> Read<Item> {
        let Some(inner) = pair.clone().into_inner().next() else {
            return self.problem(Code::Syntax, &pair, "nothing is declared here");
        };
        let span = self.span(&inner);
        let rule = inner.as_rule();
        let mut p = self.parts(inner);
        Ok(match rule {
            Rule::set_item => Item::Set(SetItem {
                name: self.name(p.next(Rule::name)?),
                items: p.rest().map(|c| self.constant(c)).collect::<Read<_>>()?,
            }),
            Rule::table_item => {
                let name = self.name(p.next(Rule::name)?);
                let params = p.all(Rule::name).into_iter().map(|n| self.name(n)).collect();
                let rows = p
                    .rest()
                    .map(|row| {
                        let mut parts = self.parts(row);
                        let key = self.parts(parts.next(Rule::table_key)?);
                        let key = key.rest().map(|c| self.constant(c)).collect::<Read<_>>()?;
                        Ok((key, self.constant(parts.next(Rule::constant)?)?))
                    })
                    .collect::<Read<_>>()?;
                Item::Table(TableItem { name, params, rows })
            }
            Rule::const_item => {
                let name = self.name(p.next(Rule::name)?);
                let literal = p.next(Rule::literal)?;
                let span = self.span(&literal);
                Item::Const(ConstItem { name, value: Constant { value: self.literal(literal)?, span } })
            }
            Rule::fact_item => {
                let name = self.name(p.next(Rule::name)?);
                let key = self.key(&mut p)?;
                let body = p.any()?;
                let collects = body.as_rule() == Rule::fact_collects;
                let value = self.expr(self.parts(body).next(Rule::expr)?)?;
                let from = self.sources(p.next(Rule::sources)?)?;
                let when = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?;
                Item::Fact(FactItem { name, key, collects, value, from, when })
            }
            Rule::forget_item => {
                let name = self.name(p.next(Rule::name)?);
                let key = self.key(&mut p)?;
                let from = self.sources(p.next(Rule::sources)?)?;
                let when = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?;
                Item::Forget(ForgetItem { name, key, from, when })
            }
            Rule::def_item => {
                let name = self.name(p.next(Rule::name)?);
                let params = p.all(Rule::name).into_iter().map(|n| self.name(n)).collect();
                Item::Def(DefItem { name, params, body: self.expr(p.next(Rule::expr)?)? })
            }
            _ => {
                let id = self.name(p.next(Rule::policy_id)?);
                let title = self.text(&p.next(Rule::string)?)?;
                let statements = p.rest().map(|s| self.statement(s)).collect::<Read<_>>()?;
                Item::Policy(PolicyItem { id, title, span, statements })
            }
        })
    }

    fn key(&self, p: &mut Parts<'_>) -> Read<Vec<Expr>> {
        match p.maybe(Rule::fact_key) {
            Some(key) => self.parts(key).rest().map(|e| self.expr(e)).collect(),
            None => Ok(Vec::new()),
        }
    }

    fn statement(&self, pair: Pair<'_, Rule>) -> Read<Statement> {
        let span = self.span(&pair);
        let inner = self.parts(pair).any()?;
        let rule = inner.as_rule();
        let mut p = self.parts(inner);
        let kind = match rule {
            Rule::severity => StatementKind::Severity(self.number(&p.next(Rule::number)?)?),
            Rule::tags => StatementKind::Tags(p.rest().map(|t| self.name(t)).collect()),
            Rule::on => StatementKind::On(self.sources(p.next(Rule::sources)?)?),
            Rule::let_in => StatementKind::Let(self.name(p.next(Rule::name)?), self.expr(p.next(Rule::expr)?)?),
            Rule::when => StatementKind::When(self.expr(p.next(Rule::expr)?)?),
            Rule::effect => {
                let effect = match p.next(Rule::effect_kind)?.as_str() {
                    "deny" => Effect::Deny,
                    "review" => Effect::Review,
                    "flag" => Effect::Flag,
                    _ => Effect::Milestone,
                };
                let once_per = match p.maybe(Rule::once_per) {
                    Some(keys) => self.parts(keys).rest().map(|e| self.expr(e)).collect::<Read<_>>()?,
                    None => Vec::new(),
                };
                let negated = p.next(Rule::polarity)?.as_str() == "unless";
                StatementKind::Effect { effect, once_per, negated, condition: self.expr(p.next(Rule::expr)?)? }
            }
            Rule::message => {
                let template = p.next(Rule::template)?;
                let parts = template
                    .into_inner()
                    .map(|part| match part.as_rule() {
                        Rule::hole => Ok(TemplatePart::Hole(self.expr(self.parts(part).next(Rule::expr)?)?)),
                        _ => {
                            let start = self.base + part.as_span().start();
                            Ok(TemplatePart::Text(self.unescape(start, part.as_str())?))
                        }
                    })
                    .collect::<Read<_>>()?;
                StatementKind::Message(parts)
            }
            _ => StatementKind::Judge(self.text(&p.next(Rule::string)?)?),
        };
        Ok(Statement { span, kind })
    }

    // ---- events ----

    fn sources(&self, pair: Pair<'_, Rule>) -> Read<Vec<Source>> {
        self.parts(pair).rest().map(|s| self.source(s)).collect()
    }

    fn source(&self, pair: Pair<'_, Rule>) -> Read<Source> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let kinds = match p.next(Rule::kind)?.as_str() {
            "system" => vec![EventKind::System],
            "user" => vec![EventKind::User],
            "assistant" => vec![EventKind::Assistant],
            "call" => vec![EventKind::Call],
            "result" => vec![EventKind::Result],
            "hit" => vec![EventKind::Hit],
            "end" => vec![EventKind::End],
            _ => EventKind::OF_THE_TRACE.to_vec(),
        };
        let tools = match p.maybe(Rule::tools) {
            None => Tools::Any,
            Some(tools) => {
                let inner = self.parts(tools).any()?;
                match inner.as_rule() {
                    Rule::tool_list => {
                        let listed = |tool: Pair<'_, Rule>| {
                            let is_glob = tool.as_rule() == Rule::glob;
                            Ok(ToolName { name: self.tool(tool)?, is_glob })
                        };
                        Tools::OneOf(self.parts(inner).rest().map(listed).collect::<Read<_>>()?)
                    }
                    Rule::tool_set => Tools::Set(self.name(self.parts(inner).next(Rule::name)?)),
                    Rule::glob => Tools::Glob(self.name(inner)),
                    _ => Tools::Named(self.tool(inner)?),
                }
            }
        };
        Ok(Source { span, kinds, tools })
    }

    fn tool(&self, pair: Pair<'_, Rule>) -> Read<Name> {
        match pair.as_rule() {
            Rule::string => Ok(Name { text: self.text(&pair)?, span: self.span(&pair) }),
            _ => Ok(self.name(pair)),
        }
    }

    // ---- expressions ----

    fn expr(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        self.chain(pair, Rule::and_expr, ExprKind::Or)
    }

    /// `a OP b OP c` as one flat node; a single operand is itself.
    fn chain(&self, pair: Pair<'_, Rule>, operand: Rule, join: fn(Vec<Expr>) -> ExprKind) -> Read<Expr> {
        let span = self.span(&pair);
        let mut operands = self
            .parts(pair)
            .rest()
            .map(|p| match operand {
                Rule::and_expr => self.chain(p, Rule::not_expr, ExprKind::And),
                _ => self.not_expr(p),
            })
            .collect::<Read<Vec<_>>>()?;
        match (operands.len(), operands.pop()) {
            (1, Some(only)) => Ok(only),
            (_, Some(last)) => {
                operands.push(last);
                self.node(span, join(operands))
            }
            (_, None) => Err(Box::new(Diagnostic::error(Code::Syntax, span, "an operand is missing"))),
        }
    }

    fn not_expr(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let negations = p.all(Rule::negation).len();
        let operand = p.any()?;
        let mut expr = match operand.as_rule() {
            Rule::quantifier => self.quantifier(operand)?,
            _ => self.comparison(operand)?,
        };
        for _ in 0..negations {
            expr = self.node(span, ExprKind::Not(Box::new(expr)))?;
        }
        Ok(expr)
    }

    fn quantifier(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let quantity = match p.next(Rule::quantity)?.as_str() {
            "any" => Quantity::Any,
            "all" => Quantity::All,
            _ => Quantity::None,
        };
        let (key, value) = self.bound_names(&mut p)?;
        let collection = Box::new(self.joined(p.next(Rule::joined)?)?);
        let mut conditions = p.rest().map(|e| self.expr(e)).collect::<Read<Vec<_>>>()?;
        let Some(body) = conditions.pop() else {
            return Err(Box::new(Diagnostic::error(Code::Syntax, span, "a condition is missing")));
        };
        let filter = conditions.pop().map(Box::new);
        self.node(span, ExprKind::Quantifier(quantity, Binder { key, value, collection, filter }, Box::new(body)))
    }

    fn bound_names(&self, p: &mut Parts<'_>) -> Read<(Option<Name>, Name)> {
        let first = self.name(p.next(Rule::name)?);
        Ok(match p.maybe(Rule::name) {
            Some(second) => (Some(first), self.name(second)),
            None => (None, first),
        })
    }

    fn comparison(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let left = self.defaulted(p.next(Rule::defaulted)?)?;
        let Some(comparator) = p.more() else { return Ok(left) };
        let rule = comparator.as_rule();
        let mut q = self.parts(comparator);
        let left = Box::new(left);
        let op = match rule {
            Rule::is_type | Rule::is_not_type => {
                let is = self.node(span, ExprKind::Is(left, type_named(&q.next(Rule::type_name)?)))?;
                return if rule == Rule::is_type { Ok(is) } else { self.node(span, ExprKind::Not(Box::new(is))) };
            }
            Rule::mention => return self.node(span, ExprKind::Mentions(left, self.name(q.next(Rule::name)?))),
            Rule::detecting => return self.node(span, ExprKind::Detects(left, self.name(q.next(Rule::word)?))),
            Rule::matching => return self.node(span, ExprKind::Matches(left, self.regex(&q.next(Rule::regex)?))),
            Rule::compared => match q.next(Rule::compare_op)?.as_str() {
                "==" => BinaryOp::Eq,
                "!=" => BinaryOp::Ne,
                "<=" => BinaryOp::Le,
                ">=" => BinaryOp::Ge,
                "<" => BinaryOp::Lt,
                _ => BinaryOp::Gt,
            },
            Rule::member => BinaryOp::In,
            Rule::not_member => BinaryOp::NotIn,
            Rule::containing => BinaryOp::Contains,
            Rule::starting => BinaryOp::StartsWith,
            _ => BinaryOp::EndsWith,
        };
        let right = Box::new(self.defaulted(q.next(Rule::defaulted)?)?);
        self.node(span, ExprKind::Binary(op, left, right))
    }

    fn defaulted(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let mut parts = self.parts(pair).rest().map(|j| self.joined(j)).collect::<Read<Vec<_>>>()?;
        // `a default b default c`: the first that is known, so it groups to the right.
        let Some(mut expr) = parts.pop() else {
            return Err(Box::new(Diagnostic::error(Code::Syntax, span, "a value is missing")));
        };
        while let Some(left) = parts.pop() {
            expr = self.node(span, ExprKind::Default(Box::new(left), Box::new(expr)))?;
        }
        Ok(expr)
    }

    fn joined(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        self.binary_chain(pair, &|p| self.sum_expr(p))
    }

    fn sum_expr(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        self.binary_chain(pair, &|p| self.binary_chain(p, &|u| self.unary(u)))
    }

    /// `a OP b OP c`, grouped to the left.
    fn binary_chain<'i>(&self, pair: Pair<'i, Rule>, operand: &dyn Fn(Pair<'i, Rule>) -> Read<Expr>) -> Read<Expr> {
        let start = self.span(&pair);
        let mut p = self.parts(pair);
        let mut left = operand(p.any()?)?;
        while let Some(op) = p.more() {
            let op = match op.as_str() {
                "union" => BinaryOp::Union,
                "concat" => BinaryOp::Concat,
                "+" => BinaryOp::Add,
                "-" => BinaryOp::Sub,
                "*" => BinaryOp::Mul,
                "/" => BinaryOp::Div,
                _ => BinaryOp::Mod,
            };
            let right = operand(p.any()?)?;
            let span = start.to(right.span);
            left = self.node(span, ExprKind::Binary(op, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn unary(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let minuses = p.all(Rule::minus).len();
        let mut expr = self.postfix(p.next(Rule::postfix)?)?;
        for _ in 0..minuses {
            expr = self.node(span, ExprKind::Neg(Box::new(expr)))?;
        }
        Ok(expr)
    }

    fn postfix(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let start = self.span(&pair);
        let mut p = self.parts(pair);
        let mut expr = self.primary(p.next(Rule::primary)?)?;
        for step in p.rest() {
            let span = start.to(self.span(&step));
            let inner = self.parts(step).any()?;
            let base = Box::new(expr);
            let rule = inner.as_rule();
            let mut q = self.parts(inner);
            let kind = match rule {
                Rule::field => ExprKind::Field(base, self.name(q.next(Rule::word)?)),
                Rule::each => ExprKind::Each(base),
                Rule::index => ExprKind::Index(base, q.rest().map(|e| self.expr(e)).collect::<Read<_>>()?),
                _ => ExprKind::Cast(base, type_named(&q.next(Rule::type_name)?)),
            };
            expr = self.node(span, kind)?;
        }
        Ok(expr)
    }

    fn primary(&self, pair: Pair<'_, Rule>) -> Read<Expr> {
        let span = self.span(&pair);
        let inner = self.parts(pair).any()?;
        let rule = inner.as_rule();
        let kind = match rule {
            Rule::expr => return self.expr(inner),
            Rule::name => ExprKind::Name(Arc::from(inner.as_str())),
            Rule::value => ExprKind::Literal(self.literal(inner)?),
            Rule::seek => self.seek(inner)?,
            Rule::derived => self.derived(inner)?,
            Rule::counting => {
                let mut p = self.parts(inner);
                match p.maybe(Rule::binder) {
                    Some(binder) => ExprKind::Fold(FoldOp::Count, None, self.binder(binder)?),
                    None => ExprKind::History(HistoryOp::Count, None, Box::new(self.events(&mut p)?)),
                }
            }
            Rule::folding => self.folding(inner)?,
            Rule::apply => {
                let mut p = self.parts(inner);
                let name = self.name(p.next(Rule::name)?);
                let arguments = p
                    .rest()
                    .map(|argument| {
                        let inner = self.parts(argument).any()?;
                        Ok(match inner.as_rule() {
                            Rule::regex => Argument::Regex(self.regex(&inner)),
                            _ => Argument::Expr(self.expr(inner)?),
                        })
                    })
                    .collect::<Read<_>>()?;
                ExprKind::Apply(name, arguments)
            }
            _ => {
                let is_list = rule == Rule::list;
                let mut items = Vec::new();
                let mut binder = None;
                for part in self.parts(inner).rest() {
                    match part.as_rule() {
                        Rule::comprehension => binder = Some(self.binder(self.parts(part).next(Rule::binder)?)?),
                        _ => items.push(self.expr(part)?),
                    }
                }
                match (binder, items.pop()) {
                    (Some(binder), Some(element)) => {
                        ExprKind::Comprehension { list: is_list, element: Box::new(element), binder }
                    }
                    (_, last) => {
                        items.extend(last);
                        if is_list { ExprKind::List(items) } else { ExprKind::Set(items) }
                    }
                }
            }
        };
        self.node(span, kind)
    }

    /// `sum(..)`, `min(..)` and their like: over events, over a collection, or a plain function.
    fn folding(&self, pair: Pair<'_, Rule>) -> Read<ExprKind> {
        let mut p = self.parts(pair);
        let word = p.next(Rule::fold_of)?;
        let (history, fold) = match word.as_str() {
            "sum" => (HistoryOp::Sum, FoldOp::Sum),
            "distinct" => (HistoryOp::Distinct, FoldOp::Distinct),
            "min" => (HistoryOp::Min, FoldOp::Min),
            _ => (HistoryOp::Max, FoldOp::Max),
        };
        let element = self.expr(p.next(Rule::expr)?)?;
        if let Some(over) = p.maybe(Rule::over) {
            let pattern = self.events(&mut self.parts(over))?;
            return Ok(ExprKind::History(history, Some(Box::new(element)), Box::new(pattern)));
        }
        if let Some(comprehension) = p.maybe(Rule::comprehension) {
            let binder = self.binder(self.parts(comprehension).next(Rule::binder)?)?;
            return Ok(ExprKind::Fold(fold, Some(Box::new(element)), binder));
        }
        let mut arguments = vec![Argument::Expr(element)];
        for more in p.rest() {
            arguments.push(Argument::Expr(self.expr(more)?));
        }
        Ok(ExprKind::Apply(self.name(word), arguments))
    }

    fn binder(&self, pair: Pair<'_, Rule>) -> Read<Binder> {
        let mut p = self.parts(pair);
        let (key, value) = self.bound_names(&mut p)?;
        let collection = Box::new(self.joined(p.next(Rule::joined)?)?);
        let filter = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?.map(Box::new);
        Ok(Binder { key, value, collection, filter })
    }

    /// Makes a node, refusing what nests deeper than a walk over the tree may recurse.
    fn node(&self, span: Span, kind: ExprKind) -> Read<Expr> {
        let expr = Expr::new(span, kind);
        if expr.depth > 4 * MAX_NESTING {
            return Err(Box::new(
                Diagnostic::error(Code::TooDeep, span, "this is nested too deep")
                    .label(format!("more than {} levels", 4 * MAX_NESTING))
                    .help("split it with `let` or `def`"),
            ));
        }
        Ok(expr)
    }

    // ---- words ----

    fn name(&self, pair: Pair<'_, Rule>) -> Name {
        Name { text: Arc::from(pair.as_str()), span: self.span(&pair) }
    }

    fn constant(&self, pair: Pair<'_, Rule>) -> Read<Constant> {
        let span = self.span(&pair);
        Ok(Constant { value: self.literal(pair)?, span })
    }

    fn literal(&self, pair: Pair<'_, Rule>) -> Read<Literal> {
        let inner = self.parts(pair).any()?;
        Ok(match inner.as_rule() {
            Rule::duration => Literal::Duration(self.seconds(&inner)?),
            Rule::number => Literal::Number(self.number(&inner)?),
            Rule::negative => Literal::Number(self.number(&self.parts(inner).next(Rule::number)?)?.neg()),
            Rule::string => Literal::String(self.text(&inner)?),
            Rule::boolean => Literal::Bool(inner.as_str() == "true"),
            Rule::null => Literal::Null,
            _ => Literal::String(Arc::from(inner.as_str())),
        })
    }

    fn number(&self, pair: &Pair<'_, Rule>) -> Read<Num> {
        let text = pair.as_str();
        text.parse::<Num>().or_else(|e| self.problem(Code::BadNumber, pair, format!("`{text}` is {e}")))
    }

    fn small(&self, pair: &Pair<'_, Rule>) -> Read<u32> {
        match pair.as_str().parse::<u32>() {
            Ok(n) => Ok(n),
            Err(_) => self.problem(Code::BadNumber, pair, "this number is too large for a window"),
        }
    }

    fn seconds(&self, pair: &Pair<'_, Rule>) -> Read<Num> {
        let text = pair.as_str();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let thousandths: i64 = match text.strip_prefix(digits) {
            Some("ms") => 1,
            Some("s") => 1_000,
            Some("m") => 60_000,
            Some("h") => 3_600_000,
            _ => 86_400_000,
        };
        let amount = digits.parse::<Num>().ok().and_then(|n| n.mul(Num::new(i128::from(thousandths), -3)));
        match amount {
            Some(seconds) => Ok(seconds),
            None => self.problem(Code::BadNumber, pair, format!("`{text}` is no usable duration")),
        }
    }

    /// The content of a quoted text.
    fn text(&self, pair: &Pair<'_, Rule>) -> Read<Arc<str>> {
        let quoted = pair.as_str();
        let start = self.base + pair.as_span().start() + 1;
        self.unescape(start, quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default())
    }

    /// A text with its escapes resolved; `start` is where it stands in the file.
    fn unescape(&self, start: usize, raw: &str) -> Read<Arc<str>> {
        let mut out = String::with_capacity(raw.len());
        let mut chars = raw.chars();
        loop {
            let at = raw.len() - chars.as_str().len();
            let c = match chars.next() {
                None => return Ok(Arc::from(out)),
                Some('\\') => chars.next(),
                Some(c) => {
                    out.push(c);
                    continue;
                }
            };
            match c {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(c @ ('"' | '\\' | '{' | '}' | '/')) => out.push(c),
                Some('u') => {
                    let code = chars.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
                    let letter = code.and_then(|(hex, _)| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
                    match (letter, code) {
                        (Some(letter), Some((_, after))) => {
                            out.push(letter);
                            chars = after.chars();
                        }
                        (_, code) => {
                            let width = code.map_or(2, |(hex, _)| "\\u{}".len() + hex.len());
                            return self.bad_escape(start + at, raw.get(at..at + width).unwrap_or_default());
                        }
                    }
                }
                other => {
                    let width = 1 + other.map_or(0, char::len_utf8);
                    return self.bad_escape(start + at, raw.get(at..at + width).unwrap_or_default());
                }
            }
        }
    }

    fn bad_escape<T>(&self, at: usize, escape: &str) -> Read<T> {
        let span = Span::new(self.file, at..at + escape.len());
        let help = if escape.starts_with("\\u") {
            "a character by its number is \\u{HEX}, such as \\u{2019}"
        } else {
            "escapes are \\n \\t \\\" \\\\ \\/ \\{ \\} and \\u{HEX}; a backslash itself is \\\\"
        };
        let message = format!("{} stands for no character", quote(escape));
        Err(Box::new(Diagnostic::error(Code::BadEscape, span, message).help(help)))
    }

    fn regex(&self, pair: &Pair<'_, Rule>) -> Regex {
        let written = pair.as_str();
        let ignore_case = written.ends_with('i');
        let body = written.trim_end_matches('i');
        let body = body.get(1..body.len().saturating_sub(1)).unwrap_or_default();
        Regex { pattern: Arc::from(body.replace("\\/", "/")), ignore_case, span: self.span(pair) }
    }

    fn parts<'i>(&self, pair: Pair<'i, Rule>) -> Parts<'i> {
        Parts { at: self.span(&pair), inner: pair.into_inner().peekable() }
    }
}

fn type_named(pair: &Pair<'_, Rule>) -> Type {
    match pair.as_str() {
        "string" => Type::String,
        "number" => Type::Number,
        "whole" => Type::Whole,
        "bool" => Type::Bool,
        "list" => Type::List,
        "object" => Type::Object,
        _ => Type::Null,
    }
}

/// The children of a pair without the keywords between them.
struct Parts<'i> {
    inner: std::iter::Peekable<Pairs<'i, Rule>>,
    /// Where the pair stands, for the error that says that grammar and reader disagree.
    at: Span,
}

impl<'i> Parts<'i> {
    /// The next child, if there is one.
    fn more(&mut self) -> Option<Pair<'i, Rule>> {
        self.skip_keywords();
        self.inner.next()
    }

    fn skip_keywords(&mut self) {
        while self.inner.next_if(|p| words::is_keyword(p.as_rule())).is_some() {}
    }

    fn any(&mut self) -> Read<Pair<'i, Rule>> {
        let at = self.at;
        self.more().ok_or_else(|| Box::new(Diagnostic::error(Code::Syntax, at, "this cannot be read")))
    }

    fn next(&mut self, rule: Rule) -> Read<Pair<'i, Rule>> {
        match self.maybe(rule) {
            Some(pair) => Ok(pair),
            None => self.any(),
        }
    }

    fn maybe(&mut self, rule: Rule) -> Option<Pair<'i, Rule>> {
        self.skip_keywords();
        self.inner.next_if(|p| p.as_rule() == rule)
    }

    /// The next children, as long as they are of this rule.
    fn all(&mut self, rule: Rule) -> Vec<Pair<'i, Rule>> {
        std::iter::from_fn(|| self.maybe(rule)).collect()
    }

    /// All further children.
    fn rest(self) -> impl Iterator<Item = Pair<'i, Rule>> {
        self.inner.filter(|p| !words::is_keyword(p.as_rule()))
    }
}
