//! Says whether a text holds what a detector looks for, without changing it: for rules about texts.

use super::{Detector, EmailWords, PhoneWords, RulesError, email, normal::Normal, phone, shapes::Shapes};

/// The detectors, ready to be asked.
#[derive(Debug)]
pub struct Finder {
    shapes: Shapes,
    email: EmailWords,
    phone: PhoneWords,
}

impl Finder {
    /// The detectors with these words.
    pub fn new(email: EmailWords, phone: PhoneWords) -> Result<Finder, RulesError> {
        Ok(Finder { shapes: Shapes::new()?, email, phone })
    }

    /// Whether a text holds something of that kind.
    pub fn finds(&self, detector: Detector, text: &str) -> bool {
        match detector {
            Detector::Email => {
                let mut found = Vec::new();
                email::find(&Normal::of(text), &self.email, &mut found);
                !found.is_empty()
            }
            Detector::Phone => {
                let mut found = Vec::new();
                phone::find(&Normal::of(text), None, &self.phone, &mut found);
                !found.is_empty()
            }
            Detector::Card | Detector::Iban | Detector::Ip | Detector::Secret => {
                let mut found = Vec::new();
                self.shapes.find(detector, text, &mut found);
                !found.is_empty()
            }
        }
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
