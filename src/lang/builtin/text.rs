//! Functions on text.

use super::{Arg, Builtin, DependsOn, Param, Takes, first, value};
use crate::{
    diag::Span,
    lang::{
        ops,
        types::Ty,
        val::{Datum, Val},
    },
    model::Value,
};

const TEXT: &[super::Param] = &[value("text", Ty::String)];

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "trim",
        params: TEXT,
        optional: 0,
        repeats: false,
        gives: Ty::String,
        depends_on: DependsOn::Arguments,
        doc: "The text without white space at either end.",
        examples: &[("trim(\"  a b \")", "\"a b\""), ("trim(3)", "?")],
        eval: |args, at| map(args, at, |s| s.trim().to_owned()),
    },
    Builtin {
        name: "lower",
        params: TEXT,
        optional: 0,
        repeats: false,
        gives: Ty::String,
        depends_on: DependsOn::Arguments,
        doc: "The text in lower case, by Unicode's rules.",
        examples: &[("lower(\"ÀB\")", "\"àb\"")],
        eval: |args, at| map(args, at, str::to_lowercase),
    },
    Builtin {
        name: "lower_ascii",
        params: TEXT,
        optional: 0,
        repeats: false,
        gives: Ty::String,
        depends_on: DependsOn::Arguments,
        doc: "The text with A to Z in lower case and everything else as it is.",
        examples: &[("lower_ascii(\"ÀB\")", "\"Àb\"")],
        eval: |args, at| map(args, at, str::to_ascii_lowercase),
    },
    Builtin {
        name: "extract",
        params: &[value("text", Ty::String), Param { name: "/pattern/", takes: Takes::Regex }],
        optional: 0,
        repeats: false,
        gives: Ty::String,
        depends_on: DependsOn::Arguments,
        doc: "The first match of the pattern, or its group if it has exactly one; absent if nothing matches.",
        examples: &[
            ("extract(\"id certificate_77.\", /certificate_[0-9]+/)", "\"certificate_77\""),
            ("extract(\"order 12\", /order ([0-9]+)/)", "\"12\""),
            ("extract(\"none\", /[0-9]+/)", "(absent)"),
        ],
        eval: extract,
    },
    Builtin {
        name: "join",
        params: &[value("list", Ty::List), value("between", Ty::String)],
        optional: 0,
        repeats: false,
        gives: Ty::String,
        depends_on: DependsOn::Arguments,
        doc: "The texts and numbers of a list as one text, numbers in plain decimals, with a text between them; unknown \
              if an element is anything else.",
        examples: &[
            ("join([\"order\", 12.50], \"-\")", "\"order-12.5\""),
            ("join([], \"-\")", "\"\""),
            ("join([\"a\", null], \"-\")", "?"),
        ],
        eval: join,
    },
];

fn join(args: &[Arg<'_>], at: Span) -> Val {
    let list = match ops::as_elements(first(args), at) {
        Ok(list) => list,
        Err(why) => return Val::Unknown(why),
    };
    let between = args.get(1).map_or(&Val::Absent, Arg::val);
    let Some(separator) = between.as_str() else { return Val::Unknown(between.why(at, "string")) };
    let mut out = String::new();
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        match item {
            Val::Known(Datum::Json(Value::String(text))) => out.push_str(text),
            Val::Known(Datum::Json(Value::Number(number))) => out.push_str(&number.to_string()),
            other => return Val::Unknown(other.why(at, "string or number")),
        }
    }
    Val::text(&out)
}

fn map(args: &[Arg<'_>], at: Span, f: fn(&str) -> String) -> Val {
    let v = first(args);
    match v.as_str() {
        Some(s) => Val::text(&f(s)),
        None => Val::Unknown(v.why(at, "string")),
    }
}

fn extract(args: &[Arg<'_>], at: Span) -> Val {
    let v = first(args);
    let (Some(text), Some(Arg::Regex(pattern))) = (v.as_str(), args.get(1)) else {
        return Val::Unknown(v.why(at, "string"));
    };
    // One group (beside the whole match) names the part that is wanted.
    let wanted = usize::from(pattern.captures_len() == 2);
    match pattern.captures(text).and_then(|c| c.get(wanted)) {
        Some(found) => Val::text(found.as_str()),
        None => Val::Absent,
    }
}
