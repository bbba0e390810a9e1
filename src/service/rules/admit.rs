//! What compiled rules must show before they may serve: that they are pinned, that they are signed, and that their own
//! tests pass, each as far as the settings ask for it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    audit::public_key,
    config::{OnTestFailure, Pin},
    diag::{Code, Diagnostic, Diagnostics, Severity, Sources, Span},
    engine::{Pack, RuleSet, failing, run_tests_while},
    model::Digest,
    pack::{PackSignature, RuleFiles, SIGNATURE_FILE},
};

/// What rules must show, as the settings say.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// What happens when a pack's own tests fail.
    pub on_test_failure: OnTestFailure,
    /// How long the tests of a set may take.
    pub test_limit: Duration,
    /// Packs and the digests that they may have; a file may hold more.
    pub pins: Vec<Pin>,
    /// A file of pins, read at each load.
    pub pin_file: Option<PathBuf>,
    /// A file of public keys, read at each load: every pack must be signed by one of them.
    pub public_keys: Option<PathBuf>,
}

/// The files beside the rules that conditions name, as they were read.
#[derive(Clone, Debug)]
pub struct Beside {
    pins: Option<Result<String, String>>,
    public_keys: Option<Result<String, String>>,
}

impl Beside {
    /// Together with what was read of the rules: the fingerprint of all that a load depends on.
    pub fn fingerprint(&self, rules: Digest) -> Digest {
        let read = [&self.pins, &self.public_keys];
        if read.iter().all(|file| file.is_none()) {
            return rules;
        }
        let mut hasher = blake3::Hasher::new_derive_key("probity rules and what they must show v1");
        hasher.update(rules.bytes());
        for file in read {
            let said = format!("{file:?}");
            hasher.update(&(said.len() as u64).to_le_bytes());
            hasher.update(said.as_bytes());
        }
        Digest::new(*hasher.finalize().as_bytes())
    }
}

impl Conditions {
    /// Reads the files that are named.
    pub fn read(&self) -> Beside {
        let text = |path: &PathBuf| fs::read_to_string(path).map_err(|e| e.to_string());
        Beside { pins: self.pin_file.as_ref().map(text), public_keys: self.public_keys.as_ref().map(text) }
    }

    /// What is wrong with a set that compiled. `sources` may get names of other files.
    pub fn check(&self, set: &RuleSet, files: &RuleFiles, beside: &Beside, sources: &mut Arc<Sources>) -> Diagnostics {
        let mut found = Diagnostics::new();
        self.check_pins(set, beside, sources, &mut found);
        self.check_signatures(set, files, beside, sources, &mut found);
        // What may not serve anyway is not run.
        if !found.has_errors() {
            self.check_tests(set, sources, &mut found);
        }
        found
    }

    fn check_pins(&self, set: &RuleSet, beside: &Beside, sources: &mut Arc<Sources>, found: &mut Diagnostics) {
        let mut pins = self.pins.clone();
        if let (Some(read), Some(path)) = (&beside.pins, &self.pin_file) {
            let lines = read.as_deref().map_err(Clone::clone).and_then(|text| {
                meaningful(text)
                    .map(|(n, line)| Pin::read(line).ok_or(format!("line {n} is no `NAME=DIGEST`")))
                    .collect()
            });
            match lines {
                Ok(lines) => pins.extend::<Vec<Pin>>(lines),
                Err(why) => return found.push(unusable(path, &why, sources)),
            }
        } else if pins.is_empty() {
            return;
        }
        for pack in set.iter() {
            let mut pinned = pins.iter().filter(|pin| *pin.pack == **pack.name()).map(|pin| pin.digest);
            let what = match pinned.next() {
                None => format!("no digest of the pack `{}` is pinned", pack.name()),
                Some(digest) if digest == *pack.digest() || pinned.any(|other| other == *pack.digest()) => continue,
                Some(_) => format!("the pack `{}` is pinned to another digest", pack.name()),
            };
            let help = format!("if this is what is to serve, pin {}={}", pack.name(), pack.digest());
            found.push(Diagnostic::error(Code::NotPinned, manifest(pack, sources), what).help(help));
        }
        let missing: BTreeSet<&str> =
            pins.iter().map(|pin| pin.pack.as_str()).filter(|name| set.versions(name).is_empty()).collect();
        for name in missing {
            let folder = sources_of(sources).add_name(format!("the pinned pack {name}"));
            let what = format!("the pack `{name}` is pinned, and is not there");
            found.push(Diagnostic::error(Code::PinnedMissing, Span::start_of(folder), what));
        }
    }

    fn check_signatures(
        &self,
        set: &RuleSet,
        files: &RuleFiles,
        beside: &Beside,
        sources: &mut Arc<Sources>,
        found: &mut Diagnostics,
    ) {
        let (Some(read), Some(path)) = (&beside.public_keys, &self.public_keys) else { return };
        let keys: Result<Vec<[u8; 32]>, String> = read.as_deref().map_err(Clone::clone).and_then(|text| {
            let key = |(n, line)| public_key(line).ok_or(format!("line {n} is no public key of 64 hexadecimal digits"));
            meaningful(text).map(key).collect()
        });
        let keys = match keys {
            Ok(keys) => keys,
            Err(why) => return found.push(unusable(path, &why, sources)),
        };
        for pack in set.iter() {
            let kept = files.pack(pack.root());
            let bytes = kept.as_ref().and_then(|pack| pack.files().get(Path::new(SIGNATURE_FILE)));
            let Some(bytes) = bytes else {
                let what = format!("the pack `{}` is not signed", pack.name());
                let problem = Diagnostic::error(Code::NotSigned, manifest(pack, sources), what);
                found.push(problem.help("`probity sign` writes the signature of a pack"));
                continue;
            };
            let text = String::from_utf8_lossy(bytes);
            let checked = PackSignature::from_text(&text)
                .and_then(|signature| signature.check(pack.digest(), pack.version(), &keys));
            if let Err(fault) = checked {
                let what = format!("this signature {fault}");
                let place = file(&pack.root().join(SIGNATURE_FILE), sources);
                found.push(Diagnostic::error(Code::SignatureWrong, place, what));
            }
        }
    }

    fn check_tests(&self, set: &RuleSet, sources: &mut Arc<Sources>, found: &mut Diagnostics) {
        let until = Instant::now().checked_add(self.test_limit);
        let severity = |problem: Diagnostic| match self.on_test_failure {
            OnTestFailure::Refuse => problem,
            OnTestFailure::Warn => Diagnostic { severity: Severity::Warning, ..problem },
        };
        for pack in set.iter() {
            let Some(report) = run_tests_while(pack, &|| until.is_none_or(|until| Instant::now() < until)) else {
                let what = format!("the tests of the set take longer than {:?}: not all of them ran", self.test_limit);
                let problem = Diagnostic::error(Code::TestsTooLong, manifest(pack, sources), what);
                return found
                    .push(severity(problem.help("give them more time with --test-limit, or make them smaller")));
            };
            found.extend(failing(pack, &report).into_iter().map(severity));
        }
    }
}

/// The lines of a file that say something, with their numbers.
fn meaningful(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A file beside the rules that cannot be used: what it asks for is not known, so nothing may serve.
fn unusable(path: &Path, why: &str, sources: &mut Arc<Sources>) -> Diagnostic {
    let file = sources_of(sources).add_name(path.display().to_string());
    Diagnostic::error(Code::TrustUnreadable, Span::start_of(file), format!("this cannot be used: {why}"))
}

fn sources_of(sources: &mut Arc<Sources>) -> &mut Sources {
    Arc::make_mut(sources)
}

/// Where a pack's manifest begins.
fn manifest(pack: &Pack, sources: &mut Arc<Sources>) -> Span {
    file(&pack.root().join("pack.yaml"), sources)
}

/// Where a file begins.
fn file(path: &Path, sources: &mut Arc<Sources>) -> Span {
    let name = path.display().to_string();
    let known = sources.iter().find(|(_, source)| source.name() == name).map(|(id, _)| id);
    Span::start_of(known.unwrap_or_else(|| sources_of(sources).add_name(name)))
}
