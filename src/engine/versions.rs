//! Whether a pack's version says what happened to its meaning since another version.

use std::sync::Arc;

use super::{Pack, diff};
use crate::diag::{Code, Diagnostic};

/// The pack that a pack came out of: of its name, in the folder of the same name; or else of its line; or else the
/// latest that is no later than it.
pub fn predecessor<'p>(earlier: &'p [Arc<Pack>], pack: &Pack) -> Option<&'p Arc<Pack>> {
    let of_name = || earlier.iter().filter(|old| old.name() == pack.name());
    let latest = |of: &dyn Fn(&Pack) -> bool| of_name().filter(|old| of(old)).max_by_key(|old| old.version());
    let folder = pack.root().file_name();
    latest(&|old| old.root().file_name() == folder)
        .or_else(|| latest(&|old| old.line() == pack.line()))
        .or_else(|| latest(&|old| old.version() <= pack.version()))
        .or_else(|| latest(&|_| true))
}

/// What is wrong with the version of a pack that came out of another one; errors that point at its version.
///
/// Another meaning needs another version. Other probes need a minor version at least, and a version of their own:
/// results of different libraries never accumulate together.
pub fn check_version(before: &Pack, after: &Pack) -> Vec<Diagnostic> {
    let compared = diff(before, after);
    if !compared.meaning_changed {
        return Vec::new();
    }
    let (old, new) = (before.version(), after.version());
    let at = after.version_span();
    let next = match compared.probes_changed {
        true => format!("{}.{}.0", old.major, old.minor.saturating_add(1)),
        false => format!("{}.{}.{}", old.major, old.minor, old.patch.saturating_add(1)),
    };
    let help = format!("write `version: {next}`, or a later one; `probity diff` says what changed");
    let name = after.name();
    let mut problems = Vec::new();
    match new.cmp_precedence(old) {
        std::cmp::Ordering::Equal => problems.push(
            Diagnostic::error(Code::VersionSame, at, format!("`{name}` means something else than it did at {old}"))
                .label("and has the same version")
                .help(help),
        ),
        std::cmp::Ordering::Less => problems.push(
            Diagnostic::error(Code::VersionStep, at, format!("the version of `{name}` was {old} before"))
                .label("this is an earlier one")
                .help(help),
        ),
        std::cmp::Ordering::Greater if compared.probes_changed && (new.major, new.minor) == (old.major, old.minor) => {
            problems.push(
                Diagnostic::error(Code::VersionStep, at, format!("the probes of `{name}` changed since {old}"))
                    .label("the version rises by a patch alone")
                    .help(help),
            );
        }
        std::cmp::Ordering::Greater => {}
    }
    let library = |pack: &Pack| pack.drift().map(|drift| drift.library.version().to_owned());
    if let (true, Some(was), Some(is)) = (compared.probes_changed, library(before), library(after))
        && was == is
    {
        problems.push(
            Diagnostic::error(Code::LibraryVersionSame, at, format!("the probes of `{name}` changed since {old}"))
                .label(format!("the version in probes.yaml is {is} as before"))
                .help("results of different probes must not be added up: give the library another version"),
        );
    }
    problems
}
