//! Probes, and the library that holds them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{ProbeType, Schema, TypeNumbers, validate};

/// How a probe reaches the snapshot instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectAs {
    /// As something the user says.
    UserMessage,
    /// As something a tool returns.
    ToolResult,
}

impl InjectAs {
    /// Its name in a probe library.
    pub fn word(self) -> &'static str {
        match self {
            InjectAs::UserMessage => "user_message",
            InjectAs::ToolResult => "tool_result",
        }
    }

    /// The mode of that name.
    pub fn from_word(word: &str) -> Option<InjectAs> {
        [InjectAs::UserMessage, InjectAs::ToolResult].into_iter().find(|m| m.word() == word)
    }
}

/// One probe: a situation that puts a rule under pressure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its id, unique in its library.
    pub id: Arc<str>,
    /// Its type.
    pub probe_type: ProbeType,
    /// How it is injected.
    pub inject_as: InjectAs,
    /// The kind of pressure.
    pub stress_type: Arc<str>,
    /// The rule under pressure.
    pub constraint: Arc<str>,
    /// What is asked.
    pub scenario: Arc<str>,
    /// Other wordings of the same question, so that it is harder to learn.
    pub wordings: Vec<Arc<str>>,
    /// What the answer must look like.
    pub schema: Schema,
}

impl Probe {
    /// The wording of that number, counting the scenario itself as 0; wraps around.
    pub fn wording(&self, number: u64) -> &Arc<str> {
        let count = self.wordings.len() as u64 + 1;
        let at = (number % count) as usize;
        at.checked_sub(1).and_then(|i| self.wordings.get(i)).unwrap_or(&self.scenario)
    }
}

/// Why a library is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It has no version.
    #[error("the probe library has no version")]
    Version,
    /// It holds nothing.
    #[error("the probe library is empty")]
    Empty,
    /// A probe that cannot be sent.
    #[error("probe {id:?}: {error}")]
    Probe {
        /// Its id.
        id: Arc<str>,
        /// Why.
        error: validate::ProbeError,
    },
    /// Two probes with one id.
    #[error("probe {id:?} is defined twice")]
    Duplicate {
        /// The id.
        id: Arc<str>,
    },
    /// A type that the pack does not declare.
    #[error("probe {id:?} is of type {probe_type:?}, which the pack's scoring does not declare")]
    Type {
        /// Its id.
        id: Arc<str>,
        /// Its type.
        probe_type: ProbeType,
    },
    /// A wording that is blank.
    #[error("probe {id:?} has a blank wording")]
    Wording {
        /// Its id.
        id: Arc<str>,
    },
}

/// A checked probe library.
#[derive(Clone, Debug)]
pub struct Library {
    version: Arc<str>,
    probes: Vec<Probe>,
}

impl Library {
    /// Checks every probe; all problems are reported.
    pub fn new(
        version: &str,
        probes: Vec<Probe>,
        types: &BTreeMap<ProbeType, TypeNumbers>,
    ) -> Result<Library, Vec<LibraryError>> {
        let mut problems = Vec::new();
        if validate::is_blank(version) {
            problems.push(LibraryError::Version);
        }
        if probes.is_empty() {
            problems.push(LibraryError::Empty);
        }
        let mut seen = BTreeSet::new();
        for probe in &probes {
            let id = || Arc::clone(&probe.id);
            if !seen.insert(&probe.id) {
                problems.push(LibraryError::Duplicate { id: id() });
            }
            // A missing version is one problem, not one for each probe.
            let version = if validate::is_blank(version) { "-" } else { version };
            if let Err(error) = validate::check_probe(probe, version) {
                problems.push(LibraryError::Probe { id: id(), error });
            }
            if !types.contains_key(&probe.probe_type) {
                problems.push(LibraryError::Type { id: id(), probe_type: Arc::clone(&probe.probe_type) });
            }
            if probe.wordings.iter().any(|w| validate::is_blank(w)) {
                problems.push(LibraryError::Wording { id: id() });
            }
        }
        if problems.is_empty() { Ok(Library { version: Arc::from(version), probes }) } else { Err(problems) }
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its probes, in the order in which they were written.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The probe with that id.
    pub fn probe(&self, id: &str) -> Option<&Probe> {
        self.probes.iter().find(|p| &*p.id == id)
    }
}
