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
    let normal = Normal::of(name);
    let words = Words::of(normal.text());
    let whole = words.joined.as_str();
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
    let mut letters = name
        .iter()
        .rev()
        .skip_while(|b| !b.is_ascii_alphabetic())
        .map(u8::to_ascii_lowercase)
        .filter(u8::is_ascii_alphanumeric);
    let (c, b, a) = (letters.next(), letters.next(), letters.next());
    match [a.unwrap_or_default(), b.unwrap_or_default(), c.unwrap_or_default()] {
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

/// The words of a name, in lower case.
struct Words {
    joined: String,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Words {
    fn of(name: &str) -> Words {
        let mut from = name.len().saturating_sub(LONGEST);
        while !name.is_char_boundary(from) {
            from += 1;
        }
        let mut words = Words { joined: String::with_capacity(LONGEST), starts: Vec::new() };
        let mut chars = name.get(from..).unwrap_or_default().chars().peekable();
        let (mut before, mut inside) = (' ', false);
        while let Some(c) = chars.next() {
            if !c.is_alphanumeric() {
                inside = false;
            } else {
                // `dbPassword` and `APIKey` are two words each.
                let lower_next = chars.peek().is_some_and(|next| next.is_lowercase());
                let hump = c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && lower_next));
                if !inside || hump {
                    words.starts.push(words.joined.len());
                }
                inside = true;
                words.joined.extend(c.to_lowercase());
            }
            before = c;
        }
        words.trim();
        words
    }

    /// Takes numbers and qualifiers off the end, as long as a word stays.
    fn trim(&mut self) {
        while let Some(start) = self.starts.last().copied() {
            let word = self.joined.get(start..).unwrap_or_default();
            let kept = word.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let is_qualifier = kept == 0 || word.get(..kept).is_some_and(|word| QUALIFIERS.contains(&word));
            self.joined.truncate(start + kept);
            if !is_qualifier || self.starts.len() < 2 {
                return;
            }
            self.starts.pop();
            self.joined.truncate(start);
        }
    }

    fn last(&self) -> &str {
        let start = self.starts.last().copied().unwrap_or_default();
        self.joined.get(start..).unwrap_or_default()
    }

    fn second_last(&self) -> &str {
        match self.starts.as_slice() {
            [.., start, end] => self.joined.get(*start..*end).unwrap_or_default(),
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
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
}
