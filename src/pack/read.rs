//! From files to a [`PackSpec`]: every file of a pack, every pack of a folder, all mistakes at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use semver::Version;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, FileId, Sources, Span, quote},
    drift::Calibration,
};

use super::{
    Inherited,
    beside::Offers,
    cases::{self, Names},
    drift_cases::{self, DriftTests},
    folder::{FileProblem, Folder, KEPT_BASES},
    layout::{self, Part},
    lexicon, manifest,
    node::Node,
    payment, probes, redaction, scoring,
    snapshot::{Entry, RuleFiles},
    spec::{DriftHalf, DriftSpec, Keywords, PackSources, PackSpec, RuleSources, TestCase, Values},
    terms, tools, yaml,
};

/// Reads the pack in a folder. Packs that it extends are looked for in the folder that holds it.
pub fn read_pack(dir: &Path) -> (PackSources, Diagnostics) {
    Reading::new([(dir.to_owned(), Folder::read(dir, dir))], true).one(dir)
}

/// Reads a pack from files in memory, by their paths inside the pack. `shown` is the folder that diagnostics
/// name them under.
pub fn read_pack_files(shown: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> (PackSources, Diagnostics) {
    Reading::new([(shown.to_owned(), Folder::from(files))], false).one(shown)
}

/// Reads one pack of a rules folder that is in memory: what stands in `root`.
pub fn read_pack_of(files: RuleFiles, root: &Path) -> (PackSources, Diagnostics) {
    let packs = files.entries.into_iter().filter_map(|(path, entry)| match entry {
        Entry::Pack(folder) => Some((path, folder)),
        Entry::Stray => None,
    });
    Reading::new(packs, false).one(root)
}

/// Reads every pack of a rules folder: each of its folders is one. Two packs of the same name and version are an error.
pub fn read_rules(dir: &Path) -> (RuleSources, Diagnostics) {
    read_rule_files(RuleFiles::read(dir))
}

/// Reads every pack of a rules folder that is in memory.
pub fn read_rule_files(files: RuleFiles) -> (RuleSources, Diagnostics) {
    let mut reading = Reading::default();
    let mut packs: Vec<PackSpec> = Vec::new();
    for path in reading.pack_folders(files) {
        let pack = reading.pack(&path);
        let same = |p: &&PackSpec| (&p.name.value, &p.version) == (&pack.name.value, &pack.version);
        if let Some(first) = packs.iter().find(same) {
            let what = format!("two packs have the name {} and the version {}", quote(&pack.name.value), pack.version);
            reading.diags.push(
                Diagnostic::error(Code::PackNameTwice, pack.name.span, what)
                    .secondary(first.name.span, "the other one")
                    .help(
                        "rename one of them, or give it another version: several versions can be served side by side",
                    ),
            );
        }
        packs.push(pack);
    }
    (RuleSources { sources: reading.sources, packs }, reading.diags)
}

/// What a reading has gathered so far.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) sources: Sources,
    /// What was found about the pack that is being read; between packs, about all.
    pub(super) diags: Diagnostics,
    /// The packs, by their folders, that were not looked at yet.
    folders: BTreeMap<PathBuf, Folder>,
    /// The packs among which those to extend are looked for.
    pub(super) offers: Offers,
    /// Whether there are more of them in the folder that holds the one pack that was asked for.
    pub(super) looks_around: bool,
    /// Packs that were read, where others may ask for them again.
    read: BTreeMap<PathBuf, Rc<Whole>>,
}

/// What the files of a pack hold, before it is made out what they say.
#[derive(Clone, Default)]
pub(super) struct Parts {
    /// Its files of settings.
    pub(super) settings: BTreeMap<Part, Settings>,
    /// Its `.policy` files.
    pub(super) policies: Vec<FileId>,
    /// Every file that is its own.
    pub(super) files: BTreeSet<FileId>,
    /// False if a file could not be read, or a pack that it extends cannot be used.
    pub(super) complete: bool,
    /// False if what it extends is missing: what refers to that is not wrong.
    pub(super) extended: bool,
    /// What of this comes from packs that it extends.
    pub(super) inherited: Inherited,
    /// Those packs.
    pub(super) bases: Vec<Arc<PackSpec>>,
}

/// A file of settings; no tree if it is no YAML.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) file: FileId,
    pub(super) root: Option<Rc<Node>>,
}

/// The tests of a pack.
#[derive(Default)]
struct Tests {
    traces: Vec<TestCase>,
    drift: DriftTests,
    /// Where sessions of probes stand, if some do.
    sessions: Option<Span>,
}

/// A pack that was read.
#[derive(Clone)]
pub(super) struct Whole {
    pub(super) parts: Parts,
    pub(super) spec: PackSpec,
    /// What was found about it.
    pub(super) problems: Diagnostics,
}

impl Reading {
    /// A reading of packs by their folders.
    fn new(packs: impl IntoIterator<Item = (PathBuf, Folder)>, looks_around: bool) -> Reading {
        let folders: BTreeMap<PathBuf, Folder> = packs.into_iter().collect();
        let offers = Offers::of(folders.iter().map(|(path, folder)| (path.as_path(), folder)));
        Reading { folders, offers, looks_around, ..Reading::default() }
    }

    fn one(mut self, root: &Path) -> (PackSources, Diagnostics) {
        let pack = self.pack(root);
        (PackSources { sources: self.sources, pack }, self.diags)
    }

    /// The folders of a rules folder.
    fn pack_folders(&mut self, files: RuleFiles) -> Vec<PathBuf> {
        let RuleFiles { dir, entries, problem, .. } = files;
        if let Some(problem) = problem {
            self.report(&dir, &problem);
            return Vec::new();
        }
        let (mut paths, mut folders) = (Vec::new(), Vec::new());
        for (path, entry) in entries {
            let part = path.file_name().map(|name| Part::of(Path::new(name)));
            match entry {
                Entry::Pack(folder) => {
                    paths.push(path.clone());
                    folders.push((path, folder));
                }
                Entry::Stray if part == Some(Part::Manifest) => {
                    let span = self.place(&path);
                    self.diags.push(
                        Diagnostic::error(Code::NoPack, span, "this folder is a pack, not a folder of packs")
                            .help("give the folder that holds it"),
                    );
                    return Vec::new();
                }
                Entry::Stray if part == Some(Part::Ignored) => {}
                Entry::Stray => {
                    let span = self.place(&path);
                    self.diags.push(
                        Diagnostic::warning(Code::FileUnknown, span, "nothing reads this file")
                            .help("a rules folder holds one folder for each pack"),
                    );
                }
            }
        }
        if folders.is_empty() {
            let span = self.place(&dir);
            self.diags.push(
                Diagnostic::error(Code::NoPack, span, "this rules folder holds no pack")
                    .help("a pack is a folder in it with a `pack.yaml`"),
            );
        }
        let Reading { folders, offers, .. } = Reading::new(folders, false);
        (self.folders, self.offers) = (folders, offers);
        paths
    }

    /// A pack that was asked for; what was found about it is told.
    fn pack(&mut self, root: &Path) -> PackSpec {
        let whole = self.whole(root);
        self.diags.extend(whole.problems.clone());
        Rc::unwrap_or_clone(whole).spec
    }

    /// Reads a pack, once, together with what it extends.
    pub(super) fn whole(&mut self, root: &Path) -> Rc<Whole> {
        if let Some(whole) = self.read.get(root) {
            return Rc::clone(whole);
        }
        let before = std::mem::take(&mut self.diags);
        let folder = self.folder(root);
        let (own, tests) = self.own(root, folder);
        let parts = self.extend_pack(root, own);
        let spec = self.spec(root, &parts, tests);
        let problems = parts.inherited.told(std::mem::replace(&mut self.diags, before));
        let whole = Rc::new(Whole { parts, spec, problems });
        // Nobody asks again where no pack extends another one.
        if self.offers.extend_each_other() {
            self.read.insert(root.to_owned(), Rc::clone(&whole));
        }
        whole
    }

    /// The files of a pack; those of one that stands beside the one that was asked for are read now.
    fn folder(&mut self, root: &Path) -> Folder {
        if let Some(mut folder) = self.folders.remove(root) {
            let kept = root.join(KEPT_BASES);
            self.folders
                .extend(std::mem::take(&mut folder.bases).into_iter().map(|(name, base)| (kept.join(name), base)));
            return folder;
        }
        match root.parent() {
            Some(shelf) if self.looks_around => {
                let shelf = if shelf.as_os_str().is_empty() { Path::new(".") } else { shelf };
                Folder::read(root, shelf).without_tests()
            }
            _ => Folder::default(),
        }
    }

    /// Takes the files of a pack in.
    fn own(&mut self, root: &Path, folder: Folder) -> (Parts, Tests) {
        let mut parts = Parts { complete: folder.problems.is_empty(), extended: true, ..Parts::default() };
        let mut tests = Tests::default();
        let mut names = Names::new();
        for (path, bytes) in folder.files {
            let shown = root.join(&path);
            let Some(file) = self.text(&shown, bytes) else {
                parts.complete = false;
                continue;
            };
            parts.files.insert(file);
            match Part::of(&path) {
                Part::Test => {
                    let read = self.yaml(file).map(|root| cases::read(&root, &mut names, &mut self.diags));
                    let read = read.unwrap_or_default();
                    tests.traces.extend(read.traces);
                    tests.drift.sessions.extend(read.drift.sessions);
                    tests.drift.redaction.extend(read.drift.redaction);
                    tests.sessions = tests.sessions.or(read.sessions);
                }
                Part::Policy => parts.policies.push(file),
                Part::Signature | Part::Ignored | Part::Unknown => {}
                part => {
                    let root = self.yaml(file).map(Rc::new);
                    parts.settings.insert(part, Settings { file, root });
                }
            }
        }
        for (path, problem) in &folder.problems {
            self.report(&root.join(path), problem);
        }
        self.unread(root, &folder.unread);
        if !parts.settings.contains_key(&Part::Manifest) {
            let file = self.no_manifest(root, &folder.problems);
            parts.files.insert(file);
            parts.settings.insert(Part::Manifest, Settings { file, root: None });
        }
        (parts, tests)
    }

    /// Makes out what a pack says.
    fn spec(&mut self, root: &Path, parts: &Parts, tests: Tests) -> PackSpec {
        let of = |part: Part| parts.settings.get(&part);
        let tree = |part: Part| of(part).and_then(|settings| settings.root.as_deref());
        let diags = &mut self.diags;
        let manifest = tree(Part::Manifest).map(|root| manifest::read(root, diags)).unwrap_or_default();
        let keywords = match of(Part::Keywords) {
            None => Keywords::default(),
            Some(_) => tree(Part::Keywords).map_or(Keywords::UNREADABLE, |root| terms::read(root, diags)),
        };
        let redaction = match of(Part::Redaction) {
            None => redaction::standard(),
            Some(_) => tree(Part::Redaction).and_then(|root| redaction::read(root, diags)),
        };
        let reward = tree(Part::Reward).map(|root| payment::read(root, diags)).unwrap_or_default();
        let tools = tree(Part::Tools).map(|root| Arc::new(tools::read(root, diags)));
        let drift = match (of(Part::Probes), of(Part::Scoring)) {
            _ if !parts.extended => DriftHalf::Broken,
            (None, None) => DriftHalf::Absent,
            (probes, scoring) => {
                let read = self.drift(probes, scoring, &keywords, manifest.calibration.claim());
                read.map_or(DriftHalf::Broken, |spec| DriftHalf::Usable(Box::new(spec)))
            }
        };
        match (&drift, tests.sessions) {
            (DriftHalf::Usable(spec), _) => {
                let known = spec.library.probes().iter().map(|probe| &*probe.id);
                drift_cases::check_probes(&tests.drift.sessions, known, &mut self.diags);
            }
            (DriftHalf::Absent, Some(span)) => drift_cases::without_probes(span, &mut self.diags),
            (DriftHalf::Absent | DriftHalf::Broken, _) => {}
        }
        let mut values = Values::new();
        for (part, settings) in &parts.settings {
            if let (Some(name), Some(root)) = (part.file_name(), &settings.root) {
                values.insert(name.to_owned(), root.leaves());
            }
        }
        let folder_name = root.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        // It is there even if the file is not.
        let file = of(Part::Manifest).map_or_else(|| self.sources.add_name("pack.yaml"), |settings| settings.file);
        PackSpec {
            root: root.to_owned(),
            file,
            name: manifest.name.unwrap_or_else(|| manifest::stand_in_name(&folder_name, file)),
            version_span: manifest.version.as_ref().map_or(Span::start_of(file), |version| version.span),
            version: manifest.version.map_or(Version::new(0, 0, 0), |version| version.value),
            format: PackSpec::FORMAT,
            description: manifest.description,
            clock: manifest.clock,
            errors: manifest.errors,
            on_undecided: manifest.on_undecided,
            calibration: manifest.calibration,
            limits: manifest.limits,
            episode: manifest.episode,
            keywords,
            redaction,
            drift,
            reward,
            tools,
            policies: parts.policies.clone(),
            inherited: parts.inherited.clone(),
            bases: parts.bases.clone(),
            complete: parts.complete && (of(Part::Tools).is_none() || tree(Part::Tools).is_some()),
            tests: tests.traces,
            drift_tests: tests.drift,
            values,
        }
    }

    /// Reads the two files of the drift half, once all that they refer to is known.
    fn drift(
        &mut self,
        probes: Option<&Settings>,
        scoring: Option<&Settings>,
        keywords: &Keywords,
        calibration: Calibration,
    ) -> Option<DriftSpec> {
        let (scoring, probes) = match (scoring, probes) {
            (None, None) => return None,
            (Some(scoring), Some(probes)) => (&scoring.root, &probes.root),
            (Some(scoring), None) => return self.lonely(scoring.file, "probes.yaml"),
            (None, Some(probes)) => return self.lonely(probes.file, "scoring.yaml"),
        };
        let settings = scoring.as_ref().and_then(|root| scoring::read(root, calibration, &mut self.diags));
        let types = settings.as_ref().map(|s| &s.score.types);
        let library = probes.as_ref().and_then(|root| probes::read(root, types, &mut self.diags));
        let scoring = scoring.as_ref()?;
        // Without keywords nothing can be said about their names.
        let categories = keywords.compiled.as_ref()?;
        let lexicon = scoring.get("judge").map(|n| lexicon::judge(n, categories, &mut self.diags));
        let output = scoring.get("readout").map(|n| lexicon::readout(n, categories, &mut self.diags));
        let output = match output {
            Some(read) => read,
            None => lexicon::missing_readout(scoring, &mut self.diags),
        };
        let lexicon = match lexicon {
            Some(read) => Some(read?),
            None => None,
        };
        Some(DriftSpec { settings: settings?, library: library?, lexicon, output: output? })
    }

    /// Reports a file of the drift half that stands without the other.
    fn lonely(&mut self, file: FileId, other: &str) -> Option<DriftSpec> {
        let span = Span::start_of(file);
        let what = format!("this file needs {other} beside it, and that is not there");
        let help = "probes.yaml holds the probes, scoring.yaml the numbers that judge their answers";
        self.diags.push(Diagnostic::error(Code::FileMissing, span, what).help(help));
        None
    }

    /// Takes a file's text in. Bytes that are no UTF-8 are reported where they begin.
    fn text(&mut self, shown: &Path, bytes: Vec<u8>) -> Option<FileId> {
        let name = shown.display().to_string();
        match String::from_utf8(bytes) {
            Ok(text) => {
                // Offsets count from after the mark, as editors show them.
                let plain = text.trim_start_matches('\u{feff}');
                let marked = plain.len() < text.len();
                let file = self.sources.add(name, plain);
                if marked {
                    self.diags.push(
                        Diagnostic::warning(
                            Code::FileMark,
                            Span::start_of(file),
                            "the file begins with a byte-order mark",
                        )
                        .help("save it as UTF-8 without one"),
                    );
                }
                Some(file)
            }
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let readable = bytes.get(..valid).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default();
                let file = self.sources.add(name, readable);
                self.diags.push(
                    Diagnostic::error(
                        Code::FileNotUtf8,
                        Span::new(file, valid..valid),
                        "the file is not UTF-8 from here on",
                    )
                    .help("save it as UTF-8"),
                );
                None
            }
        }
    }

    fn yaml(&mut self, file: FileId) -> Option<Node> {
        yaml::parse(file, self.sources.text(file), &mut self.diags)
    }

    /// A place to report about a path that has no text.
    fn place(&mut self, shown: &Path) -> Span {
        Span::start_of(self.sources.add_name(shown.display().to_string()))
    }

    fn report(&mut self, shown: &Path, problem: &FileProblem) {
        let (code, help) = match problem {
            FileProblem::Unreadable(_) | FileProblem::Git(_) | FileProblem::Special => (Code::FileUnreadable, None),
            FileProblem::LeavesPack => (Code::LinkLeavesPack, Some("copy the file into the pack")),
            FileProblem::LargeFile | FileProblem::LargePack | FileProblem::ManyFiles | FileProblem::Deep => {
                (Code::FileTooLarge, None)
            }
        };
        let span = self.place(shown);
        let diagnostic = Diagnostic::error(code, span, format!("this {problem}"));
        self.diags.push(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    }

    /// Reports files that nothing reads; of a folder that no pack has, the folder once.
    fn unread(&mut self, root: &Path, paths: &[PathBuf]) {
        let mut reported = BTreeSet::new();
        for path in paths {
            let path = match path.iter().next() {
                Some(first) if !layout::is_folder(path) => Path::new(first),
                _ => path,
            };
            let part = Part::of(path);
            if part == Part::Ignored || !reported.insert(path) {
                continue;
            }
            let span = self.place(&root.join(path));
            self.diags
                .push(Diagnostic::warning(Code::FileUnknown, span, "nothing reads this").help(layout::advice(path)));
        }
    }

    /// Reports that there is no `pack.yaml`, unless it is known why.
    fn no_manifest(&mut self, root: &Path, problems: &[(PathBuf, FileProblem)]) -> FileId {
        let shown = root.join("pack.yaml");
        let name = shown.display().to_string();
        if let Some((file, _)) = self.sources.iter().find(|(_, source)| source.name() == name) {
            return file;
        }
        let file = self.sources.add_name(name);
        let root_problem = problems.iter().any(|(path, _)| path.as_os_str().is_empty());
        if !root_problem {
            self.diags.push(
                Diagnostic::error(
                    Code::FileMissing,
                    Span::start_of(file),
                    "a pack needs this file, and it is not there",
                )
                .help("it holds at least `name`, `version` and `format`"),
            );
        }
        file
    }
}
