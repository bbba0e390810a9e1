//! From files to a [`PackSpec`]: every file of a pack, every pack of a folder, all mistakes at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use semver::Version;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, FileId, Sources, Span, quote},
    drift::Calibration,
};

use super::{
    cases::{self, Names},
    drift_cases::{self, DriftTests},
    folder::{FileProblem, Folder},
    layout::{self, Part},
    lexicon,
    manifest::{self, Manifest},
    node::Node,
    payment, probes, redaction, scoring,
    snapshot::{Entry, RuleFiles},
    spec::{DriftHalf, DriftSpec, Keywords, PackSources, PackSpec, RewardSpec, RuleSources, Values},
    terms, tools, yaml,
};

/// Reads the pack in a folder.
pub fn read_pack(dir: &Path) -> (PackSources, Diagnostics) {
    read_one(dir, Folder::read(dir, dir))
}

/// Reads a pack from files in memory, by their paths inside the pack. `shown` is the folder that diagnostics
/// name them under.
pub fn read_pack_files(shown: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> (PackSources, Diagnostics) {
    read_one(shown, Folder::from(files))
}

fn read_one(shown: &Path, folder: Folder) -> (PackSources, Diagnostics) {
    let mut reading = Reading::default();
    let pack = reading.pack(shown, folder);
    (PackSources { sources: reading.sources, pack }, reading.diags)
}

/// Reads every pack of a rules folder: each of its folders is one. Two packs of the same name and version are an error.
pub fn read_rules(dir: &Path) -> (RuleSources, Diagnostics) {
    read_rule_files(RuleFiles::read(dir))
}

/// Reads every pack of a rules folder that is in memory.
pub fn read_rule_files(files: RuleFiles) -> (RuleSources, Diagnostics) {
    let mut reading = Reading::default();
    let mut packs: Vec<PackSpec> = Vec::new();
    for (path, folder) in reading.pack_folders(files) {
        let pack = reading.pack(&path, folder);
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

/// The files of the drift half; a tree is missing where the file is no YAML.
#[derive(Default)]
struct DriftFiles {
    probes: Option<(FileId, Option<Node>)>,
    scoring: Option<(FileId, Option<Node>)>,
}

/// What a reading has gathered so far.
#[derive(Default)]
struct Reading {
    sources: Sources,
    diags: Diagnostics,
    /// The values of the pack that is being read.
    values: Values,
}

impl Reading {
    /// The folders of a rules folder.
    fn pack_folders(&mut self, files: RuleFiles) -> Vec<(PathBuf, Folder)> {
        let RuleFiles { dir, entries, problem, .. } = files;
        if let Some(problem) = problem {
            self.report(&dir, &problem);
            return Vec::new();
        }
        let mut folders = Vec::new();
        for (path, entry) in entries {
            let part = path.file_name().map(|name| Part::of(Path::new(name)));
            match entry {
                Entry::Pack(folder) => folders.push((path, folder)),
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
        folders
    }

    fn pack(&mut self, root: &Path, folder: Folder) -> PackSpec {
        let mut manifest: Option<(FileId, Manifest)> = None;
        let mut keywords = Keywords::default();
        let mut redaction = redaction::standard();
        let mut drift = DriftFiles::default();
        let mut reward = RewardSpec::default();
        let mut tools = None;
        let mut policies = Vec::new();
        let mut tests = Vec::new();
        let (mut drift_tests, mut sessions) = (DriftTests::default(), None);
        let mut names = Names::new();
        let mut complete = folder.problems.is_empty();
        for (path, bytes) in folder.files {
            let shown = root.join(&path);
            let Some(file) = self.text(&shown, bytes) else {
                complete = false;
                continue;
            };
            match Part::of(&path) {
                Part::Manifest => {
                    let read = self.settings(file, &path).map(|root| manifest::read(&root, &mut self.diags));
                    manifest = Some((file, read.unwrap_or_default()));
                }
                Part::Keywords => {
                    let read = self.settings(file, &path).map(|root| terms::read(&root, &mut self.diags));
                    keywords = read.unwrap_or(Keywords::UNREADABLE);
                }
                Part::Probes => drift.probes = Some((file, self.settings(file, &path))),
                Part::Scoring => drift.scoring = Some((file, self.settings(file, &path))),
                Part::Redaction => {
                    redaction = self.settings(file, &path).and_then(|root| redaction::read(&root, &mut self.diags));
                }
                Part::Reward => {
                    reward = self
                        .settings(file, &path)
                        .map(|root| payment::read(&root, &mut self.diags))
                        .unwrap_or_default();
                }
                Part::Tools => match self.settings(file, &path) {
                    Some(root) => tools = Some(Arc::new(tools::read(&root, &mut self.diags))),
                    None => complete = false,
                },
                Part::Test => {
                    let read = self.yaml(file).map(|root| cases::read(&root, &mut names, &mut self.diags));
                    let read = read.unwrap_or_default();
                    tests.extend(read.traces);
                    drift_tests.sessions.extend(read.drift.sessions);
                    drift_tests.redaction.extend(read.drift.redaction);
                    sessions = sessions.or(read.sessions);
                }
                Part::Policy => policies.push(file),
                Part::Signature | Part::Ignored | Part::Unknown => {}
            }
        }
        for (path, problem) in &folder.problems {
            self.report(&root.join(path), problem);
        }
        self.unread(root, &folder.unread);
        let (file, manifest) = match manifest {
            Some(read) => read,
            None => (self.no_manifest(root, &folder.problems), Manifest::default()),
        };
        let drift = if drift.probes.is_none() && drift.scoring.is_none() {
            DriftHalf::Absent
        } else {
            let read = self.drift(&drift, &keywords, manifest.calibration.claim());
            read.map_or(DriftHalf::Broken, |spec| DriftHalf::Usable(Box::new(spec)))
        };
        match (&drift, sessions) {
            (DriftHalf::Usable(spec), _) => {
                let known = spec.library.probes().iter().map(|probe| &*probe.id);
                drift_cases::check_probes(&drift_tests.sessions, known, &mut self.diags);
            }
            (DriftHalf::Absent, Some(span)) => drift_cases::without_probes(span, &mut self.diags),
            (DriftHalf::Absent | DriftHalf::Broken, _) => {}
        }
        let folder_name = root.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
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
            policies,
            complete,
            tests,
            drift_tests,
            values: std::mem::take(&mut self.values),
        }
    }

    /// Reads the two files of the drift half, once all that they refer to is known.
    fn drift(&mut self, files: &DriftFiles, keywords: &Keywords, calibration: Calibration) -> Option<DriftSpec> {
        let (scoring, probes) = match files {
            DriftFiles { scoring: None, probes: None } => return None,
            DriftFiles { scoring: Some((_, scoring)), probes: Some((_, probes)) } => (scoring, probes),
            DriftFiles { scoring: Some((file, _)), probes: None } => return self.lonely(*file, "probes.yaml"),
            DriftFiles { scoring: None, probes: Some((file, _)) } => return self.lonely(*file, "scoring.yaml"),
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

    /// Reads a file of settings, and notes what it says.
    fn settings(&mut self, file: FileId, path: &Path) -> Option<Node> {
        let root = self.yaml(file)?;
        self.values.insert(path.display().to_string(), root.leaves());
        Some(root)
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
