//! Says whether a text holds what a detector looks for, without changing it: for rules about texts.

use super::{
    Detector, EmailWords, PhoneWords, Rules, RulesError,
    scan::{Look, Scanner},
};

/// The detectors, ready to be asked.
#[derive(Debug)]
pub struct Finder {
    scanner: Scanner,
}

impl Finder {
    /// The detectors with these words.
    pub fn new(email: EmailWords, phone: PhoneWords) -> Result<Finder, RulesError> {
        Ok(Finder { scanner: Scanner::new(&Rules { email, phone, ..Rules::standard() })? })
    }

    /// Whether a text holds something of that kind.
    pub fn finds(&self, detector: Detector, text: &str) -> bool {
        !self.scanner.find(text, Look { detectors: &[detector], key: None, names: true }).is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_detector_finds_its_own() {
        let finder = Finder::new(EmailWords::english(), PhoneWords::english()).unwrap();
        for (text, expected) in [
            ("write to jo@corp.example", vec![Detector::Email]),
            ("call +49 30 901820", vec![Detector::Phone]),
            ("card 4111 1111 1111 1111", vec![Detector::Card]),
            ("to DE89370400440532013000 please", vec![Detector::Iban]),
            ("from 10.0.0.1", vec![Detector::Ip]),
            ("key AKIAIOSFODNN7EXAMPLE", vec![Detector::Secret]),
            ("nothing at all", vec![]),
        ] {
            let found: Vec<Detector> = Detector::ALL.into_iter().filter(|d| finder.finds(*d, text)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
