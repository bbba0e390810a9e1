//! Redaction: what may leave a call, and the type that proves it.
//!
//! Answers, messages and field names go through here before they are recorded, logged, shown to a
//! judge or put into an error. Which fields stay, which are scrubbed and what is looked for is a
//! pack's business; a field that no rule names is closed.

mod card;
mod email;
mod finder;
mod groups;
mod iban;
mod ip;
#[cfg(test)]
mod linear;
mod named;
mod names;
mod normal;
mod phone;
mod redacted;
mod rules;
mod scan;
mod scrub;
mod seal;
mod shapes;
mod under;
mod words;

pub use email::EmailWords;
pub use finder::Finder;
pub use phone::PhoneWords;
pub use redacted::Redacted;
pub use rules::{Detector, FREE_TEXT, FieldRule, Mode, Rules, TOMBSTONE, TOO_LONG, UNKNOWN_FIELD};
pub use scrub::{Redact, Redactor, RulesError, Unredactable};
pub use seal::{Keeper, Kept, NONCE, SealKey, Sealed, Sealer, Side};
