//! Names that an expression can see beside the declared ones: definitions' parameters, `let`, bound
//! variables and `it`.

use std::rc::Rc;

use probity::lang::{ast::Expr, val::Val};

/// What a name stands for.
#[derive(Clone)]
pub enum Bound<'p> {
    /// A value: an element, a key, the earlier event.
    Value(Val),
    /// An expression with the names of the place where it was written.
    Expr(&'p Expr, Names<'p>),
}

/// Bound names, innermost first.
#[derive(Clone, Default)]
pub struct Names<'p>(Option<Rc<Binding<'p>>>);

struct Binding<'p> {
    name: &'p str,
    bound: Bound<'p>,
    outer: Names<'p>,
}

impl<'p> Names<'p> {
    /// These names and one more.
    pub fn with(&self, name: &'p str, bound: Bound<'p>) -> Names<'p> {
        Names(Some(Rc::new(Binding { name, bound, outer: self.clone() })))
    }

    /// What a name is bound to, if it is.
    pub fn get(&self, name: &str) -> Option<&Bound<'p>> {
        let binding = self.0.as_ref()?;
        if binding.name == name { Some(&binding.bound) } else { binding.outer.get(name) }
    }
}

/// Where an expression is evaluated: the judged event's place in the trace, and the names.
#[derive(Clone)]
pub struct Place<'p> {
    /// Index of the judged event; the earlier events are those before it.
    pub at: usize,
    /// What is bound.
    pub names: Names<'p>,
}

impl<'p> Place<'p> {
    /// At an event, with nothing bound.
    pub fn new(at: usize) -> Place<'p> {
        Place { at, names: Names::default() }
    }

    /// The same event with other names.
    pub fn with_names(&self, names: Names<'p>) -> Place<'p> {
        Place { at: self.at, names }
    }

    /// The same place with one more name.
    pub fn with(&self, name: &'p str, value: Val) -> Place<'p> {
        self.with_names(self.names.with(name, Bound::Value(value)))
    }
}
