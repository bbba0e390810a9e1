//! Expressions: names become slots, fields and stores; operators are checked against types.

use std::sync::Arc;

use super::{
    Binding, Compiler, Decl, Env, MAX_DEPTH, Reads, Typed,
    items::{counted, wrong_keys},
    literal,
};
use crate::{
    diag::{Code, Diagnostic, Span, quote, suggest},
    lang::{
        ast::{Argument, BinaryOp, Binder, Expr, ExprKind, Name, Regex, Type},
        builtin::{self, Builtin, Takes},
        program::{BuiltinRef, EventField, FactIndex, Node, NodeArg, NodeKind, Over, Pattern, Scope, Walk},
        types::Ty,
    },
    model::EventKind,
};

impl<'a> Compiler<'a> {
    /// Compiles an expression.
    pub(super) fn expr(&mut self, expr: &Expr, env: &Env) -> Typed {
        if !self.afford(1, expr.span) {
            return Typed::broken(expr.span);
        }
        if self.level >= MAX_DEPTH {
            self.too_deep(expr.span);
            return Typed::broken(expr.span);
        }
        self.level += 1;
        let typed = self.kind(expr, env);
        self.level -= 1;
        if typed.node.depth > MAX_DEPTH {
            self.too_deep(expr.span);
            return Typed::broken(expr.span);
        }
        typed
    }

    // It calls itself through each of its arms, and its frame is paid at each level: so the arms that need room
    // are functions that are not inlined.
    fn kind(&mut self, expr: &Expr, env: &Env) -> Typed {
        let at = expr.span;
        match &expr.kind {
            ExprKind::Literal(value) => {
                let (val, ty) = literal(value);
                Typed::new(at, NodeKind::Const(val), ty)
            }
            ExprKind::Name(name) => self.named(name, at, env),
            ExprKind::List(items) => {
                let items = items.iter().map(|item| self.expr(item, env).node).collect();
                Typed::new(at, NodeKind::List(items), Ty::List)
            }
            ExprKind::Set(items) => {
                let items = items.iter().map(|item| self.expr(item, env).node).collect();
                Typed::new(at, NodeKind::Set(items), Ty::Set)
            }
            ExprKind::Field(base, name) => self.field(base, name, at, env),
            ExprKind::Index(base, keys) => self.index(base, keys, at, env),
            ExprKind::Each(base) => self.projection(base, at, env),
            ExprKind::Cast(base, to) => self.cast(base, *to, at, env),
            ExprKind::Is(base, to) => {
                let base = self.expr(base, env);
                Typed::new(at, NodeKind::Is(Box::new(base.node), *to), Ty::Bool)
            }
            ExprKind::Default(first, otherwise) => {
                let first = self.expr(first, env);
                let otherwise = self.expr(otherwise, env);
                let ty = if first.ty == otherwise.ty { first.ty } else { Ty::Any };
                Typed::new(at, NodeKind::Default(Box::new(first.node), Box::new(otherwise.node)), ty)
            }
            ExprKind::Neg(inner) => {
                let inner = self.expr(inner, env);
                if inner.ty != Ty::Duration {
                    self.need(&inner, Ty::Number, "only numbers and durations have a negative");
                }
                let ty = inner.ty;
                Typed::new(at, NodeKind::Neg(Box::new(inner.node)), ty)
            }
            ExprKind::Not(inner) => {
                let inner = self.condition(inner, env);
                Typed::new(at, NodeKind::Not(Box::new(inner)), Ty::Bool)
            }
            ExprKind::And(parts) => {
                let parts = parts.iter().map(|p| self.condition(p, env)).collect();
                Typed::new(at, NodeKind::And(parts), Ty::Bool)
            }
            ExprKind::Or(parts) => {
                let parts = parts.iter().map(|p| self.condition(p, env)).collect();
                Typed::new(at, NodeKind::Or(parts), Ty::Bool)
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, at, env),
            ExprKind::Mentions(text, category) => self.mentions(text, category, at, env),
            ExprKind::Detects(text, detector) => self.detects(text, detector, at, env),
            ExprKind::Matches(text, regex) => self.matches(text, regex, at, env),
            ExprKind::Apply(name, arguments) => self.apply(name, arguments, at, env),
            ExprKind::Quantifier(quantity, binder, body) => self.quantifier(*quantity, binder, body, at, env),
            ExprKind::Comprehension { list, element, binder } => self.comprehension(*list, element, binder, at, env),
            ExprKind::Fold(op, element, binder) => self.fold(*op, element.as_deref(), binder, at, env),
            ExprKind::History(op, element, pattern) => self.history(*op, element.as_deref(), pattern, at, env),
            ExprKind::Sequence(sequence) => self.sequence(sequence, at, env),
            ExprKind::Derived(derived) => self.derived(derived, at, env),
        }
    }

    /// Says so if an operand can never be of the type that is needed.
    #[inline(never)]
    pub(super) fn need(&mut self, operand: &Typed, ty: Ty, why: &str) {
        if !operand.ty.fits(ty) {
            let message = format!("this is {}: {why}", operand.ty.a());
            self.error(Code::TypeMismatch, operand.node.at, message);
        }
    }

    #[inline(never)]
    pub(super) fn text(&mut self, expr: &Expr, env: &Env) -> Node {
        let text = self.expr(expr, env);
        self.need(&text, Ty::String, "only text can be searched");
        text.node
    }

    #[inline(never)]
    pub(super) fn regex(&mut self, regex: &Regex) -> Option<Pattern> {
        let built = regex::RegexBuilder::new(&regex.pattern).case_insensitive(regex.ignore_case).build();
        match built {
            Ok(compiled) => Some(Pattern(Arc::new(compiled))),
            Err(e) => {
                let reason = match e {
                    regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                    // The last line of the parser's message says what is wrong; the others draw a caret.
                    other => {
                        other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
                    }
                };
                let problem =
                    Diagnostic::error(Code::BadPattern, regex.span, "this pattern cannot be used").label(reason);
                self.problems.push(problem);
                None
            }
        }
    }

    // ---- names ----

    #[inline(never)]
    fn named(&mut self, name: &Arc<str>, at: Span, env: &Env) -> Typed {
        if let Some((_, binding, ty)) = env.names.iter().rev().find(|(n, ..)| n == name) {
            return match binding {
                Binding::Slot(slot) => {
                    let shape = self.slot_shapes.get(slot).cloned();
                    Typed { shape, ..Typed::new(at, NodeKind::Slot(*slot), *ty) }
                }
                Binding::Let(i) => {
                    let shape = self.let_shapes.get(*i).cloned().flatten();
                    let mut typed = Typed { shape, ..Typed::new(at, NodeKind::Let(*i), *ty) };
                    typed.node.depth += self.lets.get(*i).map_or(0, |node| node.depth);
                    typed
                }
                // An argument is put in wherever its parameter stands.
                Binding::Argument(node, shape) if self.afford(count(node), at) => {
                    Typed { node: node.clone(), ty: *ty, each: false, shape: shape.clone(), by_schema: false }
                }
                Binding::Argument(..) => Typed::broken(at),
            };
        }
        if self.unusable.contains(name) {
            return Typed::broken(at);
        }
        match name.as_ref() {
            "it" if env.it.is_some() => return Typed::new(at, NodeKind::Event(Scope::It), Ty::Event),
            "it" => {
                let problem = Diagnostic::error(Code::NotHere, at, "`it` is the earlier event of a pattern")
                    .help("outside of a pattern, fields of the judged event are written without it: `args.id`");
                self.problems.push(problem);
                return Typed::broken(at);
            }
            "now" => return Typed::new(at, NodeKind::Now, Ty::Time),
            _ => {}
        }
        if let Some(field) = EventField::named(name) {
            self.check_field(field, name, &env.this, at);
            let base = Box::new(Node::new(at, NodeKind::Event(Scope::This)));
            let kind = NodeKind::Field { base, name: name.clone(), event: Some(field), each: false };
            let typed = Typed::new(at, kind, field_type(field));
            let shape = self.event_shape(field, &env.this_sources);
            return typed.of_shape(shape);
        }
        self.used.insert(name.clone());
        match self.decls.get(name).map(|(decl, _)| decl.clone()) {
            Some(Decl::Set(val, _)) => Typed::new(at, NodeKind::Const(val), Ty::Set),
            Some(Decl::Const(val, ty)) => Typed::new(at, NodeKind::Const(val), ty),
            Some(Decl::Fact(id)) => {
                if !self.may_read_facts(at, env) {
                    return Typed::broken(at);
                }
                let columns = self.columns(id);
                if columns > 0 {
                    let problem =
                        Diagnostic::error(Code::ArgumentCount, at, format!("the fact `{name}` is read with a key"))
                            .help(format!(
                                "write `{name}[..]`; a quantifier walks over all of it: `any x in {name}: ..`"
                            ));
                    self.problems.push(problem);
                    return Typed::broken(at);
                }
                let ty = self.fact_type(id);
                let shape = self.fact_shapes.get(id).cloned().flatten();
                Typed { shape, ..Typed::new(at, NodeKind::Fact(id, Vec::new()), ty) }
            }
            Some(decl @ (Decl::Table(..) | Decl::Def(_))) => {
                let problem =
                    Diagnostic::error(Code::NotHere, at, format!("the {} `{name}` needs its arguments", decl.word()))
                        .help(format!("write `{name}(..)`"));
                self.problems.push(problem);
                Typed::broken(at)
            }
            None => {
                let mut names: Vec<&str> = env.names.iter().map(|(n, ..)| n.as_ref()).collect();
                names.extend(EventField::ALL.iter().map(|(word, _)| *word));
                names.extend(self.decls.keys().map(AsRef::as_ref));
                names.extend(["now", "it"]);
                let near = self.near(name, names);
                let problem = Diagnostic::error(Code::UnknownName, at, format!("nothing is called {}", quote(name)));
                let problem = match near {
                    _ if self.later.iter().any(|later| later.text == *name) => {
                        problem.help("its `let` stands further down: a name is known below its `let`")
                    }
                    Some(near) => problem.did_you_mean(Some(&near)),
                    None => problem
                        .help("a text stands in double quotes; a field of the judged event is text, args, tool, .."),
                };
                self.problems.push(problem);
                Typed::broken(at)
            }
        }
    }

    #[inline(never)]
    fn check_field(&mut self, field: EventField, name: &str, kinds: &[EventKind], at: Span) {
        if kinds.iter().any(|kind| has_field(*kind, field)) || kinds.is_empty() {
            return;
        }
        let mut words: Vec<&str> = kinds.iter().map(|k| k.word()).collect();
        words.dedup();
        let holders: Vec<&str> = EventKind::ALL.iter().filter(|k| has_field(**k, field)).map(|k| k.word()).collect();
        let problem =
            Diagnostic::error(Code::FieldUnknown, at, format!("{} events have no `{name}`", words.join(" and ")));
        self.problems.push(match field {
            EventField::Call if kinds.contains(&EventKind::Call) => {
                problem.help("the event is the call itself: its fields are args, tool, id, ..")
            }
            EventField::Args if kinds.contains(&EventKind::Result) => {
                problem.help("the arguments of the call that a result answers are `call.args`")
            }
            _ => problem.help(format!("`{name}` is a field of {} events", holders.join(" and "))),
        });
    }

    fn may_read_facts(&mut self, at: Span, env: &Env) -> bool {
        if env.reads == Reads::Nothing {
            let problem = Diagnostic::error(Code::NotHere, at, "a fact is filled from its own event alone")
                .help("read other facts in the policies that use this one");
            self.problems.push(problem);
            return false;
        }
        true
    }

    fn columns(&self, fact: usize) -> usize {
        // Facts are compiled before policies; a definition may be looked at before either.
        self.facts.get(fact).map_or(0, |f| f.key.len())
    }

    fn fact_type(&self, fact: usize) -> Ty {
        match self.facts.get(fact) {
            Some(f) if f.collects => Ty::Set,
            Some(f) => match &f.value.kind {
                NodeKind::Cast { to, each: false, .. } => type_of(*to),
                _ => Ty::Any,
            },
            None => Ty::Any,
        }
    }

    // ---- access ----

    #[inline(never)]
    fn field(&mut self, base: &Expr, name: &Name, at: Span, env: &Env) -> Typed {
        let base = self.expr(base, env);
        let event = EventField::named(&name.text);
        let kind = |base: Typed| NodeKind::Field {
            base: Box::new(base.node),
            name: name.text.clone(),
            event,
            each: base.each,
        };
        if base.each {
            let Ok(shape) = self.shape_field(&base, name) else { return Typed::broken(at) };
            return Typed { each: true, shape, ..Typed::new(at, kind(base), Ty::List) };
        }
        match base.ty {
            Ty::Event => {
                let kinds = match base.node.kind {
                    NodeKind::Event(Scope::It) => env.it.clone().unwrap_or_default(),
                    _ => Vec::new(),
                };
                match event {
                    Some(field) => {
                        self.check_field(field, &name.text, &kinds, name.span);
                        let shape = self.sources_of(&base.node, env).and_then(|s| self.event_shape(field, &s));
                        Typed::new(at, kind(base), field_type(field)).of_shape(shape)
                    }
                    None => {
                        let near = suggest(&name.text, EventField::ALL.iter().map(|(word, _)| *word));
                        let message = format!("events have no field `{}`", name.text);
                        let problem = Diagnostic::error(Code::FieldUnknown, name.span, message);
                        self.problems.push(match near {
                            Some(near) => problem.did_you_mean(Some(near)),
                            None => problem.help(format!(
                                "an argument of a call is `args.{0}`, a field of a result's data `json.{0}`",
                                name.text
                            )),
                        });
                        Typed::broken(at)
                    }
                }
            }
            ty if ty.fits(Ty::Object) => {
                let Ok(shape) = self.shape_field(&base, name) else { return Typed::broken(at) };
                Typed::new(at, kind(base), Ty::Any).of_shape(shape)
            }
            _ => {
                self.need(&base, Ty::Object, "only objects and events have fields");
                Typed::broken(at)
            }
        }
    }

    #[inline(never)]
    fn index(&mut self, base: &Expr, keys: &[Expr], at: Span, env: &Env) -> Typed {
        if let ExprKind::Name(name) = &base.kind
            && !env.names.iter().any(|(n, ..)| n == name)
            && EventField::named(name).is_none()
        {
            match self.decls.get(name).map(|(decl, _)| decl.clone()) {
                Some(Decl::Fact(id)) => {
                    self.used.insert(name.clone());
                    if !self.may_read_facts(at, env) {
                        return Typed::broken(at);
                    }
                    let columns = self.columns(id);
                    if columns != keys.len() {
                        self.error(Code::ArgumentCount, at, wrong_keys(name, columns, keys.len()));
                        return Typed::broken(at);
                    }
                    let keys = keys.iter().map(|k| self.expr(k, env).node).collect();
                    let ty = self.fact_type(id);
                    let shape = self.fact_shapes.get(id).cloned().flatten();
                    return Typed { shape, ..Typed::new(at, NodeKind::Fact(id, keys), ty) };
                }
                None => {
                    let names: Vec<&str> = env.names.iter().map(|(n, ..)| n.as_ref()).collect();
                    self.unknown_fact(name, base.span, &names);
                    return Typed::broken(at);
                }
                Some(_) => {}
            }
        }
        let base = self.expr(base, env);
        let [key] = keys else {
            self.error(Code::ArgumentCount, at, "a list or an object is indexed by one value");
            return Typed::broken(at);
        };
        let key = self.expr(key, env);
        if !base.each && !base.ty.fits(Ty::List) && !base.ty.fits(Ty::Object) {
            self.need(&base, Ty::List, "only lists, objects and facts are indexed");
        }
        let each = base.each;
        let shape = match &key.node.kind {
            NodeKind::Const(val) if val.as_str().is_some() => {
                let name = Name { text: Arc::from(val.as_str().unwrap_or_default()), span: key.node.at };
                let Ok(shape) = self.shape_field(&base, &name) else { return Typed::broken(at) };
                shape
            }
            _ if base.ty == Ty::List => base.shape.as_ref().and_then(|shape| shape.items.clone()),
            _ => None,
        };
        let kind = NodeKind::Index { base: Box::new(base.node), key: Box::new(key.node), each };
        match each {
            true => Typed { each, shape, ..Typed::new(at, kind, Ty::List) },
            false => Typed::new(at, kind, Ty::Any).of_shape(shape),
        }
    }

    // ---- operators ----

    #[inline(never)]
    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, at: Span, env: &Env) -> Typed {
        let left = self.expr(left, env);
        let right = self.expr(right, env);
        let (a, b) = (left.ty, right.ty);
        let ty = match op {
            BinaryOp::Eq | BinaryOp::Ne => {
                if !a.fits(b) && a != Ty::Null && b != Ty::Null {
                    let (always, other) = if op == BinaryOp::Eq { ("never", "equal") } else { ("always", "different") };
                    let message = format!("{} and {} are {always} {other}", a.a(), b.a());
                    self.error(Code::TypeMismatch, at, message);
                }
                Ty::Bool
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                let ordered = |ty: Ty| matches!(ty, Ty::Any | Ty::Number | Ty::Time | Ty::Duration);
                if let Some(side) = [&left, &right].into_iter().find(|side| !ordered(side.ty)) {
                    let message = format!("{} has no order", side.ty.a());
                    let problem = Diagnostic::error(Code::TypeMismatch, side.node.at, message)
                        .help("numbers, times and durations have one; `time(text)` reads a date");
                    self.problems.push(problem);
                } else if !a.fits(b) {
                    self.error(Code::TypeMismatch, at, format!("{} cannot be compared with {}", a.a(), b.a()));
                }
                Ty::Bool
            }
            BinaryOp::In | BinaryOp::NotIn => {
                if !b.fits(Ty::List) && !b.fits(Ty::Set) {
                    let message = format!("`in` looks into a list or a set, and this is {}", b.a());
                    let problem = Diagnostic::error(Code::TypeMismatch, right.node.at, message);
                    self.problems.push(match b {
                        Ty::Object => problem.help("the keys of an object are `keys(x)`"),
                        Ty::String => problem.help("a text within a text is `contains`"),
                        _ => problem,
                    });
                }
                Ty::Bool
            }
            BinaryOp::Contains | BinaryOp::StartsWith | BinaryOp::EndsWith => {
                self.need(&left, Ty::String, "texts are compared here; an element of a list is found by `in`");
                self.need(&right, Ty::String, "texts are compared here");
                Ty::Bool
            }
            BinaryOp::Union => {
                for side in [&left, &right] {
                    if side.ty != Ty::List {
                        self.need(side, Ty::Set, "`union` joins sets and lists");
                    }
                }
                Ty::Set
            }
            BinaryOp::Concat => {
                self.need(&left, Ty::List, "`concat` joins lists");
                self.need(&right, Ty::List, "`concat` joins lists");
                Ty::List
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
                self.arithmetic(op, &left, &right, at)
            }
        };
        Typed::new(at, NodeKind::Binary(op, Box::new(left.node), Box::new(right.node)), ty)
    }

    #[inline(never)]
    fn arithmetic(&mut self, op: BinaryOp, left: &Typed, right: &Typed, at: Span) -> Ty {
        use Ty::{Any, Duration, Number, String, Time};
        match (left.ty, op, right.ty) {
            (Any, _, Any) => Any,
            (Number, _, Number) => Number,
            (Any | Number, BinaryOp::Mul, Duration) | (Duration, BinaryOp::Mul | BinaryOp::Div, Number) => Duration,
            (Number, _, Any) | (Any, _, Number) => {
                if op == BinaryOp::Mul {
                    Any
                } else {
                    Number
                }
            }
            (Time, BinaryOp::Sub, Time) => Duration,
            (Time, BinaryOp::Sub, Any) => Any,
            (Time, BinaryOp::Add | BinaryOp::Sub, Duration)
            | (Duration, BinaryOp::Add, Time)
            | (Any, BinaryOp::Sub, Duration) => {
                if left.ty == Any {
                    Any
                } else {
                    Time
                }
            }
            (Duration, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mod, Duration) => Duration,
            (Duration, BinaryOp::Div, Duration) => Number,
            (Any, _, Time | Duration) | (Time | Duration, _, Any) => Any,
            (a, _, b) => {
                let word = match op {
                    BinaryOp::Add => "+",
                    BinaryOp::Sub => "-",
                    BinaryOp::Mul => "*",
                    BinaryOp::Div => "/",
                    _ => "mod",
                };
                let message = format!("`{word}` does not go between {} and {}", a.a(), b.a());
                let problem = Diagnostic::error(Code::TypeMismatch, at, message);
                self.problems.push(match (a, b) {
                    (Duration, Number) | (Number, Duration) => problem.help("a duration has a unit: 5s, 30m, 24h, 2d"),
                    (String, _) | (_, String) => {
                        problem.help("texts are not joined; a message fills values in: \"{a}: {b}\"")
                    }
                    _ => problem,
                });
                Any
            }
        }
    }

    // ---- functions ----

    #[inline(never)]
    fn apply(&mut self, name: &Name, arguments: &[Argument], at: Span, env: &Env) -> Typed {
        if let Some(function) = builtin::find(&name.text) {
            return self.builtin(function, arguments, at, env);
        }
        self.used.insert(name.text.clone());
        let values = arguments.iter().filter_map(|a| match a {
            Argument::Expr(e) => Some(e),
            Argument::Regex(_) => None,
        });
        match self.decls.get(&name.text).map(|(decl, _)| decl.clone()) {
            Some(Decl::Table(table, columns, ty)) => {
                if arguments.len() != columns || values.clone().count() != columns {
                    let message = format!(
                        "the table `{}` has {}, not {}",
                        name.text,
                        counted(columns, "column"),
                        arguments.len()
                    );
                    self.error(Code::ArgumentCount, at, message);
                    return Typed::broken(at);
                }
                let keys = values.map(|e| self.expr(e, env).node).collect();
                Typed::new(at, NodeKind::Table(table, keys), ty)
            }
            Some(Decl::Def(def)) => {
                if arguments.len() != def.params.len() || values.clone().count() != arguments.len() {
                    let params: Vec<&str> = def.params.iter().map(|p| p.text.as_ref()).collect();
                    let takes = counted(params.len(), "argument");
                    let message = format!("`{}` takes {takes}, not {}", name.text, arguments.len());
                    let problem = Diagnostic::error(Code::ArgumentCount, at, message);
                    self.problems.push(problem.help(format!("it is `{}({})`", name.text, params.join(", "))));
                    return Typed::broken(at);
                }
                if self.expanding.contains(&name.text) {
                    let problem = Diagnostic::error(Code::Recursive, at, format!("`{}` uses itself", name.text))
                        .help("definitions are expanded in place and cannot be recursive");
                    self.problems.push(problem);
                    return Typed::broken(at);
                }
                // The body sees its parameters and the judged event, not the variables around the call.
                let mut inner = Env {
                    names: Vec::new(),
                    it: None,
                    this: env.this.clone(),
                    this_sources: env.this_sources.clone(),
                    it_sources: Arc::from([]),
                    reads: env.reads,
                };
                for (param, argument) in def.params.iter().zip(values) {
                    let typed = self.expr(argument, env);
                    inner.names.push((param.text.clone(), Binding::Argument(typed.node, typed.shape), typed.ty));
                }
                let outer = self.expanded_at;
                self.expanded_at = outer.or(Some(at));
                self.expanding.push(name.text.clone());
                let body = self.expr(&def.body, &inner);
                self.expanding.pop();
                self.expanded_at = outer;
                // Reasons point at the use of the definition as well as into it; types follow the body.
                Typed { each: false, ..body }
            }
            Some(other) => {
                let problem = Diagnostic::error(
                    Code::NotHere,
                    name.span,
                    format!("`{}` is a {}, not a function", name.text, other.word()),
                );
                self.problems.push(match other {
                    Decl::Fact(_) => problem.help(format!("a fact is read as `{}[key]`", name.text)),
                    _ => problem,
                });
                Typed::broken(at)
            }
            None if self.unusable.contains(&name.text) => Typed::broken(at),
            None => {
                let mut names: Vec<&str> = builtin::all().map(|b| b.name).collect();
                names.extend(["once", "first", "last", "previous", "count", "sum", "distinct"]);
                names.extend(
                    self.decls
                        .iter()
                        .filter(|(_, (d, _))| matches!(d, Decl::Def(_) | Decl::Table(..)))
                        .map(|(n, _)| n.as_ref()),
                );
                let near = self.near(&name.text, names);
                let message = format!("there is no function, definition or table `{}`", name.text);
                let problem = Diagnostic::error(Code::UnknownFunction, name.span, message);
                self.problems.push(match (elsewhere(&name.text), near) {
                    (Some(here), _) => problem.help(format!("here it is {here}")),
                    (None, near) => problem.did_you_mean(near.as_deref()),
                });
                Typed::broken(at)
            }
        }
    }

    #[inline(never)]
    fn builtin(&mut self, function: &'static Builtin, arguments: &[Argument], at: Span, env: &Env) -> Typed {
        let most = if function.repeats { usize::MAX } else { function.params.len() };
        let least = function.params.len() - function.optional;
        if arguments.len() < least || arguments.len() > most {
            let params: Vec<&str> = function.params.iter().map(|p| p.name).collect();
            let more = if function.repeats { ", .." } else { "" };
            let problem = Diagnostic::error(
                Code::ArgumentCount,
                at,
                format!("`{}` does not take {}", function.name, counted(arguments.len(), "argument")),
            )
            .help(format!("it is `{}({}{more})`", function.name, params.join(", ")));
            self.problems.push(problem);
            return Typed::broken(at);
        }
        let mut nodes = Vec::new();
        for (i, argument) in arguments.iter().enumerate() {
            let takes = function.params.get(i).or(function.params.last()).map(|p| p.takes);
            match (takes, argument) {
                (Some(Takes::FactRead), Argument::Expr(e)) => return self.seen(e, at, env),
                (Some(takes @ (Takes::Value(_) | Takes::Offset | Takes::Domain | Takes::Root)), Argument::Expr(e)) => {
                    let typed = self.expr(e, env);
                    if !takes.admits(typed.ty) {
                        let (wanted, found) = (takes.a(), typed.ty.a());
                        let message = format!("`{}` takes {wanted} here, and this is {found}", function.name);
                        self.error(Code::ArgumentKind, e.span, message);
                    } else if let NodeKind::Const(val) = &typed.node.kind
                        && let Some(help) = val.as_str().and_then(|text| takes.refuses(text))
                    {
                        let message = format!("`{}` cannot use this", function.name);
                        self.problems.push(Diagnostic::error(Code::ArgumentKind, e.span, message).help(help));
                    }
                    nodes.push(NodeArg::Val(typed.node));
                }
                (Some(Takes::Regex), Argument::Regex(regex)) => match self.regex(regex) {
                    Some(pattern) => nodes.push(NodeArg::Pattern(pattern)),
                    None => return Typed::broken(at),
                },
                (Some(Takes::Regex), Argument::Expr(e)) => {
                    let problem = Diagnostic::error(Code::ArgumentKind, e.span, "a pattern is needed here")
                        .help("a pattern stands between slashes: /[0-9]+/");
                    self.problems.push(problem);
                    return Typed::broken(at);
                }
                (_, Argument::Regex(regex)) => {
                    self.error(Code::ArgumentKind, regex.span, "a value is needed here, not a pattern");
                    return Typed::broken(at);
                }
                (None, _) => {}
            }
        }
        Typed::new(at, NodeKind::Builtin(BuiltinRef(function), nodes), function.gives)
    }

    /// `seen(fact[key])`, or of a `let` that is a fact read.
    #[inline(never)]
    fn seen(&mut self, argument: &Expr, at: Span, env: &Env) -> Typed {
        let typed = self.expr(argument, env);
        let node = match &typed.node.kind {
            NodeKind::Let(i) => self.lets.get(*i).cloned(),
            _ => Some(typed.node.clone()),
        };
        if let Some(node) = &node
            && !self.afford(count(node), at)
        {
            return Typed::broken(at);
        }
        let node = node.map(|node| node.kind);
        match node {
            Some(NodeKind::Fact(fact, key)) => Typed::new(at, NodeKind::Seen(fact, key), Ty::Bool),
            // Something else was wrong with it, and that was said.
            Some(NodeKind::Const(crate::lang::val::Val::Unknown(_))) => Typed::broken(at),
            _ => {
                let problem = Diagnostic::error(Code::ArgumentKind, argument.span, "`seen` asks a fact")
                    .help("write `seen(fact[key])`; whether anything else has a value says `known(..)`");
                self.problems.push(problem);
                Typed::broken(at)
            }
        }
    }

    // ---- walking ----

    /// What a binder walks over, and the surroundings of its body.
    #[inline(never)]
    pub(super) fn walk(&mut self, binder: &Binder, env: &Env) -> (Walk, Env) {
        let mut inner = env.clone();
        let mut value_ty = Ty::Any;
        let value_shape;
        let over = match self.walked_fact(&binder.collection, env) {
            Some(fact) => {
                value_ty = self.fact_type(fact);
                value_shape = self.fact_shapes.get(fact).cloned().flatten();
                Over::Fact { fact, index: None }
            }
            None => {
                let collection = self.expr(&binder.collection, env);
                let pairs = binder.key.is_some();
                if pairs {
                    self.need(&collection, Ty::Object, "two names walk over an object or a fact");
                } else if collection.ty == Ty::Object {
                    let problem = Diagnostic::error(
                        Code::TypeMismatch,
                        collection.node.at,
                        "an object is walked over with two names",
                    )
                    .help("write `k, v in ..`, or walk over `keys(..)` or `values(..)`");
                    self.problems.push(problem);
                } else if !collection.ty.fits(Ty::List) && !collection.ty.fits(Ty::Set) {
                    self.need(&collection, Ty::List, "only lists, sets, objects and facts can be walked over");
                }
                value_shape =
                    collection.shape.as_ref().filter(|_| !collection.each).and_then(|shape| shape.items.clone());
                if let Some(shape) = &value_shape {
                    value_ty = shape.ty;
                }
                Over::Value(Box::new(collection.node))
            }
        };
        let mut slots = Vec::new();
        for name in binder.names() {
            if matches!(name.text.as_ref(), "it" | "now") {
                let message = format!("`{}` already means something here", name.text);
                let problem = Diagnostic::error(Code::ReservedMeaning, name.span, message).help("choose another name");
                self.problems.push(problem);
            }
            slots.push(self.slots);
            inner.names.push((name.text.clone(), Binding::Slot(self.slots), Ty::Any));
            self.slots += 1;
        }
        if let Some(last) = inner.names.last_mut() {
            last.2 = value_ty;
        }
        let value = slots.pop().unwrap_or_default();
        if let Some(shape) = value_shape {
            self.slot_shapes.insert(value, shape);
        }
        let mut walk = Walk { over, key: slots.pop(), value, filter: None };
        if let Some(filter) = &binder.filter {
            let node = self.condition(filter, &inner);
            self.index_walk(&mut walk, &node);
            walk.filter = Some(Box::new(node));
        }
        (walk, inner)
    }

    /// The fact that a collection names, if it is one that is read with a key.
    fn walked_fact(&mut self, collection: &Expr, env: &Env) -> Option<usize> {
        let ExprKind::Name(name) = &collection.kind else { return None };
        if env.names.iter().any(|(n, ..)| n == name) {
            return None;
        }
        let Some((Decl::Fact(id), _)) = self.decls.get(name) else { return None };
        let id = *id;
        if self.columns(id) == 0 || !self.may_read_facts(collection.span, env) {
            return None;
        }
        self.used.insert(name.clone());
        Some(id)
    }

    /// Finds an equality between something of the entry alone and something of the present alone, and
    /// lets the fact keep an index for it.
    #[inline(never)]
    fn index_walk(&mut self, walk: &mut Walk, filter: &Node) {
        let Over::Fact { fact, index } = &mut walk.over else { return };
        let own = |slot: usize| slot == walk.value || Some(slot) == walk.key;
        let conjuncts: Vec<&Node> = match &filter.kind {
            NodeKind::And(parts) => parts.iter().collect(),
            _ => vec![filter],
        };
        for conjunct in conjuncts {
            let NodeKind::Binary(BinaryOp::Eq, a, b) = &conjunct.kind else { continue };
            for (entry, present) in [(a, b), (b, a)] {
                let (of_entry, of_present) = (super::pattern::Deps::of(entry), super::pattern::Deps::of(present));
                let entry_only = !of_entry.slots.is_empty()
                    && of_entry.slots.iter().all(|s| own(*s))
                    && !of_entry.present
                    && !of_entry.it;
                let present_only = !of_present.slots.iter().any(|s| own(*s)) && !of_present.it;
                if !(entry_only && present_only) {
                    continue;
                }
                let Some(held) = self.facts.get_mut(*fact) else { return };
                let shape = |node: &Node, value: usize, key: Option<usize>| {
                    let mut text = format!("{node:?}").replace(&format!("Slot({value})"), "Value");
                    if let Some(key) = key {
                        text = text.replace(&format!("Slot({key})"), "Key");
                    }
                    text
                };
                let wanted = shape(entry, walk.value, walk.key);
                let at = held.indexes.iter().position(|i| shape(&i.node, i.value, i.key) == wanted);
                let at = at.unwrap_or_else(|| {
                    held.indexes.push(FactIndex { node: (**entry).clone(), value: walk.value, key: walk.key });
                    held.indexes.len() - 1
                });
                *index = Some((at, present.clone()));
                return;
            }
        }
    }
}

/// What people who know other languages call a function or operator of this one.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "length" | "size" | "lenght" => "`len(x)`",
        "contains" | "includes" => "`a contains b` for texts, `x in LIST` for lists",
        "startswith" | "starts_with" => "`a starts with b`",
        "endswith" | "ends_with" => "`a ends with b`",
        "match" | "matches" | "regex" => "`text matches /pattern/`",
        "lowercase" | "tolower" | "to_lower" => "`lower(text)`",
        "mentions" => "`text mentions CATEGORY`",
        "default" | "coalesce" => "`a default b`",
        "exists" => "`once(PATTERN)` for events, `any x in LIST: ..` for lists",
        _ => return None,
    })
}

/// How many nodes a node has.
fn count(node: &Node) -> usize {
    usize::try_from(node.size).unwrap_or(usize::MAX)
}

pub(super) fn type_of(ty: Type) -> Ty {
    match ty {
        Type::String => Ty::String,
        Type::Number | Type::Whole => Ty::Number,
        Type::Bool => Ty::Bool,
        Type::List => Ty::List,
        Type::Object => Ty::Object,
        Type::Null => Ty::Null,
    }
}

fn field_type(field: EventField) -> Ty {
    match field {
        EventField::Text | EventField::Tool | EventField::Id => Ty::String,
        EventField::Calls | EventField::Turn | EventField::Seq => Ty::Number,
        EventField::Args => Ty::Object,
        EventField::Json => Ty::Any,
        EventField::IsError => Ty::Bool,
        EventField::Call => Ty::Event,
        EventField::Time => Ty::Time,
        EventField::Policy => Ty::String,
        EventField::Severity => Ty::Number,
        EventField::Tags => Ty::List,
    }
}

/// Which kinds of event have a field.
fn has_field(kind: EventKind, field: EventField) -> bool {
    match field {
        EventField::Turn | EventField::Seq | EventField::Time => true,
        EventField::Text => EventKind::OF_THE_TRACE.contains(&kind),
        EventField::Calls => kind == EventKind::Assistant,
        EventField::Tool => matches!(kind, EventKind::Call | EventKind::Result),
        EventField::Args | EventField::Id => kind == EventKind::Call,
        EventField::Json | EventField::IsError | EventField::Call => kind == EventKind::Result,
        EventField::Policy | EventField::Severity | EventField::Tags => kind == EventKind::Hit,
    }
}
