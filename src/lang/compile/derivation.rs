//! Derivation: the pattern is decided by the earlier event alone, so that its tokens can be filed as it
//! arrives.

use super::{Compiler, Env, Reads, Typed, pattern::Deps};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{Derived, Expr, ExprKind},
        program::{DerivedAsk, Id, Node, NodeKind, SourceSpec, TextIndex, ToolSpec},
        types::Ty,
    },
    model::EventKind,
};

impl<'a> Compiler<'a> {
    /// Compiles a question about derivation. Not inlined: compiling recurses.
    #[inline(never)]
    pub(super) fn derived(&mut self, derived: &Derived, at: Span, env: &Env) -> Typed {
        if !self.may_ask_history(at, env) {
            return Typed::broken(at);
        }
        let value = self.expr(&derived.value, env);
        if !value.ty.fits(Ty::String) && (derived.path.is_some() || !value.ty.fits(Ty::Number)) {
            let message = format!("this is {}: only text and numbers are looked for", value.ty.a());
            self.error(Code::TypeMismatch, value.node.at, message);
        }
        let pattern = &derived.pattern;
        if pattern.windows() > 0 {
            let problem = Diagnostic::error(Code::NotHere, pattern.span, "derivation looks at all earlier events")
                .help("leave out the window");
            self.problems.push(problem);
        }
        if let Some(source) = pattern.sources.iter().find(|s| s.kinds.contains(&EventKind::End)) {
            self.error(Code::NotHere, source.span, "nothing comes after the end of a session");
        }
        self.no_hits(&pattern.sources);
        let sources = self.sources(&pattern.sources);
        let kinds = sources.iter().flat_map(|s| s.kinds.iter().copied()).collect();
        let it_sources = std::sync::Arc::from(sources.as_slice());
        let inner = Env { it: Some(kinds), it_sources, reads: Reads::Facts, ..env.clone() };
        let parts: Vec<&Expr> = match pattern.filter.as_deref() {
            None => Vec::new(),
            Some(Expr { kind: ExprKind::And(parts), .. }) => parts.iter().collect(),
            Some(one) => vec![one],
        };
        let local: Vec<Node> = parts.into_iter().map(|part| self.condition(part, &inner)).collect();
        let path = derived.path.as_ref().map(|path| self.expr(path, &inner).node);
        for node in local.iter().chain(&path) {
            if Deps::of(node).now() {
                let problem = Diagnostic::error(Code::CannotIndex, node.at, "this depends on the judged event")
                    .help("the earlier events of a derivation are chosen as they come, by what they are: `it.args.x`");
                self.problems.push(problem);
            }
        }
        let index = self.text_index(TextIndex { sources, local, path, span: at });
        let heard = SourceSpec { kinds: vec![EventKind::System, EventKind::User], tools: ToolSpec::Any };
        let cleared_by = self.text_index(TextIndex { sources: vec![heard], local: Vec::new(), path: None, span: at });
        let ask = DerivedAsk { index, cleared_by, value: value.node, carries: derived.path.is_some() };
        Typed::new(at, NodeKind::Derived(Box::new(ask)), Ty::Bool)
    }

    /// The index that keeps this, an equal one if there is one.
    fn text_index(&mut self, index: TextIndex) -> Id {
        let shape = format!("{:?}{:?}{:?}", index.sources, index.local, index.path);
        *self.index_shapes.entry(shape).or_insert_with(|| {
            self.indexes.push(index);
            self.indexes.len() - 1
        })
    }
}
