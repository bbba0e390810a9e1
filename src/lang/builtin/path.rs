//! Functions on file paths: by their letters alone, without a look at a file system.

use super::{Arg, Builtin, DependsOn, Param, Takes, first, value};
use crate::{
    diag::Span,
    lang::{types::Ty, val::Val},
};

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin {
    name: "path_within",
    params: &[value("path", Ty::String), Param { name: "root", takes: Takes::Root }],
    optional: 0,
    repeats: false,
    gives: Ty::Bool,
    depends_on: DependsOn::Arguments,
    doc: "Whether an absolute path is the root or lies below it, by whole segments: empty ones and `.` vanish, `..` \
          removes the segment before it, a percent sign is a letter. False for a path that does not begin with `/`.",
    examples: &[
        ("path_within(\"/srv/a/../b\", \"/srv\")", "true"),
        ("path_within(\"//srv//./b\", \"/srv/\")", "true"),
        ("path_within(\"/srv/../etc\", \"/srv\")", "false"),
        ("path_within(\"/srv-old/x\", \"/srv\")", "false"),
        ("path_within(\"srv/x\", \"/srv\")", "false"),
        ("path_within(\"/srv/%2e%2e/x\", \"/srv\")", "true"),
        ("path_within([\"/srv\"], \"/srv\")", "?"),
    ],
    eval: within,
}];

fn within(args: &[Arg<'_>], at: Span) -> Val {
    let path = first(args);
    let root = args.get(1).map_or(&Val::Absent, Arg::val);
    let (Some(path_text), Some(root_text)) = (path.as_str(), root.as_str()) else {
        let wrong = if path.as_str().is_none() { path } else { root };
        return Val::Unknown(wrong.why(at, "string"));
    };
    Val::bool(match (segments(path_text), segments(root_text)) {
        (Some(path), Some(root)) => path.starts_with(&root),
        _ => false,
    })
}

/// The segments of an absolute path that its dots leave; above the root there is nothing.
fn segments(path: &str) -> Option<Vec<&str>> {
    let mut segments = Vec::new();
    for segment in path.strip_prefix('/')?.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    Some(segments)
}
