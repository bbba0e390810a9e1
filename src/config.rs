//! Settings of the server: flag over environment over file over default, each with where it came
//! from. Every limit of the service lives here.
//!
//! [`SETTINGS`] is the one table: it gives the flag (`--audit-queue`), the environment variable
//! (`PROBITY_AUDIT_QUEUE`), the key in the TOML file (`audit-queue`), the default, and how the text
//! becomes a value.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// Where the service listens if nobody says otherwise, and where the client looks for it.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";

/// The settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Folder with one folder per rule pack.
    pub rules: PathBuf,
    /// Folder of the audit store.
    pub data: PathBuf,
    /// Where the service listens.
    pub listen: SocketAddr,
    /// Serve on an address that others can reach, without TLS and authentication.
    pub insecure: bool,
    /// Threads that serve calls; 1 is a runtime without work stealing, 0 stands for one per core, or for
    /// 1 where there are no more than two cores.
    pub threads: usize,
    /// Bytes of the largest request.
    pub max_message_bytes: usize,
    /// Items in one `Observe` request, episodes in one `ScoreEpisodes` request.
    pub max_items: usize,
    /// Calls and streams in progress; one more is refused.
    pub max_calls: usize,
    /// Requests of one stream that may wait for their record to be stored.
    pub stream_window: usize,
    /// Open sessions; one more is refused.
    pub max_sessions: usize,
    /// A session that is idle this long is dropped.
    pub session_ttl: Duration,
    /// Bytes of what the rules remember of a session, where its pack does not set less. Beyond them what reads
    /// facts or history is undecided.
    pub max_session_bytes: usize,
    /// Results kept in a session to answer repeated items; those of the last request always are.
    pub retained_results: usize,
    /// How long an answer of a probe may take before it counts as failed.
    pub probe_timeout: Duration,
    /// File with the key of hashes; empty for one beside the store.
    pub redaction_key_file: PathBuf,
    /// File with the keys of packs that keep answers encrypted; empty for none.
    pub payload_key_file: PathBuf,
    /// Requests that may wait for the audit writer; beyond that callers wait.
    pub audit_queue: usize,
    /// Requests of one group commit.
    pub audit_group: usize,
    /// When an answer leaves.
    pub audit_durability: Durability,
    /// What happens when more requests wait for the audit writer than may.
    pub audit_when_full: WhenFull,
    /// A checkpoint after so many records.
    pub audit_checkpoint_every: u64,
    /// File with the secret key that signs checkpoints; empty for none.
    pub audit_checkpoint_key_file: PathBuf,
    /// File that checkpoints are appended to, to be kept elsewhere; empty for none.
    pub audit_checkpoint_file: PathBuf,
    /// Bytes of the store's page cache.
    pub store_cache_bytes: u64,
    /// Pause between NOT_SERVING and refusing connections, for load balancers to notice.
    pub shutdown_wait: Duration,
    /// How long calls in progress may take to end before they are cut.
    pub shutdown_limit: Duration,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Which log lines: a level or a list of `target=level`.
    pub log: String,
}

/// When an answer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once its record survives a loss of power.
    Disk,
    /// Once its record survives the end of the process: a loss of power loses what the kernel has not written.
    Process,
    /// Once its record is queued: the end of the process loses what was queued.
    Async,
}

/// What happens when more requests wait for the audit writer than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Callers wait.
    Block,
    /// Callers are refused.
    Refuse,
    /// The oldest judgements that wait are given up; a record tells of them.
    DropOldest,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where a setting's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// The configuration file.
    File(PathBuf),
    /// Nobody set it.
    Default,
}

/// What a value should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// An address and port.
    Address,
    /// A whole number within these ends.
    Between(u64, u64),
    /// A time span.
    Duration,
    /// A number of bytes.
    Bytes,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some text.
    Text,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Address => write!(f, "an address and port such as {DEFAULT_ADDRESS}"),
            Expected::Between(least, most) => write!(f, "a whole number from {least} to {most}"),
            Expected::Duration => f.write_str("a time span such as 10s, 250ms or 30m"),
            Expected::Bytes => f.write_str("a number of bytes such as 65536, 64KiB or 4MiB"),
            Expected::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Expected::Text => f.write_str("some text"),
        }
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{path}: {message}", path = path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The parser's words, with line and column.
        message: String,
    },
    /// The file has a key that is no setting.
    #[error("{path}: unknown setting `{key}`{hint}", path = path.display(), hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?")))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// A setting with a name like it.
        near: Option<&'static str>,
    },
    /// A value is not what the setting needs.
    #[error("`{value}` for {name} is not {expected}")]
    Value {
        /// The flag, variable or key.
        name: String,
        /// What was written.
        value: String,
        /// What it should have been.
        expected: Expected,
    },
    /// Others could reach the service, and nothing protects it.
    #[error(
        "{listen} can be reached from other machines, and this server has no TLS and no authentication; \
         listen on 127.0.0.1, or say --insecure if the network protects it"
    )]
    Public {
        /// The address.
        listen: SocketAddr,
    },
}

/// One setting.
pub struct Setting {
    /// Its name: the flag without dashes in front, and the key in the file.
    pub key: &'static str,
    /// What it is for, in one line.
    pub help: &'static str,
    /// The value if nobody sets it.
    pub default: &'static str,
    /// True for a switch: the flag alone means `true`.
    pub switch: bool,
    apply: fn(&mut Settings, &str) -> Result<(), Expected>,
}

impl Setting {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("PROBITY_{}", self.key.to_uppercase().replace('-', "_"))
    }
}

macro_rules! setting {
    ($key:literal, $default:expr, $help:literal, $field:ident, $read:expr) => {
        Setting {
            key: $key,
            help: $help,
            default: $default,
            switch: false,
            apply: |settings, text| {
                settings.$field = $read(text)?;
                Ok(())
            },
        }
    };
}

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    setting!("rules", "rules", "Folder with one folder per rule pack", rules, path),
    setting!("data", "probity-data", "Folder of the audit store", data, path),
    setting!("listen", DEFAULT_ADDRESS, "Address and port to serve on; port 0 takes a free one", listen, address),
    Setting {
        switch: true,
        ..setting!(
            "insecure",
            "false",
            "Serve on an address that others can reach, without TLS and authentication",
            insecure,
            truth
        )
    },
    setting!(
        "threads",
        "0",
        "Threads that serve calls; 0 is one per core, and a single one where there are no more than two",
        threads,
        |t| at_least(t, 0)
    ),
    setting!("max-message-bytes", "4MiB", "Largest request", max_message_bytes, size),
    setting!("max-items", "1000", "Items or episodes in one request", max_items, |t| at_least(t, 1)),
    setting!("max-calls", "1024", "Calls and streams in progress", max_calls, |t| at_least(t, 1)),
    setting!("stream-window", "64", "Requests of one stream that may wait for storage", stream_window, |t| at_least(
        t, 1
    )),
    setting!("max-sessions", "100000", "Open sessions", max_sessions, |t| at_least(t, 1)),
    setting!("session-ttl", "30m", "A session that is idle this long is dropped", session_ttl, some_span),
    setting!("max-session-bytes", "64MiB", "What rules may remember of a session", max_session_bytes, size),
    setting!("retained-results", "16", "Results kept per session to answer repeated items", retained_results, |t| {
        at_least(t, 1)
    }),
    setting!("probe-timeout", "60s", "How long an answer of a probe may take", probe_timeout, some_span),
    setting!(
        "redaction-key-file",
        "",
        "File with the key of hashes, 64 hexadecimal digits; without one a key is made beside the store",
        redaction_key_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!(
        "payload-key-file",
        "",
        "File with the keys of packs that keep answers encrypted; on each line an id and 64 hexadecimal digits",
        payload_key_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!("audit-queue", "1024", "Requests that may wait for the audit writer", audit_queue, |t| at_least(t, 1)),
    setting!("audit-group", "512", "Requests of one group commit", audit_group, |t| at_least(t, 1)),
    setting!(
        "audit-durability",
        "disk",
        "An answer leaves once its record survives a loss of power (disk), the end of the process (process), or at \
         once (async)",
        audit_durability,
        durability
    ),
    setting!(
        "audit-when-full",
        "block",
        "When the audit queue is full: block callers, refuse them, or drop-oldest",
        audit_when_full,
        when_full
    ),
    setting!(
        "audit-checkpoint-every",
        "10000",
        "A checkpoint of the audit chain after so many records",
        audit_checkpoint_every,
        |t| at_least(t, 1).map(|n: usize| n as u64)
    ),
    setting!(
        "audit-checkpoint-key-file",
        "",
        "File with the Ed25519 secret key, 64 hexadecimal digits, that signs checkpoints",
        audit_checkpoint_key_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!(
        "audit-checkpoint-file",
        "",
        "File that checkpoints are appended to, to be kept elsewhere",
        audit_checkpoint_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!("store-cache-bytes", "32MiB", "Page cache of the audit store", store_cache_bytes, bytes),
    setting!("shutdown-wait", "0s", "Pause between NOT_SERVING and refusing connections", shutdown_wait, span),
    setting!("shutdown-limit", "10s", "How long calls in progress may take to end", shutdown_limit, span),
    setting!("log-format", "text", "Form of log lines: text or json", log_format, log_format),
    setting!("log", "info", "Which log lines: a level or a list of target=level", log, text),
];

/// Texts as given, before they are checked: what one source says about some settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Notes one setting's text; false if there is no such setting.
    pub fn set(&mut self, key: &str, text: impl Into<String>) -> bool {
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key) else { return false };
        self.0.insert(setting.key, text.into());
        true
    }
}

/// The settings and where each came from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The checked values.
    pub settings: Settings,
    /// Per setting its text and origin, in the table's order.
    pub origins: Vec<(&'static str, String, Origin)>,
    /// Variables that look like settings and are none.
    pub unknown_variables: Vec<UnknownVariable>,
}

/// A `PROBITY_` variable that is no setting but is named much like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The variable that may have been meant.
    pub near: String,
}

impl Config {
    /// Joins the sources: what `flags` say, the variables of `environment`, the file, the defaults.
    pub fn load(
        flags: &Given,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        file: Option<&Path>,
    ) -> Result<Config, ConfigError> {
        let (variables, unknown_variables) = from_environment(environment);
        let in_file = file.map_or_else(|| Ok(Given::default()), from_file)?;
        let mut settings = unset();
        let mut origins = Vec::with_capacity(SETTINGS.len());
        for setting in SETTINGS {
            let key = setting.key;
            let (text, origin, name) = if let Some(text) = flags.0.get(key) {
                (text.as_str(), Origin::Flag, format!("--{key}"))
            } else if let Some(text) = variables.0.get(key) {
                (text.as_str(), Origin::Environment, setting.variable())
            } else if let (Some(text), Some(path)) = (in_file.0.get(key), file) {
                (text.as_str(), Origin::File(path.to_owned()), format!("`{key}` in {}", path.display()))
            } else {
                (setting.default, Origin::Default, key.to_owned())
            };
            (setting.apply)(&mut settings, text).map_err(|expected| ConfigError::Value {
                name,
                value: text.to_owned(),
                expected,
            })?;
            origins.push((key, text.to_owned(), origin));
        }
        Ok(Config { settings, origins, unknown_variables })
    }
}

impl Settings {
    /// The settings if nobody sets anything.
    pub fn defaults() -> Settings {
        let mut settings = unset();
        for setting in SETTINGS {
            // A test reads every default; one that does not read leaves the value below.
            let _ = (setting.apply)(&mut settings, setting.default);
        }
        settings
    }

    /// Refuses an address that others can reach, unless told otherwise.
    pub fn check_exposure(&self) -> Result<(), ConfigError> {
        if self.listen.ip().is_loopback() || self.insecure {
            Ok(())
        } else {
            Err(ConfigError::Public { listen: self.listen })
        }
    }
}

/// Values that every setting of the table replaces.
fn unset() -> Settings {
    Settings {
        rules: PathBuf::new(),
        data: PathBuf::new(),
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        insecure: false,
        threads: 0,
        max_message_bytes: 0,
        max_items: 0,
        max_calls: 0,
        stream_window: 0,
        max_sessions: 0,
        session_ttl: Duration::ZERO,
        max_session_bytes: 0,
        retained_results: 0,
        probe_timeout: Duration::ZERO,
        redaction_key_file: PathBuf::new(),
        payload_key_file: PathBuf::new(),
        audit_queue: 0,
        audit_group: 0,
        audit_durability: Durability::Async,
        audit_when_full: WhenFull::Block,
        audit_checkpoint_every: 0,
        audit_checkpoint_key_file: PathBuf::new(),
        audit_checkpoint_file: PathBuf::new(),
        store_cache_bytes: 0,
        shutdown_wait: Duration::ZERO,
        shutdown_limit: Duration::ZERO,
        log_format: LogFormat::Text,
        log: String::new(),
    }
}

fn from_environment(environment: impl IntoIterator<Item = (OsString, OsString)>) -> (Given, Vec<UnknownVariable>) {
    let mut given = Given::default();
    let mut unknown = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|n| n.starts_with("PROBITY_")) else { continue };
        match SETTINGS.iter().find(|s| s.variable() == name) {
            Some(setting) => {
                given.0.insert(setting.key, value.to_string_lossy().into_owned());
            }
            // Others may own names that begin like ours (an orchestrator announces a service called
            // `probity` so), hence only a likely slip of the pen is worth a word.
            None => {
                let near = SETTINGS.iter().map(Setting::variable).find(|v| strsim::osa_distance(v, name) <= 2);
                unknown.extend(near.map(|near| UnknownVariable { name: name.to_owned(), near }));
            }
        }
    }
    (given, unknown)
}

fn from_file(path: &Path) -> Result<Given, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let table: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| ConfigError::Toml { path: path.to_owned(), message: e.to_string() })?;
    let mut given = Given::default();
    for (key, value) in table {
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key) else {
            let near = SETTINGS.iter().map(|s| s.key).min_by_key(|k| strsim::osa_distance(k, &key));
            let near = near.filter(|k| strsim::osa_distance(k, &key) <= 1 + key.len() / 4);
            return Err(ConfigError::UnknownKey { path: path.to_owned(), key, near });
        };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            other => other.to_string(),
        };
        given.0.insert(setting.key, text);
    }
    Ok(given)
}

fn path(text: &str) -> Result<PathBuf, Expected> {
    if text.is_empty() { Err(Expected::Text) } else { Ok(PathBuf::from(text)) }
}

fn text(text: &str) -> Result<String, Expected> {
    if text.is_empty() { Err(Expected::Text) } else { Ok(text.to_owned()) }
}

fn address(text: &str) -> Result<SocketAddr, Expected> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    SocketAddr::from_str(local.as_deref().unwrap_or(text)).map_err(|_| Expected::Address)
}

fn truth(text: &str) -> Result<bool, Expected> {
    text.parse().map_err(|_| Expected::OneOf(&["true", "false"]))
}

/// No count of a server needs to be larger, and what holds them cannot be without limit.
const MOST: usize = 1 << 28;

fn at_least(text: &str, least: usize) -> Result<usize, Expected> {
    text.parse().ok().filter(|n| (least..=MOST).contains(n)).ok_or(Expected::Between(least as u64, MOST as u64))
}

fn span(text: &str) -> Result<Duration, Expected> {
    let span: jiff::SignedDuration = text.parse().map_err(|_| Expected::Duration)?;
    Duration::try_from(span).map_err(|_| Expected::Duration)
}

/// A time span that is not empty.
fn some_span(text: &str) -> Result<Duration, Expected> {
    span(text).ok().filter(|span| !span.is_zero()).ok_or(Expected::Duration)
}

fn bytes(text: &str) -> Result<u64, Expected> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit))).unwrap_or((text, 1));
    let n = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0);
    n.ok_or(Expected::Bytes)
}

fn size(text: &str) -> Result<usize, Expected> {
    usize::try_from(bytes(text)?).map_err(|_| Expected::Bytes)
}

fn durability(text: &str) -> Result<Durability, Expected> {
    match text {
        "disk" => Ok(Durability::Disk),
        "process" => Ok(Durability::Process),
        "async" => Ok(Durability::Async),
        _ => Err(Expected::OneOf(&["disk", "process", "async"])),
    }
}

fn when_full(text: &str) -> Result<WhenFull, Expected> {
    match text {
        "block" => Ok(WhenFull::Block),
        "refuse" => Ok(WhenFull::Refuse),
        "drop-oldest" => Ok(WhenFull::DropOldest),
        _ => Err(Expected::OneOf(&["block", "refuse", "drop-oldest"])),
    }
}

fn log_format(text: &str) -> Result<LogFormat, Expected> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(Expected::OneOf(&["text", "json"])),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;

    use super::*;

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
}
