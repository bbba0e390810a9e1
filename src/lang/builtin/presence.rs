//! Is there a value?

use super::{Builtin, DependsOn, Param, Takes, first, value};
use crate::lang::types::Ty;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "known",
        params: &[value("x", Ty::Any)],
        optional: 0,
        repeats: false,
        gives: Ty::Bool,
        depends_on: DependsOn::Arguments,
        doc: "True if x has a value; false if it is absent or unknown. Unknown only for a fact read with an unknown key.",
        examples: &[("known(3)", "true"), ("known(null)", "true"), ("known([1][5])", "false")],
        eval: |args, _| first(args).is_known().into_val(),
    },
    Builtin {
        name: "seen",
        params: &[Param { name: "fact[key]", takes: Takes::FactRead }],
        optional: 0,
        repeats: false,
        gives: Ty::Bool,
        depends_on: DependsOn::Facts,
        doc: "True if something has filled the fact under that key, false if nothing has. Unknown if the key is \
              unknown, or if an earlier event that could have filled it could not be used.",
        examples: &[],
        // The compiler asks the fact itself: a value cannot tell absent from uncertainly absent.
        eval: |args, _| first(args).is_known().into_val(),
    },
];
