//! Rule packs as files: reading a pack's folder, checking the shape of its YAML, collecting its `.policy`
//! texts and its tests.
//!
//! A pack is read from a folder ([`read_pack`]) or from files in memory ([`read_pack_files`]), a rules folder
//! with [`read_rules`], which is [`RuleFiles::read`] and then [`read_rule_files`]. Reading finds every mistake of every file at once. YAML comes in through one file,
//! [`yaml`], and its shapes stay in this room: what leaves it is a [`PackSpec`]. What a pack extends is found by [`beside`]
//! and added by [`extend`], as trees, before it is made out what they say.

mod beside;
mod cases;
mod declared;
mod drift_cases;
mod extend;
mod fields;
mod folder;
mod git;
mod inherited;
#[cfg(test)]
mod laws;
mod layout;
mod lexicon;
mod manifest;
mod messages;
mod node;
mod payment;
mod probes;
mod read;
mod redaction;
mod schema;
mod scoring;
mod signature;
mod snapshot;
mod spec;
mod terms;
mod tools;
mod yaml;

pub use beside::extends_others;
pub use drift_cases::{Band, DriftCase, DriftStep, DriftTests, RedactionCase, SessionExpect, StepExpect};
pub use extend::base_broken;
pub use git::{GitError, GitFiles, read_folder, read_packs, references, resolve};
pub use inherited::{Base, Inherited};
pub use read::{read_pack, read_pack_files, read_pack_of, read_rule_files, read_rules};
pub use schema::FileKind;
pub use signature::{PackKey, PackSignature, SIGNATURE_FILE, SignatureFault};
pub use snapshot::{PackFiles, RuleFiles};
pub use spec::{
    Calibration, ComponentsSpec, DriftHalf, DriftSpec, ErrorRule, Expect, Expected, Keywords, PackSources, PackSpec,
    RewardSpec, RuleSources, Spanned, TestCase, Values,
};
