//! Secrets that say what they are: keys and tokens of known shape, private key blocks, credentials behind their scheme.

use std::ops::Range;

use regex::Regex;

/// The compiled shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    secret: Regex,
}

/// Keys and tokens by shape.
const SECRET: &str = concat!(
    r"(?s)-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----|\z)",
    // Signed and encrypted web tokens.
    r"|\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,}){2,4}",
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.",
    // Clouds.
    r"|\b(?:A3T[A-Z0-9]|A[BKS]IA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA|APKA)[A-Z0-9]{16}\b",
    r"|\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}|\b1//0[A-Za-z0-9_-]{24,}",
    r"|\bdo[opr]_v1_[a-f0-9]{32,}|\bdapi[a-f0-9]{32}\b|\bhv[bsr]\.[A-Za-z0-9_-]{20,}|\btskey-[a-z]+-[A-Za-z0-9-]{16,}",
    r"|[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=[A-Za-z0-9%+/=_-]{20,}",
    // Code and its registries.
    r"|\bgh[oprsu]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"|\bgl(?:pat|dt|rt|ptt|ft|soat|oas|cbt|imt|agent)-[A-Za-z0-9_.-]{20,}",
    r"|\bnpm_[A-Za-z0-9]{36}|\bpypi-[A-Za-z0-9_-]{50,}|\bdckr_[a-z]{2,3}_[A-Za-z0-9_-]{20,}|\bATATT3[A-Za-z0-9_=-]{20,}",
    r"|\bsntry[su]_[A-Za-z0-9_=+/-]{30,}|\bglsa_[A-Za-z0-9_]{30,}|\blin_api_[A-Za-z0-9]{32,}|\bntn_[A-Za-z0-9]{32,}",
    // Messages and payments.
    r"|\bxox[abceoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{16,}|hooks\.slack\.com/services/[A-Za-z0-9/_]{20,}",
    r"|discord(?:app)?\.com/api/webhooks/[0-9]{8,}/[A-Za-z0-9_-]{20,}|\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    r"|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\bwhsec_[A-Za-z0-9+/=_-]{16,}|\bkey-[a-f0-9]{32}\b|\bSK[a-f0-9]{32}\b",
    r"|\bsq0[a-z]{3}-[A-Za-z0-9_-]{22,}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|\b[a-f0-9]{32}-us[0-9]{1,2}\b",
    // Models, and the many whose keys begin alike.
    r"|\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{2,12}[-_])*[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{30,}",
    r"|\b(?:gsk|r8|xai|pplx|fw|nvapi|sbp|pscale_[a-z]+|figd|PMAK|NRAK|tvly|lsv2_[a-z]{2})[-_][A-Za-z0-9_-]{24,}",
    r"|\bAGE-SECRET-KEY-1[A-Z0-9]{40,}",
    // Credentials behind their scheme.
    r"|\b(?i:bearer|basic)\s{1,3}[A-Za-z0-9._~+/=-]{8,}",
);

/// Fewest characters behind the name of a scheme, if nothing else says that they are credentials.
const TOKEN: usize = 16;

impl Shapes {
    /// Compiles the shapes.
    pub(super) fn new() -> Result<Shapes, regex::Error> {
        // Boundaries of words are those of ASCII: others would keep the regex engine from its automaton wherever a text
        // holds any other letter, and a key that is glued to an accented letter is one all the same.
        Ok(Shapes { secret: Regex::new(&SECRET.replace(r"\b", r"(?-u:\b)"))? })
    }

    /// Places of what has one of the shapes, ascending.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Range<usize>)) {
        self.secret.find_iter(text).filter(|m| is_meant(m.as_str())).for_each(|m| found(m.range()));
    }
}

/// Whether what has a shape is more than words that look alike: `basic responsibilities`, `pk_users_email_address`.
fn is_meant(found: &str) -> bool {
    let starts = |words: &[&str]| {
        words.iter().any(|word| found.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
    };
    if starts(&["bearer", "basic"]) {
        let token = found.split_ascii_whitespace().next_back().unwrap_or_default();
        return (token.len() >= TOKEN && is_opaque(token)) || is_user_and_password(token);
    }
    !starts(&["sk", "pk", "rk", "fw", "r8"]) || is_opaque(found)
}

/// Whether a text is no word: it holds a digit, or letters of both cases inside.
fn is_opaque(text: &str) -> bool {
    let inside = text.get(1..).unwrap_or_default();
    let has = |is: fn(&u8) -> bool| inside.as_bytes().iter().any(is);
    has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
}

/// Whether a text is a user's name and password in base64.
fn is_user_and_password(token: &str) -> bool {
    let plain = data_encoding::BASE64_NOPAD.decode(token.trim_end_matches('=').as_bytes()).unwrap_or_default();
    plain.contains(&b':') && plain.iter().all(|b| matches!(b, 0x20..=0x7e | 0x80..))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        Shapes::new().unwrap().find(text, |range| found.extend(text.get(range)));
        found
    }

    /// Shapes, with the length of what follows the part that tells them.
    const KEYS: [(&str, usize); 46] = [
        ("ghp_", 36),
        ("gho_", 36),
        ("ghs_", 36),
        ("ghu_", 36),
        ("ghr_", 36),
        ("github_pat_", 60),
        ("glpat-", 20),
        ("glrt-", 20),
        ("gldt-", 20),
        ("xoxb-", 40),
        ("xoxp-", 40),
        ("xapp-1-", 40),
        ("sk_live_", 24),
        ("sk_test_", 24),
        ("rk_live_", 24),
        ("pk_live_", 24),
        ("whsec_", 32),
        ("AIza", 35),
        ("ya29.", 60),
        ("GOCSPX-", 28),
        ("1//0", 60),
        ("sk-", 48),
        ("sk-proj-", 100),
        ("sk-ant-api03-", 90),
        ("sk-or-v1-", 64),
        ("gsk_", 52),
        ("xai-", 80),
        ("pplx-", 48),
        ("r8_", 37),
        ("hf_", 34),
        ("npm_", 36),
        ("pypi-", 160),
        ("dckr_pat_", 27),
        ("hvs.", 90),
        ("nvapi-", 64),
        ("figd_", 40),
        ("glsa_", 41),
        ("lin_api_", 40),
        ("ntn_", 46),
        ("sntrys_", 60),
        ("ATATT3", 180),
        ("tskey-auth-", 30),
        ("PMAK-", 59),
        ("sq0csp-", 43),
        ("sbp_", 40),
        ("NRAK-", 27),
    ];

    #[test]
    fn keys_of_known_shape_are_found_whole() {
        let tail = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8".repeat(8);
        for (head, length) in KEYS {
            let key = format!("{head}{}", &tail.get(..length).unwrap());
            assert_eq!(found(&format!("use {key}, then")), [&key]);
        }
        let hex = "0123456789abcdef".repeat(4);
        for (head, length) in [("dop_v1_", 64), ("dapi", 32), ("shpat_", 32), ("key-", 32), ("SK", 32)] {
            let key = format!("{head}{}", hex.get(..length).unwrap());
            assert_eq!(found(&format!("use {key}, then")), [&key]);
        }
        for key in [
            "AKIAIOSFODNN7EXAMPLE",
            "ASIAIOSFODNN7EXAMPLE",
            "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",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTY3ODkwIn0.",
            "123456789:AAF0sZ3g5hJk7lM9nP1qR2sT4uV6wX8yZ0a",
            "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
            "?sig=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6%3D",
            "Basic dXNlcjpwYXNz",
            "bearer 0123456789abcdef",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXktdjEA\\n-----END OPENSSH PRIVATE KEY-----",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQdGBF\n-----END PGP PRIVATE KEY BLOCK-----",
            "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIGl",
        ] {
            assert_eq!(found(key), [key]);
        }
    }

    #[test]
    fn words_that_look_alike_are_none() {
        for text in [
            "basic responsibilities of a bearer",
            "Basic authentication",
            "the bearer responsibilities-of-the-owner",
            "pk_users_email_address_unique",
            "sk-learn-something-or-other",
            "ghp_short eyJhbG.eyJ AKIAIOSFODNN7EXAMPL -----BEGIN PUBLIC KEY-----",
            "task-force-of-the-government1",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
