//! Secrets by their names, their shapes and their places: each way in which one came through is a row here.

use probity::{
    model::json as json_text,
    redact::{Redactor, Rules},
};
use proptest::prelude::*;

const SECRET: &str = "[REDACTED:SECRET]";

fn redactor() -> Redactor {
    Redactor::new(Rules::standard(), [5; 32]).unwrap()
}

/// A value, redacted; and it must come out of a second time as it went in.
fn value(text: &str) -> String {
    let redactor = redactor();
    let once = redactor.value(&json_text::parse(text.as_bytes()).unwrap()).into_inner();
    assert_eq!(redactor.value(&once).into_inner(), once, "{text}");
    let payload = redactor.payload(&json_text::parse(text.as_bytes()).unwrap()).into_inner();
    assert_eq!(redactor.payload(&payload).into_inner(), payload, "{text}");
    once.to_string()
}

fn text(text: &str) -> String {
    let redactor = redactor();
    let once = redactor.text(text).into_inner();
    assert_eq!(redactor.text(&once).into_inner(), once, "{text}");
    once
}

#[test]
fn what_stands_under_the_name_of_a_secret_goes_as_a_whole() {
    for (from, to) in [
        (r#"{"password":"hunter22"}"#, r#"{"password":"$"}"#),
        (r#"{"a":{"dbPassword":"x"}}"#, r#"{"a":{"dbPassword":"$"}}"#),
        (r#"{"api_key":"two words"}"#, r#"{"api_key":"$"}"#),
        (r#"{"token":12345678}"#, r#"{"token":"$"}"#),
        (r#"{"access_token":["abcd","efgh"]}"#, r#"{"access_token":"$"}"#),
        (r#"{"secret":{"x":{"y":"deep"}}}"#, r#"{"secret":"$"}"#),
        (r#"{"Set-Cookie":"sid=abcd; Path=/"}"#, r#"{"Set-Cookie":"$"}"#),
        (r#"{"Authorization":"Basic dXNlcjpwYXNz"}"#, r#"{"Authorization":"$"}"#),
        (r#"{"PWD":"hunter22"}"#, r#"{"PWD":"$"}"#),
        ("{\"pass\u{200b}word\":\"hunter22\"}", "{\"pass\u{200b}word\":\"$\"}"),
        // A name and a value side by side.
        (r#"{"name":"password","value":"hunter22"}"#, r#"{"name":"password","value":"$"}"#),
        (r#"{"key":"API_KEY","value":12345}"#, r#"{"key":"API_KEY","value":"$"}"#),
        (r#"{"header":"Cookie","content":["abcd"]}"#, r#"{"content":"$","header":"Cookie"}"#),
        (r#"["--password","hunter22","-v"]"#, r#"["--password","$","-v"]"#),
        (r#"[["Authorization","Bearer abcd"]]"#, r#"[["Authorization","$"]]"#),
        // JSON in a string, as a whole and among other words.
        (r#"{"said":"{\"password\":\"hunter22\"}"}"#, r#"{"said":"{\"password\":\"$\"}"}"#),
        (r#"{"said":"it was {\"password\": \"a b\"}!"}"#, r#"{"said":"it was {\"password\": \"$\"}!"}"#),
    ] {
        assert_eq!(value(from), to.replace('$', SECRET), "{from}");
    }
}

#[test]
fn counts_answers_and_folders_stay() {
    for stays in [
        r#"{"max_tokens":4096000,"token_count":99999,"tokens":1234567}"#,
        r#"{"usage":{"completion_tokens":12345,"total_tokens":123456}}"#,
        r#"{"next_page_token":"abcdefgh","token_type":"bearer"}"#,
        r#"{"password":null,"secret":true,"token":12}"#,
        r#"{"credentials":{},"passwords":[],"secret":""}"#,
        r#"{"pwd":"/home/jane"}"#,
        r#"{"name":"color","value":"hunter22"}"#,
        r#"["username","colour"]"#,
        r#"["-v","hunter22"]"#,
        r#"{"public_key":"hunter22","secretary":"hunter22"}"#,
    ] {
        assert_eq!(value(stays), stays);
    }
}

#[test]
fn a_detector_that_is_not_asked_for_does_not_look_at_names() {
    let rules = Rules { detectors: vec![probity::redact::Detector::Email], ..Rules::standard() };
    let said = json_text::parse(br#"{"password":"hunter22"}"#).unwrap();
    assert_eq!(Redactor::new(rules, [5; 32]).unwrap().value(&said).into_inner(), said);
}

#[test]
fn the_words_of_a_pack_are_no_values() {
    for own in ["[gone]", "<a secret>", "***hidden***", "GONE"] {
        let replacements = [(probity::redact::Detector::Secret, own.to_owned())].into();
        let redactor = Redactor::new(Rules { replacements, ..Rules::standard() }, [5; 32]).unwrap();
        for said in
            ["password=hunter22", "\"token\": \"two words\".", "{\"secret\":\"hunter22\"}", "--password hunter22"]
        {
            let once = redactor.text(said).into_inner();
            assert!(once.contains(own) && !once.contains("hunter22"), "{once} of {said}, {own}");
            assert_eq!(redactor.text(&once).into_inner(), once);
        }
    }
}

#[test]
fn values_behind_names_in_a_text_go_and_the_names_stay() {
    for (from, to) in [
        ("db_password=hunter22", "db_password=$"),
        ("SECRET_KEY=abcdefgh", "SECRET_KEY=$"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=$"),
        ("export CLIENT_SECRET='a b c d' && x", "export CLIENT_SECRET='$' && x"),
        ("client_secret: \"two words\", refresh_token=abc123", "client_secret: \"$\", refresh_token=$"),
        ("pw: geheim12 and pass=geheim", "pw: $ and pass=$"),
        ("password\u{ff1a}hunter22", "password\u{ff1a}$"),
        ("password=hunter%20two22 next", "password=$ next"),
        ("\"password\": \"correct horse \\\" battery\"", "\"password\": \"$\""),
        ("(password=hunter22), [token: abcdef12].", "(password=$), [token: $]."),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: $"),
        ("-H 'Authorization: Digest username=\"Mufasa\", realm=\"x\"'", "-H 'Authorization: Digest $"),
        ("-H \"Authorization: Bearer abcdefghijkl\" x", "-H \"Authorization: Bearer $\" x"),
        ("Cookie: session=abc123; theme=dark", "Cookie: $"),
        ("https://user:p%40ss@10.0.0.1/x", "https://user:$@[REDACTED:IP]/x"),
        ("redis://:hunter22@cache:6379/0", "redis://:[REDACTED:EMAIL]:6379/0"),
        ("https://x.example/?token=abc123def&x=1", "https://x.example/?token=$&x=1"),
        (
            "EndpointsProtocol=https;AccountKey=Eby8vdM02xNOcqFlqU==;Suffix=x",
            "EndpointsProtocol=https;AccountKey=$;Suffix=x",
        ),
        ("mysql --password hunter22 --user jo", "mysql --password $ --user jo"),
        ("<password>hunter22</password> <a:token>x y</a:token>", "<password>$</password> <a:token>$</a:token>"),
        ("config[\"password\"] = \"hunter22\"", "config[\"password\"] = \"$\""),
        ("password: str = \"hunter22\"", "password: str = \"$\""),
        ("password => 'hunter22' password := \"hunter22\"", "password => '$' password := \"$\""),
        ("**Password:** hunter22", "**Password:** $"),
        ("password:\n  hunter22", "password:\n  $"),
        ("{\\\"password\\\":\\\"hunter22\\\"}", "{\\\"password\\\":\\\"$\\\"}"),
        ("so {\"name\": \"password\", \"value\": \"hunter22\"}", "so {\"name\": \"password\", \"value\": \"$\"}"),
        ("passwords: [\"a b\", \"c d\"] and", "passwords: $ and"),
        ("password = b'hunter22'", "password = b'$'"),
        ("the password is hunter22, the token was \"ab c\"", "the password is $, the token was \"$\""),
        ("password=[REDACTED:EMAIL]x99y", "password=$"),
    ] {
        assert_eq!(text(from), to.replace('$', SECRET), "{from}");
    }
}

#[test]
fn words_about_secrets_stay() {
    for stays in [
        "token=<your token>, curl --token $TOKEN",
        "The token: it is what we use. Your secret: the garden. Password: required. Cookie: yes please",
        "tokens: 123456, token_count=12345, max_tokens: 4096",
        "Authorization: required for this. authorization: pending",
        "hunter: password, token, secret. The password is required, the password is 8-character",
        "cd $HOME; PWD=/home/jane; see http://localhost:8080/@scope/pkg and https://x.example/@jane",
        "pass: all, fail: none; pin: yes; otp: sent",
        "note: name: value; key: 12; name: password reset",
        "https://user:<password>@host:80/x ran with --password-file /etc/x --token -v",
        "<token>",
        "password",
        "password=",
        "password: \"\"",
    ] {
        assert_eq!(text(stays), stays);
    }
}

#[test]
fn what_is_invisible_or_set_apart_hides_nothing() {
    for (from, to) in [
        ("4111\u{200b}1111\u{200b}1111\u{ad}1111", "[REDACTED:CARD]"),
        ("4111  1111  1111  1111", "[REDACTED:CARD]"),
        ("4111.1111.1111.1111", "[REDACTED:CARD]"),
        ("4111\u{2013}1111\u{2013}1111\u{2013}1111", "[REDACTED:CARD]"),
        ("4111\u{a0}1111\u{202f}1111\u{2009}1111", "[REDACTED:CARD]"),
        ("４１１１１１１１１１１１１１１１", "[REDACTED:CARD]"),
        ("٤١١١١١١١١١١١١١١١", "[REDACTED:CARD]"),
        ("4111111111111111.0", "[REDACTED:CARD].0"),
        ("DE89\u{2066}3704\u{200d}0044\u{200b}0532\u{feff}0130\u{200f}00", "[REDACTED:IBAN]"),
        ("DE89  3704-0044\u{2013}0532 0130 00", "[REDACTED:IBAN]"),
        ("AKIA\u{200b}IOSFODNN7\u{ad}EXAMPLE", SECRET),
        ("ＡＫＩＡＩＯＳＦＯＤＮＮ７ＥＸＡＭＰＬＥ", SECRET),
        ("pass\u{200b}word=hunter22", "pass\u{200b}word=[REDACTED:SECRET]"),
        ("10\u{200b}.0.0[.]1", "[REDACTED:IP]"),
        ("jo=40corp.example", "[REDACTED:EMAIL]"),
        ("jo\\u0040corp.example", "[REDACTED:EMAIL]"),
        ("jo%2540corp.example", "[REDACTED:EMAIL]"),
        ("004930901820", "[REDACTED:PHONE]"),
        ("0014155550132", "[REDACTED:PHONE]"),
    ] {
        assert_eq!(text(from), to, "{from}");
    }
    for stays in ["0000123456789", "3.14159265358979", "id 0049309018", "width=40px", "key=40corp"] {
        assert_eq!(text(stays), stays);
    }
}

/// A secret of any kind, as it is written, and what of it must not survive.
fn secret() -> impl Strategy<Value = (String, String)> {
    let luhn = |digits: &str| {
        let sum: u32 = digits
            .chars()
            .rev()
            .enumerate()
            .map(|(i, c)| {
                let digit = c.to_digit(10).unwrap() * if i % 2 == 0 { 2 } else { 1 };
                digit / 10 + digit % 10
            })
            .sum();
        format!("{digits}{}", (10 - sum % 10) % 10)
    };
    let bank = |account: &str| {
        let rest = format!("{account}131400").bytes().fold(0_u64, |n, b| (n * 10 + u64::from(b - b'0')) % 97);
        format!("DE{:02}{account}", 98 - rest)
    };
    prop_oneof![
        "4[0-9]{14}".prop_map(move |digits| luhn(&digits)),
        "[0-9]{18}".prop_map(move |account| bank(&account)),
        "AKIA[A-Z0-9]{16}",
        "ghp_[A-Za-z0-9]{36}",
        "glpat-[A-Za-z0-9]{20}",
        "\\+49 30 [1-9][0-9]{6}",
        "[a-z]{5,9}@corp\\.example",
    ]
    .prop_map(|secret| (secret.clone(), secret.split_once('@').map_or(secret.clone(), |(user, _)| user.to_owned())))
}

/// Ways to put something between the characters of a secret that a reader does not see.
const HIDDEN: [&str; 6] = ["\u{200b}", "\u{ad}", "\u{2060}", "\u{200e}", "\u{2066}", "&#8203;"];

fn survives(out: &str, secret: &str) -> Option<String> {
    let hidden = |text: &str| HIDDEN.iter().fold(text.to_owned(), |text, hidden| text.replace(hidden, ""));
    let (seen, secret) = (hidden(out), secret.chars().collect::<Vec<_>>());
    secret.windows(4).map(|run| run.iter().collect::<String>()).find(|run| seen.contains(run))
}

/// Names of secrets, and signs behind them.
const NAMES: [&str; 9] = [
    "password",
    "db_password",
    "API_KEY",
    "clientSecret",
    "aws.secret-access-key",
    "refresh_token",
    "passphrase",
    "pass\u{200b}word",
    "ｓｅｃｒｅｔ",
];

proptest! {
    #[test]
    fn no_run_of_a_secret_survives_invisible_characters(
        (secret, part) in secret(), every in 1_usize..6, hidden in prop::sample::select(&HIDDEN[..]),
    ) {
        let written: String = secret
            .chars()
            .enumerate()
            .flat_map(|(i, c)| [Some(c.to_string()), (i % every == 0).then(|| hidden.to_owned())])
            .flatten()
            .collect();
        let out = text(&format!("take {written} now"));
        prop_assert_eq!(survives(&out, &part), None, "{} of {}", out, written);
    }

    #[test]
    fn no_run_of_a_value_survives_behind_a_name(
        name in prop::sample::select(&NAMES[..]), sign in "[:=] ?| => |: str = ",
        quoted in "[a-z0-9 ,;:=_-]{4,20}", quote in "[\"'`]", plain in "[A-Za-z0-9!@#$%^*/+=_-]{5,20}[0-9]".prop_filter("a sign", |value| !value.starts_with("=")),
    ) {
        let out = text(&format!("x {name}{sign}{quote}{quoted}{quote} y"));
        if !quoted.trim().is_empty() {
            prop_assert!(out.starts_with("x ") && out.ends_with(" y") && out.contains("[REDACTED:"), "{}", out);
            prop_assert!(!out.contains(&quoted), "{}", out);
        }
        if !sign.contains("str") {
            let out = text(&format!("x {name}{sign}{plain} y"));
            prop_assert_eq!(survives(&out, &plain), None, "{}", out);
        }
    }

    #[test]
    fn no_run_of_a_value_survives_under_a_name(
        name in prop::sample::select(&NAMES[..]), secret in "\\PC{4,20}", number in 1000_u64..,
        layers in 0_usize..4, shape in 0_usize..5,
    ) {
        let secret = format!("q7{secret}");
        let hidden = match shape {
            0 => serde_json::json!({ name: secret }),
            1 => serde_json::json!({ name: [[secret], {"a": secret}] }),
            2 => serde_json::json!({ "key": name, "value": secret }),
            3 => serde_json::json!([name, secret]),
            _ => serde_json::json!({ name: number }),
        };
        let mut said = hidden.to_string();
        for _ in 0..layers {
            said = serde_json::json!({"note": [said, true]}).to_string();
        }
        let out = value(&said);
        let secret = if shape < 4 { secret } else { number.to_string() };
        let written = serde_json::Value::from(out.as_str()).to_string();
        prop_assert!(!out.contains(&secret) && !written.contains(&secret), "{} of {}", out, said);
    }

    #[test]
    fn any_value_is_redacted_once_and_for_all(
        pieces in prop::collection::vec(
            prop::sample::select(&[
                "password", "token", "=", ":", " ", "\"", "'", "hunter22", "[", "]", "{", "}", "--", "//", "@", "/", "<",
                ">", "is ", "\\", "key", "value", ",", "%20", "\u{200b}", "[REDACTED:SECRET]", "Basic ", "1", "Cookie",
                "a.b", "\n", "4111111111111111", "$", "name",
            ][..]),
            0..24,
        ),
    ) {
        text(&pieces.concat());
    }
}
