//! Settings of the server: flag over environment over file over default, each with where it came
//! from. Every limit of the service lives here.
//!
//! [`SETTINGS`] is the one table: it gives the flag (`--audit-queue`), the environment variable
//! (`PROBITY_AUDIT_QUEUE`), the key in the TOML file (`audit-queue`), the default, and how the text
//! becomes a value.

mod read;
mod rules_at;
mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::model::{Digest, Limits};
pub use rules_at::RulesAt;
pub use table::{SETTINGS, Setting};

/// Where the service listens if nobody says otherwise, and where the client looks for it.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";

/// The settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the rules are: a folder with one folder per rule pack.
    pub rules: RulesAt,
    /// Where a candidate is that judges beside the rules, and is never enforced.
    pub shadow_rules: Option<RulesAt>,
    /// Whether the rules folder is watched and changed rules are loaded by themselves.
    pub watch: Watch,
    /// How often the rules folder is read without a hint that it changed; zero for never.
    pub watch_poll: Duration,
    /// How long the rules folder must stay as it is before what changed is loaded.
    pub watch_settle: Duration,
    /// How long rules on disk may be refused before the service says that it does not serve; zero for ever.
    pub max_staleness: Duration,
    /// What happens when packs' own tests fail.
    pub on_test_failure: OnTestFailure,
    /// How long the packs' own tests may take before their set counts as failing them.
    pub test_limit: Duration,
    /// Serve the last good set from the store where the rules on disk are refused at start.
    pub start_with_last_good: bool,
    /// Digests that packs may have; empty for any.
    pub rules_digest: Vec<Pin>,
    /// File with more of them, read at each load; empty for none.
    pub rules_digest_file: PathBuf,
    /// File with the public keys of those who may sign packs, read at each load; empty where packs need no signature.
    pub rules_public_key_file: PathBuf,
    /// Folder of the audit store.
    pub data: PathBuf,
    /// Where the service listens.
    pub listen: SocketAddr,
    /// Serve on an address that others can reach, without TLS and authentication.
    pub insecure: bool,
    /// Where figures for Prometheus are served over HTTP; nowhere if nobody says.
    pub metrics_listen: Option<SocketAddr>,
    /// Threads that serve calls; 1 is a runtime without work stealing, 0 stands for one per core, or for
    /// 1 where there are no more than two cores.
    pub threads: usize,
    /// Bytes of the largest request.
    pub max_message_bytes: usize,
    /// Items in one `Observe` request, episodes in one `ScoreEpisodes` request.
    pub max_items: usize,
    /// Calls and streams in progress; one more is refused.
    pub max_calls: usize,
    /// Streams that may be open; they take no place of a call.
    pub max_streams: usize,
    /// A stream that is asked nothing for this long is ended.
    pub stream_idle: Duration,
    /// Requests of one stream that may wait for their record to be stored.
    pub stream_window: usize,
    /// Open sessions; one more is refused.
    pub max_sessions: usize,
    /// Sets of rules in memory: the served one, and those of open sessions.
    pub max_generations: usize,
    /// A session that is idle this long is dropped.
    pub session_ttl: Duration,
    /// What the rules of a session may cost, where its pack does not set less.
    pub limits: Limits,
    /// Results kept in a session to answer repeated items; those of the last request always are.
    pub retained_results: usize,
    /// Bytes of what is kept of a session, encrypted, so that it survives a restart; 0 keeps nothing.
    pub session_journal_bytes: usize,
    /// File with the key that encrypts it; empty for one beside the store.
    pub session_key_file: PathBuf,
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
    /// What happens at the start when the store is damaged.
    pub audit_when_damaged: WhenDamaged,
    /// A checkpoint after so many records.
    pub audit_checkpoint_every: u64,
    /// File with the secret key that signs checkpoints; empty for none.
    pub audit_checkpoint_key_file: PathBuf,
    /// File that checkpoints are appended to, to be kept elsewhere; empty for none.
    pub audit_checkpoint_file: PathBuf,
    /// Audit records that are older are dropped; zero keeps them for ever.
    pub audit_keep_for: Duration,
    /// The oldest audit records are dropped while there are more bytes of them; 0 keeps them all.
    pub audit_keep_bytes: u64,
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

/// How changed rules are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// By hints of the operating system, and by reading the folder now and then.
    On,
    /// By reading the folder now and then.
    Poll,
    /// Not at all.
    Off,
}

/// What happens when packs' own tests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTestFailure {
    /// Their set is refused.
    Refuse,
    /// It serves, with a warning.
    Warn,
}

/// A digest that a pack may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The pack's name.
    pub pack: String,
    /// The digest of its meaning.
    pub digest: Digest,
}

impl Pin {
    /// From `NAME=DIGEST`.
    pub fn read(text: &str) -> Option<Pin> {
        let (pack, digest) = text.split_once('=')?;
        let pack = pack.trim();
        let digest = Digest::from_hex(digest.trim())?;
        (!pack.is_empty()).then(|| Pin { pack: pack.to_owned(), digest })
    }
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

/// What happens at the start when the store is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDamaged {
    /// The server does not start.
    Refuse,
    /// The store is set aside, untouched, and a new one begins with a record that says so.
    SetAside,
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
    /// Packs and their digests.
    Pins,
    /// Where rules are.
    Rules,
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
            Expected::Rules => {
                f.write_str("a folder, or git:REPOSITORY@REF:FOLDER for one as it is at a commit, tag or branch")
            }
            Expected::Pins => {
                f.write_str("NAME=DIGEST, with commas between several, each digest of 64 hexadecimal digits")
            }
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
        let mut addresses = std::iter::once(self.listen).chain(self.metrics_listen);
        match addresses.find(|address| !address.ip().is_loopback()) {
            Some(listen) if !self.insecure => Err(ConfigError::Public { listen }),
            _ => Ok(()),
        }
    }
}

/// Values that every setting of the table replaces.
fn unset() -> Settings {
    Settings {
        rules: RulesAt::Folder(PathBuf::new()),
        shadow_rules: None,
        watch: Watch::Off,
        watch_poll: Duration::ZERO,
        watch_settle: Duration::ZERO,
        max_staleness: Duration::ZERO,
        on_test_failure: OnTestFailure::Warn,
        test_limit: Duration::ZERO,
        start_with_last_good: false,
        rules_digest: Vec::new(),
        rules_digest_file: PathBuf::new(),
        rules_public_key_file: PathBuf::new(),
        data: PathBuf::new(),
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        insecure: false,
        metrics_listen: None,
        threads: 0,
        max_message_bytes: 0,
        max_items: 0,
        max_calls: 0,
        max_streams: 0,
        stream_idle: Duration::ZERO,
        stream_window: 0,
        max_sessions: 0,
        max_generations: 0,
        session_ttl: Duration::ZERO,
        limits: Limits::default(),
        retained_results: 0,
        session_journal_bytes: 0,
        session_key_file: PathBuf::new(),
        probe_timeout: Duration::ZERO,
        redaction_key_file: PathBuf::new(),
        payload_key_file: PathBuf::new(),
        audit_queue: 0,
        audit_group: 0,
        audit_durability: Durability::Async,
        audit_when_full: WhenFull::Block,
        audit_when_damaged: WhenDamaged::Refuse,
        audit_checkpoint_every: 0,
        audit_checkpoint_key_file: PathBuf::new(),
        audit_checkpoint_file: PathBuf::new(),
        audit_keep_for: Duration::ZERO,
        audit_keep_bytes: 0,
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
