//! Packs from folders: the files are read, the policies compiled, and all mistakes of all packs are
//! reported together. Nothing is usable while there is an error.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Pack, PackParts, Said, bases};
use crate::{
    diag::{Code, Diagnostic, Diagnostics, Sources, Span, quote, suggest},
    ingest::ErrorRule,
    keywords::{Categories, CategorySpec},
    lang::{self, Surroundings},
    model::{Digest, Effect, EpisodeRules, Limit, Num, PackQuery},
    pack::{ComponentsSpec, DriftHalf, DriftSpec, PackSources, PackSpec, RuleFiles, RuleSources, Spanned, TestCase},
    redact::Redactor,
    reward::{Components, Plausibility, Progress},
};

/// All packs that are served together: of a name there may be several versions. Immutable.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// By name, then from the least version.
    packs: Vec<Arc<Pack>>,
}

impl RuleSet {
    /// A set of packs; of equal names and versions the last.
    pub fn new(packs: impl IntoIterator<Item = Arc<Pack>>) -> RuleSet {
        let packs: BTreeMap<_, _> = packs.into_iter().map(|p| ((p.name().clone(), p.version().clone()), p)).collect();
        RuleSet { packs: packs.into_values().collect() }
    }

    /// The pack that a query wants most of those that fit.
    pub fn find(&self, query: &PackQuery) -> Option<&Arc<Pack>> {
        let fits = self.versions(query.name()).iter().filter(|pack| query.matches(pack.version()));
        fits.max_by(|a, b| query.order(a.version(), b.version()))
    }

    /// The same for a query that is written: `NAME` or `NAME@RANGE`. What is neither finds nothing.
    pub fn get(&self, query: &str) -> Option<&Arc<Pack>> {
        self.find(&PackQuery::parse(query).ok()?)
    }

    /// The packs of a name, from the least version.
    pub fn versions(&self, name: &str) -> &[Arc<Pack>] {
        let from = self.packs.partition_point(|pack| **pack.name() < *name);
        let of = self.packs.get(from..).unwrap_or_default();
        of.get(..of.partition_point(|pack| **pack.name() == *name)).unwrap_or_default()
    }

    /// Whether it holds no pack.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// The packs, by name and then from the least version.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Pack>> {
        self.packs.iter()
    }

    /// The digest of the whole set: of the names, versions and digests of its packs.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("probity rule set v1");
        for pack in self.iter() {
            part(&mut hasher, pack.name().as_bytes());
            part(&mut hasher, pack.version().to_string().as_bytes());
            part(&mut hasher, pack.digest().bytes());
        }
        Digest::new(*hasher.finalize().as_bytes())
    }
}

/// What loading gave: something to use, unless there is an error among the diagnostics.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The result; none if there is an error.
    pub result: Option<T>,
    /// Everything that was found, errors and warnings.
    pub diagnostics: Diagnostics,
    /// The files that they point into.
    pub sources: Arc<Sources>,
}

/// Loads the pack in a folder.
pub fn load_pack(dir: &Path) -> Loaded<Arc<Pack>> {
    from_sources(crate::pack::read_pack(dir))
}

/// Loads a pack from files in memory, by their paths inside the pack.
pub fn load_pack_files(shown: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Loaded<Arc<Pack>> {
    from_sources(crate::pack::read_pack_files(shown, files))
}

/// Loads one pack of a rules folder that is in memory: what stands in `root`.
pub fn load_pack_of(files: RuleFiles, root: &Path) -> Loaded<Arc<Pack>> {
    from_sources(crate::pack::read_pack_of(files, root))
}

fn from_sources((read, diagnostics): (PackSources, Diagnostics)) -> Loaded<Arc<Pack>> {
    let PackSources { sources, pack } = read;
    let all = build(sources, vec![pack], diagnostics);
    Loaded {
        result: all.result.and_then(|packs| packs.into_iter().next()),
        diagnostics: all.diagnostics,
        sources: all.sources,
    }
}

/// Loads every pack of a rules folder.
pub fn load_rules(dir: &Path) -> Loaded<RuleSet> {
    load_rule_files(RuleFiles::read(dir))
}

/// Loads every pack of a rules folder that is in memory.
pub fn load_rule_files(files: RuleFiles) -> Loaded<RuleSet> {
    let (RuleSources { sources, packs }, diagnostics) = crate::pack::read_rule_files(files);
    let all = build(sources, packs, diagnostics);
    Loaded { result: all.result.map(RuleSet::new), diagnostics: all.diagnostics, sources: all.sources }
}

fn build(sources: Sources, specs: Vec<PackSpec>, mut diagnostics: Diagnostics) -> Loaded<Vec<Arc<Pack>>> {
    let sources = Arc::new(sources);
    let mut packs = Vec::new();
    let expected = specs.len();
    for spec in specs {
        let (pack, found) = compile(&sources, spec);
        packs.extend(pack);
        diagnostics.extend(found);
    }
    // A pack that is missing without an error would be a gate that is missing: nothing is usable then.
    let result = (!diagnostics.has_errors() && packs.len() == expected).then_some(packs);
    Loaded { result, diagnostics, sources }
}

pub(super) fn compile(sources: &Arc<Sources>, spec: PackSpec) -> (Option<Arc<Pack>>, Diagnostics) {
    if spec.bases.is_empty() {
        return compile_whole(sources, spec);
    }
    let (inherited, bases) = (spec.inherited.clone(), spec.bases.clone());
    let (pack, found) = compile_whole(sources, spec);
    (pack, bases::told(sources, &inherited, &bases, found))
}

fn compile_whole(sources: &Arc<Sources>, spec: PackSpec) -> (Option<Arc<Pack>>, Diagnostics) {
    let mut problems = Diagnostics::new();
    let mut modules = Vec::new();
    for file in &spec.policies {
        let (mut module, found) = lang::parse(*file, sources.text(*file));
        problems.extend(found);
        module.items.retain(|item| !spec.inherited.left_out.contains(&item.name().span));
        modules.push(module);
    }
    // What a file that cannot be read would have declared is missing: compiling would report that again.
    let Some(categories) = &spec.keywords.compiled else { return (None, problems) };
    let Some(redactor) = spec.redaction.clone() else { return (None, problems) };
    if !spec.complete {
        return (None, problems);
    }
    let (program, found) = lang::compile(&modules, &surroundings(sources, &spec, categories));
    problems.extend(found);
    let Some(program) = program else { return (None, problems) };
    check_severities(&program, &spec, &mut problems);
    check_tests(&program, &spec.tests, &mut problems);
    let digest = digest(&spec, &modules);
    let said = said(&spec);
    let components = components(&program, &spec.reward.components, &mut problems);
    let drift = match spec.drift {
        DriftHalf::Absent => None,
        DriftHalf::Broken => return (None, problems),
        DriftHalf::Usable(drift) => Some(Arc::new(*drift)),
    };
    let parts = PackParts {
        root: spec.root,
        name: Arc::from(spec.name.value.as_str()),
        version: spec.version,
        description: spec.description,
        digest,
        program,
        errors: ErrorRule { prefix: spec.errors.prefix },
        on_undecided: spec.on_undecided,
        discount: spec.reward.discount,
        components,
        limits: spec.limits,
        episode: spec.episode,
        calibration: spec.calibration,
        redactor,
        drift,
        tests: spec.tests,
        drift_tests: spec.drift_tests,
        said,
        version_span: spec.version_span,
        inherited: spec.inherited,
    };
    match Pack::new(parts) {
        Ok(pack) => (Some(Arc::new(pack)), problems),
        Err(e) => {
            problems.push(Diagnostic::error(Code::NumberForm, spec.name.span, e.to_string()));
            (None, problems)
        }
    }
}

fn surroundings(sources: &Arc<Sources>, spec: &PackSpec, categories: &Arc<Categories>) -> Surroundings {
    // Of a category that the drift half uses, or may have been meant to use, no policy needs to make use.
    let needs_user = |name: &str| match &spec.drift {
        DriftHalf::Absent => true,
        DriftHalf::Broken => false,
        DriftHalf::Usable(drift) => !drift.uses(name),
    };
    let named = |c: &Spanned<CategorySpec>| (c.value.name.clone(), c.span);
    Surroundings {
        sources: sources.clone(),
        categories: categories.clone(),
        category_spans: spec.keywords.specs.iter().filter(|c| needs_user(&c.value.name)).map(named).collect(),
        clock: spec.clock,
        tools: spec.tools.clone(),
        redaction: spec.redaction.clone(),
    }
}

fn check_severities(program: &lang::Program, spec: &PackSpec, problems: &mut Diagnostics) {
    let (least, most) = (spec.reward.severity_min, spec.reward.severity_max);
    for policy in &program.policies {
        if policy.severity < least || most.is_some_and(|most| policy.severity > most) {
            let range = most.map_or(format!("at least {least}"), |most| format!("from {least} to {most}"));
            let message = format!("the severity {} of `{}` is outside the pack's scale", policy.severity, policy.id);
            let problem =
                Diagnostic::error(Code::NumberRange, policy.span, message).help(format!("reward.yaml says: {range}"));
            problems.push(problem);
        }
    }
}

fn check_tests(program: &lang::Program, tests: &[TestCase], problems: &mut Diagnostics) {
    let known: HashSet<&str> = program.policies.iter().map(|p| p.id.as_ref()).collect();
    for test in tests {
        let filters = test.policies.iter().flatten().map(|p| (&p.value, p.span));
        let expect = &test.expect;
        let expected = expect.hits.iter().chain(&expect.undecided).chain(&expect.signals).map(|e| (&e.policy, e.span));
        for (policy, span) in filters.chain(expected) {
            if !known.contains(policy.as_str()) {
                problems.push(no_policy(policy, span, known.iter().copied()));
            }
        }
    }
}

/// A name of no policy, with the nearest of those that could have been meant.
fn no_policy<'a>(name: &str, span: Span, candidates: impl Iterator<Item = &'a str>) -> Diagnostic {
    let message = format!("the pack has no policy {}", quote(name));
    Diagnostic::error(Code::UnknownName, span, message).did_you_mean(suggest(name, candidates))
}

/// The components of the reward, with their policies found.
fn components(program: &lang::Program, spec: &ComponentsSpec, problems: &mut Diagnostics) -> Components {
    let ComponentsSpec { violation, plausibility, progress, diversity } = spec;
    let plausibility = plausibility.as_ref().map(|(weight, named)| {
        let policies = paid(program, named, Effect::Flag, problems);
        Plausibility { weight: *weight, policies: policies.into_iter().map(|p| p.id.clone()).collect() }
    });
    let progress = progress.as_ref().map(|(weight, named)| {
        let policies = paid(program, named, Effect::Milestone, problems);
        Progress { weight: *weight, milestones: policies.into_iter().map(|p| (p.id.clone(), p.severity)).collect() }
    });
    Components { violation: *violation, plausibility, progress, diversity: *diversity }
}

/// The policies that a component names, which must have the effect that it looks at.
fn paid<'p>(
    program: &'p lang::Program,
    named: &[Spanned<String>],
    effect: Effect,
    problems: &mut Diagnostics,
) -> Vec<&'p lang::program::Policy> {
    let of_effect = || program.policies.iter().filter(|p| p.effect == effect);
    let mut found: Vec<&lang::program::Policy> = Vec::new();
    for Spanned { value, span } in named {
        match program.policies.iter().find(|p| *p.id == **value) {
            Some(policy) if policy.effect != effect => {
                let message = format!(
                    "`{value}` is a {} policy; this component is paid for {}",
                    policy.effect.word(),
                    effect.word()
                );
                let problem = Diagnostic::error(Code::WrongValue, *span, format!("{message} policies"));
                problems.push(problem.secondary(policy.span, "declared here"));
            }
            Some(policy) if found.iter().any(|p| p.id == policy.id) => {
                problems.push(Diagnostic::error(Code::NameTwice, *span, format!("`{value}` is named twice")));
            }
            Some(policy) => found.push(policy),
            None => problems.push(no_policy(value, *span, of_effect().map(|p| p.id.as_ref()))),
        }
    }
    found
}

/// What a pack says, for comparison with another version.
fn said(spec: &PackSpec) -> Said {
    Said {
        policies: spec.policies.clone(),
        categories: spec.keywords.specs.iter().map(|c| (c.value.name.clone(), format!("{:?}", c.value))).collect(),
        values: spec.values.clone(),
        probes: match &spec.drift {
            DriftHalf::Usable(drift) => Some(drift.library.probes().iter().map(|p| format!("{p:?}")).collect()),
            DriftHalf::Absent | DriftHalf::Broken => None,
        },
    }
}

/// The digest of what a pack means. Its version and description say the same of the same meaning, and
/// are left out, as are comments, layout, and the order of declarations.
fn digest(spec: &PackSpec, modules: &[lang::ast::Module]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("probity pack meaning v1");
    part(&mut hasher, spec.name.value.as_bytes());
    part(&mut hasher, spec.format.to_string().as_bytes());
    part(&mut hasher, format!("{:?}", spec.clock).as_bytes());
    part(&mut hasher, spec.errors.prefix.as_deref().unwrap_or_default().as_bytes());
    part(&mut hasher, spec.on_undecided.word().as_bytes());
    part(&mut hasher, spec.calibration.word().as_bytes());
    part(&mut hasher, format!("{:?}", spec.reward.discount.values()).as_bytes());
    for limit in Limit::ALL.into_iter().filter(|limit| spec.limits.get(*limit) != limit.default()) {
        part(&mut hasher, format!("{} {}", limit.key(), spec.limits.get(limit)).as_bytes());
    }
    if spec.episode != EpisodeRules::default() {
        part(&mut hasher, format!("{:?}", spec.episode).as_bytes());
    }
    let components = &spec.reward.components;
    if *components != ComponentsSpec::default() {
        let named = |part: &Option<(Num, Vec<Spanned<String>>)>| {
            part.as_ref()
                .map(|(weight, policies)| (*weight, policies.iter().map(|p| p.value.clone()).collect::<BTreeSet<_>>()))
        };
        let paid =
            (components.violation, named(&components.plausibility), named(&components.progress), components.diversity);
        part(&mut hasher, format!("{paid:?}").as_bytes());
    }
    let mut categories: Vec<String> = spec.keywords.specs.iter().map(|c| format!("{:?}", c.value)).collect();
    categories.sort();
    for category in categories {
        part(&mut hasher, category.as_bytes());
    }
    part(&mut hasher, format!("{:?}", spec.redaction.as_deref().map(Redactor::rules)).as_bytes());
    if let DriftHalf::Usable(drift) = &spec.drift {
        let DriftSpec { settings, library, lexicon, output } = drift.as_ref();
        part(&mut hasher, format!("{settings:?} {lexicon:?} {output:?} {}", library.version()).as_bytes());
        let mut probes: Vec<String> = library.probes().iter().map(|p| format!("{p:?}")).collect();
        probes.sort();
        for probe in probes {
            part(&mut hasher, probe.as_bytes());
        }
    }
    if let Some(tools) = &spec.tools {
        part(&mut hasher, format!("{tools:?}").as_bytes());
    }
    part(&mut hasher, lang::meaning(modules).as_bytes());
    Digest::new(*hasher.finalize().as_bytes())
}

/// Length first, so that parts cannot run into each other.
fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
    hasher.update(bytes);
}
