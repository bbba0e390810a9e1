//! Forms of expression that need more room than a line: each a function of its own, and none of them inlined into
//! the function that calls itself through them.

use super::{Compiler, Env, Typed, expr::type_of};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{Binder, Expr, FoldOp, Name, Quantity, Regex, Type},
        program::NodeKind,
        types::Ty,
    },
};

impl Compiler<'_> {
    /// `x[*]`
    #[inline(never)]
    pub(super) fn projection(&mut self, base: &Expr, at: Span, env: &Env) -> Typed {
        let base = self.expr(base, env);
        self.need(&base, Ty::List, "`[*]` walks the elements of a list");
        let shape = base.shape.as_ref().and_then(|shape| shape.items.clone());
        Typed { each: true, shape, ..Typed::new(at, NodeKind::Each(Box::new(base.node)), Ty::List) }
    }

    /// `x as TYPE`
    #[inline(never)]
    pub(super) fn cast(&mut self, base: &Expr, to: Type, at: Span, env: &Env) -> Typed {
        let base = self.expr(base, env);
        if base.each {
            let kind = NodeKind::Cast { base: Box::new(base.node), to, each: true };
            return Typed { each: true, ..Typed::new(at, kind, Ty::List) };
        }
        let ty = type_of(to);
        if !base.ty.fits(ty) {
            let message = format!("{} is never {}", base.ty.a(), ty.a());
            self.error(Code::TypeMismatch, at, message);
        }
        let shape = base.shape.clone();
        let typed = Typed::new(at, NodeKind::Cast { base: Box::new(base.node), to, each: false }, ty);
        Typed { shape, ..typed }
    }

    /// `x mentions CATEGORY`
    #[inline(never)]
    pub(super) fn mentions(&mut self, text: &Expr, category: &Name, at: Span, env: &Env) -> Typed {
        let text = self.text(text, env);
        match self.around.categories.id(&category.text) {
            Some(id) => {
                self.used_categories.insert(category.text.to_string());
                Typed::new(at, NodeKind::Mentions(Box::new(text), id), Ty::Bool)
            }
            None => {
                let names: Vec<&str> = self.around.categories.iter().map(|(_, name)| name).collect();
                let message = format!("there is no keyword category `{}`", category.text);
                let problem = Diagnostic::error(Code::UnknownCategory, category.span, message);
                self.problems.push(problem.did_you_mean(self.near(&category.text, names).as_deref()));
                Typed::broken(at)
            }
        }
    }

    /// `x detects DETECTOR`
    #[inline(never)]
    pub(super) fn detects(&mut self, text: &Expr, detector: &Name, at: Span, env: &Env) -> Typed {
        let text = self.text(text, env);
        match self.detector(detector) {
            Some(detector) => Typed::new(at, NodeKind::Detects(Box::new(text), detector), Ty::Bool),
            None => Typed::broken(at),
        }
    }

    /// `x matches /re/`
    #[inline(never)]
    pub(super) fn matches(&mut self, text: &Expr, regex: &Regex, at: Span, env: &Env) -> Typed {
        let text = self.text(text, env);
        match self.regex(regex) {
            Some(pattern) => Typed::new(at, NodeKind::Matches(Box::new(text), pattern), Ty::Bool),
            None => Typed::broken(at),
        }
    }

    /// `any x in C where W: B`
    #[inline(never)]
    pub(super) fn quantifier(
        &mut self,
        quantity: Quantity,
        binder: &Binder,
        body: &Expr,
        at: Span,
        env: &Env,
    ) -> Typed {
        let (walk, env) = self.walk(binder, env);
        let body = self.condition(body, &env);
        Typed::new(at, NodeKind::Quantifier(quantity, walk, Box::new(body)), Ty::Bool)
    }

    /// `{ e for x in C where W }`
    #[inline(never)]
    pub(super) fn comprehension(&mut self, list: bool, element: &Expr, binder: &Binder, at: Span, env: &Env) -> Typed {
        let (walk, env) = self.walk(binder, env);
        let element = Box::new(self.expr(element, &env).node);
        let ty = if list { Ty::List } else { Ty::Set };
        Typed::new(at, NodeKind::Comprehension { list, element, walk }, ty)
    }

    /// `sum(e for x in C where W)`
    #[inline(never)]
    pub(super) fn fold(&mut self, op: FoldOp, element: Option<&Expr>, binder: &Binder, at: Span, env: &Env) -> Typed {
        let (walk, env) = self.walk(binder, env);
        let element = element.map(|e| {
            let typed = self.expr(e, &env);
            if op == FoldOp::Sum {
                self.need(&typed, Ty::Number, "a sum is over numbers");
            }
            Box::new(typed.node)
        });
        let ty = if matches!(op, FoldOp::Min | FoldOp::Max) { Ty::Any } else { Ty::Number };
        Typed::new(at, NodeKind::Fold(op, element, walk), ty)
    }
}
