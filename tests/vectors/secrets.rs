//! Secrets that overlap, are spelled in another way, or are split: no run of four of their characters may survive.

use probity::redact::{Redactor, Rules};
use proptest::prelude::*;
use serde_json::json;

/// A mail address: its user's name is what must not survive.
fn mail() -> impl Strategy<Value = (String, String)> {
    "[a-z]{5,10}\\.[a-z]{4,8}".prop_map(|user| (format!("{user}@corp.example"), user))
}

/// A key of a provider.
fn key() -> impl Strategy<Value = (String, String)> {
    "[A-Z0-9]{16}".prop_map(|tail| (format!("AKIA{tail}"), tail))
}

/// Ways to write a mail address that a reader still reads.
const SPELLINGS: [fn(&str) -> String; 7] = [
    |mail| mail.replace('@', "%40"),
    |mail| mail.replace('@', "&#64;").replace('.', "&#x2e;"),
    |mail| mail.replace('@', "\u{ff20}"),
    |mail| mail.replace('@', " [at] ").replace(".example", "[.]example"),
    // Split by what leaves no mark.
    |mail| mail.chars().flat_map(|c| [c, '\u{200b}']).collect(),
    |mail| mail.replace('@', "\u{ad}@\u{2060}"),
    // Every character as an escape of JSON.
    |mail| {
        let escaped: String = mail.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        format!("{{\"to\":\"{escaped}\"}}")
    },
];

fn survives(out: &str, secret: &str) -> Option<String> {
    // What is invisible between two characters does not hide them from a reader.
    let seen: String = out.chars().filter(|c| !matches!(c, '\u{200b}' | '\u{ad}' | '\u{2060}')).collect();
    let secret: Vec<char> = secret.chars().collect();
    secret.windows(4).map(|run| run.iter().collect::<String>()).find(|run| seen.contains(run))
}

proptest! {
    #[test]
    fn however_it_is_spelled((mail, user) in mail(), way in 0..SPELLINGS.len(), layers in 0_usize..4) {
        let redactor = Redactor::new(Rules::standard(), [9; 32]).unwrap();
        let mut text = SPELLINGS[way](&mail);
        for _ in 0..layers {
            text = json!({"1": [text]}).to_string();
        }
        let out = redactor.text(&text).into_inner();
        prop_assert_eq!(survives(&out, &user), None, "{} of {}", out, text);
        prop_assert_eq!(redactor.text(&out).into_inner(), out);
    }

    #[test]
    fn however_they_overlap((mail, user) in mail(), (key, tail) in key(), glue in "[:/=,@ ]{1,2}", turned: bool) {
        let redactor = Redactor::new(Rules::standard(), [9; 32]).unwrap();
        let text = if turned { format!("{mail}{glue}{key}") } else { format!("{key}{glue}{mail}") };
        let out = redactor.text(&text).into_inner();
        prop_assert_eq!(survives(&out, &user), None, "{} of {}", out, text);
        prop_assert_eq!(survives(&out, &tail), None, "{} of {}", out, text);
        // As the value behind a telling name as well, which is a finding around findings.
        let out = redactor.text(&format!("password={text}")).into_inner();
        prop_assert!(survives(&out, &user).is_none() && survives(&out, &tail).is_none(), "{} of {}", out, text);
    }
}
