//! What is told about a pack that extends others, where the mistake may be theirs.

use std::sync::Arc;

use super::load::compile;
use crate::{
    diag::{Diagnostic, Diagnostics, Severity, Sources, quote},
    pack::{Inherited, PackSpec, base_broken},
};

/// Of what compiling a pack found, what is to be told. A base with errors of its own is told once, where it is asked for:
/// whoever checks that base is told the rest.
pub(super) fn told(
    sources: &Arc<Sources>,
    inherited: &Inherited,
    bases: &[Arc<PackSpec>],
    mut found: Diagnostics,
) -> Diagnostics {
    for (base, spec) in inherited.bases.iter().zip(bases) {
        let theirs = |d: &Diagnostic| d.severity == Severity::Error && base.files.contains(&d.primary.span.file);
        if !found.sorted().into_iter().any(theirs) {
            continue;
        }
        let (_, alone) = compile(sources, PackSpec::clone(spec));
        let Some(first) = alone.sorted().into_iter().find(|d| d.severity == Severity::Error).cloned() else { continue };
        found = found.into_iter().filter(|d| !theirs(d)).collect();
        let broken = base_broken(&quote(&base.name), base.at);
        found.push(broken.secondary(first.primary.span, first.message));
    }
    inherited.told(found)
}
