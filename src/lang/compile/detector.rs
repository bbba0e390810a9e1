//! Detectors in conditions: `text detects email`.

use std::sync::Arc;

use super::Compiler;
use crate::{
    diag::{Code, Diagnostic},
    lang::{ast::Name, program::DetectorRef},
    redact::{Detector, EmailWords, Finder, PhoneWords},
};

impl Compiler<'_> {
    /// The detector of a name.
    pub(super) fn detector(&mut self, name: &Name) -> Option<DetectorRef> {
        let Some(detector) = Detector::from_word(&name.text) else {
            let words = Detector::ALL.map(Detector::word);
            let near = self.near(&name.text, words);
            let message = format!("there is no detector `{}`", name.text);
            let problem = Diagnostic::error(Code::UnknownDetector, name.span, message);
            self.problems.push(match near {
                Some(near) => problem.did_you_mean(Some(&near)),
                None => problem.help(format!("there are {}", words.join(", "))),
            });
            return None;
        };
        let rules = self.around.redaction.as_ref().map(|redaction| redaction.rules());
        if rules.is_some_and(|rules| !rules.detectors.contains(&detector)) {
            let message = format!("redaction.yaml does not declare the detector `{}`", name.text);
            let problem = Diagnostic::error(Code::UnknownDetector, name.span, message);
            self.problems.push(problem.help("add it to `detectors` there"));
            return None;
        }
        let finder = match &self.finder {
            Some(finder) => Arc::clone(finder),
            // Made once for a pack, and only if it asks for detectors.
            None => {
                let words = rules.map(|rules| (rules.email.clone(), rules.phone.clone()));
                let (email, phone) = words.unwrap_or((EmailWords::english(), PhoneWords::english()));
                match Finder::new(email, phone) {
                    Ok(finder) => Arc::clone(self.finder.insert(Arc::new(finder))),
                    Err(e) => {
                        self.error(Code::UnknownDetector, name.span, format!("detectors cannot be used: {e}"));
                        return None;
                    }
                }
            }
        };
        Some(DetectorRef { detector, finder })
    }
}
