//! Names that announce a secret: of a field in a parsed value, of a setting, a header or a flag in a text.
//!
//! A name is read as words, whatever its spelling (`db_password`, `dbPassword`, `DB-PASSWORD`), and its last ones
//! decide: `client_secret` announces one, `token_count` and `max_tokens` do not.

use super::normal::Normal;

/// Longest name that is looked at, in bytes: of a longer one, the end.
pub(super) const LONGEST: usize = 64;

/// What a name announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// A secret, whatever it looks like.
    Secret,
    /// A secret if it looks like one: the name is an ordinary word too.
    Opaque,
    /// The cookies of a header.
    Cookies,
    /// A password, or the folder where a shell stands.
    Folder,
}

/// What the joined words of a name may end in.
const ENDINGS: [&str; 25] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passphrases",
    "passcode",
    "dbpass",
    "secret",
    "secrets",
    "clientsecrets",
    "seedphrase",
    "recoveryphrase",
    "recoverycode",
    "recoverycodes",
    "backupcode",
    "backupcodes",
    "keypassphrase",
    "credential",
    "credentials",
    "accesstokens",
    "refreshtokens",
    "authtokens",
    "apitokens",
    "bearertokens",
    "sessiontokens",
];

/// What makes the key behind it a secret one.
const KEYS: [&str; 16] = [
    "api",
    "secret",
    "private",
    "access",
    "account",
    "shared",
    "encryption",
    "decryption",
    "signing",
    "master",
    "auth",
    "ssh",
    "hmac",
    "webhook",
    "service",
    "subscription",
];

/// Tokens that are a place in a list, a piece of text, or counted.
const NO_SECRET_TOKENS: [&str; 20] = [
    "next",
    "page",
    "continuation",
    "sync",
    "cursor",
    "start",
    "end",
    "stop",
    "pad",
    "eos",
    "bos",
    "unk",
    "mask",
    "sep",
    "cls",
    "special",
    "per",
    "first",
    "last",
    "each",
];

/// Words behind a name that leave its meaning.
const QUALIFIERS: [&str; 15] = [
    "value",
    "confirmation",
    "confirm",
    "again",
    "repeat",
    "raw",
    "pem",
    "b",
    "base",
    "new",
    "old",
    "current",
    "string",
    "str",
    "plain",
];

/// What a name announces, if a secret.
pub(super) fn announced(name: &str) -> Option<Announced> {
    if !may_announce(name.as_bytes()) && name.is_ascii() {
        return None;
    }
    let words = match name.is_ascii() {
        true => Words::of(name.as_bytes()),
        false => Words::of(Normal::of(name).bytes()),
    };
    let whole = words.joined();
    if whole.len() < 2 {
        return None;
    }
    let last = words.last();
    match last {
        "pwd" | "oldpwd" => return Some(Announced::Folder),
        "cookie" | "cookies" => return Some(Announced::Cookies),
        "pw" | "jwt" | "psk" => return Some(Announced::Secret),
        "pass" | "pin" | "otp" | "cvv" | "cvc" | "bearer" => return Some(Announced::Opaque),
        _ => {}
    }
    if whole.ends_with("authorization") {
        return Some(Announced::Opaque);
    }
    if whole.ends_with("token") {
        let counted = last == "token" && NO_SECRET_TOKENS.contains(&words.second_last());
        return (!counted).then_some(Announced::Secret);
    }
    let key = whole.strip_suffix("keys").or_else(|| whole.strip_suffix("key"));
    if key.is_some_and(|before| KEYS.iter().any(|kind| before.ends_with(kind))) {
        return Some(Announced::Secret);
    }
    if whole.ends_with("cookie") {
        return Some(Announced::Cookies);
    }
    ENDINGS.iter().any(|ending| whole.ends_with(ending)).then_some(Announced::Secret)
}

/// Whether a name's last letters are those of one that announces anything: most are not.
pub(super) fn may_announce(name: &[u8]) -> bool {
    match name.last_chunk::<3>() {
        Some(last) if last.iter().all(u8::is_ascii_alphabetic) => may_end(last.map(|b| b | 0x20)),
        _ => may_end(last_letters(name)),
    }
}

/// The last three letters of a name, and digits before letters, in lower case, whatever stands between them.
fn last_letters(name: &[u8]) -> [u8; 3] {
    let mut letters = name
        .iter()
        .rev()
        .skip_while(|b| !b.is_ascii_alphabetic())
        .map(u8::to_ascii_lowercase)
        .filter(u8::is_ascii_alphanumeric);
    let (c, b, a) = (letters.next(), letters.next(), letters.next());
    [a.unwrap_or_default(), b.unwrap_or_default(), c.unwrap_or_default()]
}

/// Whether a letter is the last one of a name that announces anything.
fn may_be_last(letter: u8) -> bool {
    !matches!(letter | 0x20, b'a' | b'f' | b'h' | b'i' | b'j' | b'o' | b'q' | b'u' | b'x' | b'z')
}

fn may_end(letters: [u8; 3]) -> bool {
    match letters {
        // Password, passwd, pwd, passphrase, passcode, secret, key, token, credential, authorization, cookie.
        [b'o', b'r', b'd'] | [b's', b'w', b'd'] | [b'p', b'w', b'd'] | [b'a', b's', b'e'] | [b'o', b'd', b'e'] => true,
        [b'r', b'e', b't'] | [b'k', b'e', b'y'] | [b'k', b'e', b'n'] | [b'i', b'a', b'l'] | [b'i', b'o', b'n'] => true,
        [b'k', b'i', b'e'] | [b'a', b's', b's'] | [b'r', b'e', b'r'] => true,
        // The same, many of them.
        [b'r', b'd', b's'] | [b's', b'e', b's'] | [b'd', b'e', b's'] | [b'e', b't', b's'] | [b'e', b'y', b's'] => true,
        [b'e', b'n', b's'] | [b'a', b'l', b's'] | [b'i', b'e', b's'] => true,
        // The short ones.
        [_, b'p', b'w'] | [b'j', b'w', b't'] | [b'p', b's', b'k'] | [b'p', b'i', b'n'] | [b'o', b't', b'p'] => true,
        [b'c', b'v', b'v' | b'c'] => true,
        // Words behind them.
        [b'l', b'u', b'e'] | [b'i', b'r', b'm'] | [b'a', b'i', b'n'] | [b'e', b'a', b't'] | [b'r', b'a', b'w'] => true,
        [b'p', b'e', b'm'] | [_, _, b'b'] | [b'n', b'e', b'w'] | [b'o', b'l', b'd'] | [b'e', b'n', b't'] => true,
        [b'i', b'n', b'g'] | [b's', b't', b'r'] => true,
        _ => false,
    }
}

/// Whether a name may end with a text that announces anything, as its last bytes tell: the letters of most do not. One
/// letter is no name.
pub(super) fn may_be_named(text: &[u8]) -> bool {
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    match text.get(..text.len() - digits).unwrap_or_default() {
        [.., a, b, c] if [a, b, c].into_iter().all(u8::is_ascii_alphabetic) => {
            may_announce(&[*a, *b, *c]) || (digits == 0 && may_pair(&[*a, *b, *c]))
        }
        [.., b, c] if c.is_ascii_alphabetic() => may_be_last(*c) && (is_of_name(*b) || *b == b' '),
        // No letter stands before the digits.
        [] => false,
        [.., c] => digits == 0 || is_of_name(*c) || *c == b' ',
    }
}

/// Whether a name's last letters are those of one half of a pair.
pub(super) fn may_pair(name: &[u8]) -> bool {
    const ENDS: [&[u8; 3]; 12] =
        [b"ame", b"key", b"der", b"eld", b"ble", b"env", b"ram", b"ter", b"lue", b"val", b"ent", b"ult"];
    let last = name.last_chunk::<3>().map(|last| last.map(|b| b.to_ascii_lowercase()));
    last.is_some_and(|last| ENDS.contains(&&last) || last == *b"ata")
}

/// Whether a field of that name holds the name of what stands beside it.
pub(super) fn is_name(name: &str) -> bool {
    ["name", "key", "header", "field", "variable", "env", "param", "parameter"]
        .iter()
        .any(|n| name.eq_ignore_ascii_case(n))
}

/// Whether a field of that name holds what another one names.
pub(super) fn is_value(name: &str) -> bool {
    ["value", "val", "content", "data", "default"].iter().any(|n| name.eq_ignore_ascii_case(n))
}

/// What a name may consist of.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | 0x80..)
}

/// The end of a part of a text that only names have, and the blanks between their words.
pub(super) fn name_in(part: &[u8]) -> &[u8] {
    let other = part.iter().rposition(|b| !is_of_name(*b) && *b != b' ');
    part.get(other.map_or(0, |other| other + 1)..).unwrap_or_default()
}

/// The words of a name, in lower case.
struct Words {
    joined: [u8; LONGEST],
    length: usize,
    /// Where words begin, a bit each.
    starts: u64,
}

impl Words {
    /// The words of a name's end. What is no ASCII letter or digit sets words apart: no name that is known has any.
    fn of(name: &[u8]) -> Words {
        let name = name.get(name.len().saturating_sub(LONGEST)..).unwrap_or_default();
        let mut words = Words { joined: [0; LONGEST], length: 0, starts: 0 };
        let mut before = b' ';
        for (i, byte) in name.iter().enumerate() {
            if byte.is_ascii_alphanumeric() {
                // `dbPassword` and `APIKey` are two words each.
                let lower_next = name.get(i + 1).is_some_and(u8::is_ascii_lowercase);
                let hump = byte.is_ascii_uppercase()
                    && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && lower_next));
                if !before.is_ascii_alphanumeric() || hump {
                    words.starts |= 1 << words.length;
                }
                if let Some(place) = words.joined.get_mut(words.length) {
                    *place = byte.to_ascii_lowercase();
                    words.length += 1;
                }
            }
            before = *byte;
        }
        words.trim();
        words
    }

    fn start(&self, below: usize) -> Option<usize> {
        let starts = self.starts & (1_u64.checked_shl(u32::try_from(below).ok()?).unwrap_or_default()).wrapping_sub(1);
        (starts != 0).then(|| 63 - starts.leading_zeros() as usize)
    }

    fn part(&self, range: std::ops::Range<usize>) -> &str {
        self.joined.get(range).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
    }

    fn joined(&self) -> &str {
        self.part(0..self.length)
    }

    fn last(&self) -> &str {
        self.part(self.start(self.length).unwrap_or_default()..self.length)
    }

    fn second_last(&self) -> &str {
        let last = self.start(self.length).unwrap_or_default();
        self.start(last).map_or("", |start| self.part(start..last))
    }

    /// Takes numbers and qualifiers off the end, as long as a word stays.
    fn trim(&mut self) {
        while let Some(start) = self.start(self.length) {
            let word = self.part(start..self.length).trim_end_matches(|c: char| c.is_ascii_digit());
            let (kept, is_qualifier) = (word.len(), word.is_empty() || QUALIFIERS.contains(&word));
            if !is_qualifier || self.start(start).is_none() {
                self.length = start + kept;
                return;
            }
            self.length = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_secrets_however_they_are_spelled() {
        for name in [
            "password",
            "Password",
            "PASSWORD",
            "db_password",
            "dbPassword",
            "DB-PASSWORD",
            "user.password",
            "password1",
            "password_2",
            "new_password",
            "passwordConfirmation",
            "pass\u{200b}word",
            "ｐａｓｓｗｏｒｄ",
            "passwords",
            "passwd",
            "root_passwd",
            "passphrase",
            "passcode",
            "secret",
            "client_secret",
            "clientSecret",
            "SECRET_KEY",
            "secretKey",
            "AWS_SECRET_ACCESS_KEY",
            "aws-secret-access-key",
            "api_key",
            "apiKey",
            "apikey",
            "APIKey",
            "X-API-Key",
            "api_keys",
            "token",
            "access_token",
            "accessToken",
            "backend_token",
            "developerToken",
            "refresh_token",
            "id_token",
            "csrf-token",
            "X-Auth-Token",
            "auth_tokens",
            "privateKey",
            "private_key_pem",
            "AccountKey",
            "SharedAccessKey",
            "credentials",
            "aws_credentials",
            "token_value",
            "recovery codes",
            "pw",
            "jwt",
        ] {
            assert_eq!(announced(name), Some(Announced::Secret), "{name}");
        }
        for (name, what) in [
            ("pass", Announced::Opaque),
            ("DB_PASS", Announced::Opaque),
            ("pin", Announced::Opaque),
            ("Authorization", Announced::Opaque),
            ("proxy-authorization", Announced::Opaque),
            ("cvv2", Announced::Opaque),
            ("cookie", Announced::Cookies),
            ("Set-Cookie", Announced::Cookies),
            ("PWD", Announced::Folder),
        ] {
            assert_eq!(announced(name), Some(what), "{name}");
        }
    }

    #[test]
    fn counts_and_other_words_are_no_names_of_secrets() {
        for name in [
            "tokens",
            "token_count",
            "max_tokens",
            "maxTokens",
            "total_tokens",
            "prompt_tokens",
            "next_page_token",
            "nextToken",
            "eos_token",
            "token_type",
            "password_length",
            "passwordless",
            "secretary",
            "secret_name",
            "public_key",
            "primary_key",
            "key",
            "keys",
            "monkey",
            "compass",
            "bypass",
            "spin",
            "cookie_consent",
            "decision",
            "reasoning",
            "value",
            "name",
            "",
            "1",
            "_",
            "prior_authorizations",
            "passenger",
            "ass",
        ] {
            assert_eq!(announced(name), None, "{name}");
        }
    }

    #[test]
    fn each_end_of_a_name_has_a_letter_that_is_known_as_a_last_one() {
        let letters = || (b'0'..=b'z').filter(u8::is_ascii_alphanumeric).chain([0]);
        for (a, b, c) in letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| (a, b, c)))) {
            assert!(!may_end([a, b, c]) || may_be_last(c), "{}", char::from(c));
        }
    }

    proptest! {
        #[test]
        fn a_text_that_is_passed_over_ends_with_no_name(
            text in "([a-z]{1,3}|[_. :-]|[0-9]|A|é|to|ken|pass|word|api|key|pin|jwt|raw|b|value|name|default){0,8}",
        ) {
            if !may_be_named(text.as_bytes()) {
                let starts = text.char_indices().map(|(start, _)| start);
                for name in starts.filter_map(|start| text.get(start..)) {
                    let of_name = name.bytes().all(|b| is_of_name(b) || b == b' ');
                    let last = name.rsplit(' ').next().unwrap_or_default();
                    prop_assert!(!of_name || announced(name).is_none(), "{}", name);
                    prop_assert!(!of_name || !(is_name(last) || is_value(last)), "{}", name);
                }
            }
        }
    }
}
