//! Sources, their order, and what is said of a value that cannot be used.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write;

use super::{read::bytes, *};

fn given(pairs: &[(&str, &str)]) -> Given {
    let mut given = Given::default();
    for (key, text) in pairs {
        assert!(given.set(key, *text), "{key}");
    }
    given
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn value(config: &Config, key: &str) -> (String, Origin) {
    let (_, text, origin) = config.origins.iter().find(|(k, _, _)| *k == key).unwrap();
    (text.clone(), origin.clone())
}

#[test]
fn every_default_reads_and_the_first_version_stays_on_loopback() {
    let config = Config::load(&Given::default(), [], None).unwrap();
    assert_eq!(config.settings, Settings::defaults());
    assert_eq!(config.settings.listen.to_string(), "127.0.0.1:50051");
    assert_eq!(config.settings.store_cache_bytes, 32 << 20);
    assert_eq!(config.settings.audit_durability, Durability::Disk);
    assert!(config.settings.check_exposure().is_ok());
    assert!(config.origins.iter().all(|(_, _, origin)| *origin == Origin::Default));
    // Each setting changes something: none is declared and then forgotten.
    assert_ne!(config.settings, unset());
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = file("listen = \"127.0.0.1:1\"\nmax-items = 5\nsession-ttl = \"1m\"\nlog = \"warn\"\n");
    let config = Config::load(
        &given(&[("listen", "127.0.0.1:3")]),
        environment(&[("PROBITY_LISTEN", "127.0.0.1:2"), ("PROBITY_MAX_ITEMS", "7"), ("HOME", "/root")]),
        Some(file.path()),
    )
    .unwrap();
    let from_file = Origin::File(file.path().to_owned());
    assert_eq!(value(&config, "listen"), ("127.0.0.1:3".to_owned(), Origin::Flag));
    assert_eq!(value(&config, "max-items"), ("7".to_owned(), Origin::Environment));
    assert_eq!(value(&config, "session-ttl"), ("1m".to_owned(), from_file.clone()));
    assert_eq!(value(&config, "log"), ("warn".to_owned(), from_file));
    assert_eq!(value(&config, "audit-queue").1, Origin::Default);
    assert_eq!(config.settings.max_items, 7);
    assert_eq!(config.settings.session_ttl, Duration::from_secs(60));
}

#[test]
fn what_cannot_be_read_says_where_it_stands_and_what_was_expected() {
    let say = |flags: &[(&str, &str)], env: &[(&str, &str)], text: &str| {
        let file = file(text);
        let error = Config::load(&given(flags), environment(env), Some(file.path())).unwrap_err();
        error.to_string().replace(&file.path().display().to_string(), "FILE")
    };
    assert_eq!(
        say(&[("listen", "nowhere")], &[], ""),
        "`nowhere` for --listen is not an address and port such as 127.0.0.1:50051"
    );
    assert_eq!(
        say(&[], &[("PROBITY_MAX_ITEMS", "0")], ""),
        "`0` for PROBITY_MAX_ITEMS is not a whole number from 1 to 268435456"
    );
    assert_eq!(
        say(&[], &[], "session-ttl = \"soon\""),
        "`soon` for `session-ttl` in FILE is not a time span such as 10s, 250ms or 30m"
    );
    assert_eq!(
        say(&[("session-ttl", "-5s")], &[], ""),
        "`-5s` for --session-ttl is not a time span such as 10s, 250ms or 30m"
    );
    assert_eq!(
        say(&[], &[], "max-message-bytes = [4]"),
        "`[4]` for `max-message-bytes` in FILE is not a number of bytes such as 65536, 64KiB or 4MiB"
    );
    assert_eq!(
        say(&[], &[], "audit-durability = \"never\""),
        "`never` for `audit-durability` in FILE is not one of disk, process, async"
    );
    assert_eq!(say(&[], &[], "lisen = 1"), "FILE: unknown setting `lisen`; did you mean `listen`?");
    assert_eq!(say(&[], &[], "colour = 1"), "FILE: unknown setting `colour`");
    assert!(say(&[], &[], "listen = ").starts_with("FILE: TOML parse error at line 1"));
}

#[test]
fn a_misspelt_variable_is_noticed_and_a_strange_one_is_not() {
    let names = [("PROBITY_LISTN", "x"), ("PROBITY_SERVICE_HOST", "x"), ("PROBITY_TRACES", "x")];
    let config = Config::load(&Given::default(), environment(&names), None).unwrap();
    let near = "PROBITY_LISTEN".to_owned();
    assert_eq!(config.unknown_variables, [UnknownVariable { name: "PROBITY_LISTN".to_owned(), near }]);
}

#[test]
fn a_public_address_needs_a_word() {
    let exposed = |flags: &[(&str, &str)]| Config::load(&given(flags), [], None).unwrap().settings.check_exposure();
    assert!(matches!(exposed(&[("listen", "0.0.0.0:1")]), Err(ConfigError::Public { .. })));
    assert!(matches!(exposed(&[("listen", "[::]:1")]), Err(ConfigError::Public { .. })));
    assert!(exposed(&[("listen", "0.0.0.0:1"), ("insecure", "true")]).is_ok());
    assert!(exposed(&[("listen", "[::1]:1")]).is_ok());
    assert!(exposed(&[("listen", "localhost:1")]).is_ok());
}

#[test]
fn sizes_have_units() {
    assert_eq!(bytes("65536"), Ok(65536));
    assert_eq!(bytes("64KiB"), Ok(65536));
    assert_eq!(bytes("1 GiB"), Ok(1 << 30));
    for bad in ["", "0", "-1", "4MB", "99999999999GiB"] {
        assert_eq!(bytes(bad), Err(Expected::Bytes), "{bad}");
    }
}

#[test]
fn the_limits_of_a_session_have_ends() {
    let config = Config::load(&given(&[("max-look-back", "1000")]), [], None).unwrap();
    assert_eq!(config.settings.limits, Limits { look_back: 1000, ..Limits::most() });
    for (text, key) in [("0", "max-openings"), ("4097", "max-look-back"), ("many", "max-session-tokens")] {
        let error = Config::load(&given(&[(key, text)]), [], None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{text}` for --{key} is not a whole number from 1 to ")), "{error}");
    }
}

#[test]
fn pins_are_names_and_digests() {
    let digest = |n: &str| crate::model::Digest::from_hex(&n.repeat(32)).unwrap();
    let text = format!("airline={}, desk = {},", "0a".repeat(32), "0B".repeat(32));
    let config = Config::load(&given(&[("rules-digest", &text)]), [], None).unwrap();
    let pin = |pack: &str, n| Pin { pack: pack.to_owned(), digest: digest(n) };
    assert_eq!(config.settings.rules_digest, [pin("airline", "0a"), pin("desk", "0b")]);
    for bad in ["airline", "airline=0a", "=0a", &format!("={}", "0a".repeat(32))] {
        let error = Config::load(&given(&[("rules-digest", bad)]), [], None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{bad}` for --rules-digest is not NAME=DIGEST")), "{error}");
    }
}
