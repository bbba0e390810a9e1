//! The table of settings: for each its name, its default, and how its text becomes a value.

use std::path::PathBuf;

use crate::model::Limit;

use super::{
    DEFAULT_ADDRESS, Expected, Settings,
    read::{
        self, address, at_least, bytes, durability, log_format, path, size, some_span, span, text, truth, when_damaged,
        when_full,
    },
};

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
    pub(super) apply: fn(&mut Settings, &str) -> Result<(), Expected>,
}

impl Setting {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("PROBITY_{}", self.key.to_uppercase().replace('-', "_"))
    }
}

macro_rules! setting {
    ($key:literal, $default:expr, $help:literal, $($field:ident).+, $read:expr) => {
        Setting {
            key: $key,
            help: $help,
            default: $default,
            switch: false,
            apply: |settings, text| {
                settings.$($field).+ = $read(text)?;
                Ok(())
            },
        }
    };
}

/// A limit of a session; by default packs may ask for as much as there is.
macro_rules! limit {
    ($key:literal, $default:literal, $help:literal, $field:ident, $limit:ident) => {
        setting!($key, $default, $help, limits.$field, |t| read::limit(t, Limit::$limit))
    };
}

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    setting!(
        "rules",
        "rules",
        "Folder with one folder per rule pack, or git:REPOSITORY@REF:FOLDER for one at a commit, tag or branch",
        rules,
        read::rules
    ),
    setting!(
        "shadow-rules",
        "",
        "The same for a candidate that judges beside the rules and is never enforced; its differences are counted and told",
        shadow_rules,
        |t: &str| if t.is_empty() { Ok(None) } else { read::rules(t).map(Some) }
    ),
    setting!(
        "watch",
        "on",
        "Load changed rules by themselves: on, poll (without hints of the operating system), or off",
        watch,
        read::watch
    ),
    setting!(
        "watch-poll",
        "5s",
        "How often the rules folder is read without a hint that it changed, as on network file systems; 0s is never",
        watch_poll,
        span
    ),
    setting!(
        "watch-settle",
        "500ms",
        "How long the rules folder must stay as it is before changed rules are loaded",
        watch_settle,
        some_span
    ),
    setting!(
        "max-staleness",
        "0s",
        "Say NOT_SERVING once the rules on disk have been refused this long; 0s is never",
        max_staleness,
        span
    ),
    setting!(
        "on-test-failure",
        "refuse",
        "When a pack's own tests fail: refuse its set, or warn",
        on_test_failure,
        read::on_test_failure
    ),
    setting!(
        "test-limit",
        "30s",
        "How long the packs' own tests may take before they count as failing",
        test_limit,
        some_span
    ),
    Setting {
        switch: true,
        ..setting!(
            "start-with-last-good",
            "false",
            "Where the rules are refused at start, serve the last good set from the store",
            start_with_last_good,
            truth
        )
    },
    setting!(
        "rules-digest",
        "",
        "Refuse packs of any other digest than these: NAME=DIGEST,NAME=DIGEST",
        rules_digest,
        read::pins
    ),
    setting!(
        "rules-digest-file",
        "",
        "File with more of them, a NAME=DIGEST on each line, read at each load",
        rules_digest_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!(
        "rules-public-key-file",
        "",
        "Refuse packs that none of the Ed25519 public keys in this file has signed; 64 hexadecimal digits on each line",
        rules_public_key_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
    setting!("data", "probity-data", "Folder of the audit store", data, path),
    setting!("listen", DEFAULT_ADDRESS, "Address and port to serve on; port 0 takes a free one", listen, address),
    setting!(
        "metrics-listen",
        "",
        "Address and port for figures over HTTP (/metrics, for Prometheus); none if it is empty",
        metrics_listen,
        |t: &str| if t.is_empty() { Ok(None) } else { address(t).map(Some) }
    ),
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
    setting!("max-calls", "1024", "Calls in progress", max_calls, |t| at_least(t, 1)),
    setting!("max-streams", "1024", "Open streams", max_streams, |t| at_least(t, 1)),
    setting!(
        "stream-idle",
        "30m",
        "A stream of a caller who neither asks nor answers this long is ended",
        stream_idle,
        some_span
    ),
    setting!("stream-window", "64", "Requests of one stream that may wait for storage", stream_window, |t| at_least(
        t, 1
    )),
    setting!("max-sessions", "100000", "Open sessions", max_sessions, |t| at_least(t, 1)),
    setting!(
        "max-generations",
        "8",
        "Sets of rules in memory, the served one and those of open sessions; beyond that sessions under the oldest end",
        max_generations,
        |t| at_least(t, 1)
    ),
    setting!("session-ttl", "30m", "A session that is idle this long is dropped", session_ttl, some_span),
    setting!("max-session-bytes", "64MiB", "What rules may remember of a session", limits.state_bytes, size),
    limit!("max-session-tokens", "400000", "Tokens of texts that rules may keep of a session", tokens, Tokens),
    limit!("max-event-steps", "1000000", "Steps that judging one event may take", event_steps, EventSteps),
    limit!("max-turn-steps", "16000000", "Steps that judging one message may take", turn_steps, TurnSteps),
    limit!("max-look-back", "4096", "Earlier events that rules may look at one by one", look_back, LookBack),
    limit!("max-openings", "64", "Possible openings that rules may keep of a `since` window", openings, Openings),
    limit!(
        "max-fact-entries",
        "4096",
        "Entries of a fact that rules may look at one by one",
        fact_entries,
        FactEntries
    ),
    setting!("retained-results", "16", "Results kept per session to answer repeated items", retained_results, |t| {
        at_least(t, 1)
    }),
    setting!(
        "session-journal-bytes",
        "3MiB",
        "What is kept of an open session, encrypted, so that it survives a restart; 0 keeps nothing",
        session_journal_bytes,
        |t: &str| if t.trim() == "0" { Ok(0) } else { size(t) }
    ),
    setting!(
        "session-key-file",
        "",
        "File with the key that encrypts open sessions, 64 hexadecimal digits; without one a key is made beside the store",
        session_key_file,
        |t: &str| Ok(PathBuf::from(t))
    ),
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
        "audit-when-damaged",
        "refuse",
        "When the audit store is damaged at the start: refuse to start, or set-aside the store and begin a new one",
        audit_when_damaged,
        when_damaged
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
    setting!("audit-keep-for", "0s", "Drop audit records that are older; 0s keeps them for ever", audit_keep_for, span),
    setting!(
        "audit-keep-bytes",
        "0",
        "Drop the oldest audit records while there are more bytes of them; 0 keeps them all",
        audit_keep_bytes,
        |t: &str| if t.trim() == "0" { Ok(0) } else { bytes(t) }
    ),
    setting!("store-cache-bytes", "32MiB", "Page cache of the audit store", store_cache_bytes, bytes),
    setting!("shutdown-wait", "0s", "Pause between NOT_SERVING and refusing connections", shutdown_wait, span),
    setting!("shutdown-limit", "10s", "How long calls in progress may take to end", shutdown_limit, span),
    setting!("log-format", "text", "Form of log lines: text or json", log_format, log_format),
    setting!("log", "info,notify=error", "Which log lines: a level or a list of target=level", log, text),
];
