//! How the text of a setting becomes its value.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use super::{Durability, Expected, LogFormat, OnTestFailure, Pin, RulesAt, Watch, WhenDamaged, WhenFull};
use crate::model::Limit;

pub(super) fn path(text: &str) -> Result<PathBuf, Expected> {
    if text.is_empty() { Err(Expected::Text) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn rules(text: &str) -> Result<RulesAt, Expected> {
    RulesAt::read(text).ok_or(Expected::Rules)
}

pub(super) fn text(text: &str) -> Result<String, Expected> {
    if text.is_empty() { Err(Expected::Text) } else { Ok(text.to_owned()) }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, Expected> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    SocketAddr::from_str(local.as_deref().unwrap_or(text)).map_err(|_| Expected::Address)
}

pub(super) fn truth(text: &str) -> Result<bool, Expected> {
    text.parse().map_err(|_| Expected::OneOf(&["true", "false"]))
}

pub(super) fn watch(text: &str) -> Result<Watch, Expected> {
    match text {
        "on" => Ok(Watch::On),
        "poll" => Ok(Watch::Poll),
        "off" => Ok(Watch::Off),
        _ => Err(Expected::OneOf(&["on", "poll", "off"])),
    }
}

pub(super) fn on_test_failure(text: &str) -> Result<OnTestFailure, Expected> {
    match text {
        "refuse" => Ok(OnTestFailure::Refuse),
        "warn" => Ok(OnTestFailure::Warn),
        _ => Err(Expected::OneOf(&["refuse", "warn"])),
    }
}

/// Packs and their digests; none in an empty text.
pub(super) fn pins(text: &str) -> Result<Vec<Pin>, Expected> {
    let pins = text.split(',').map(str::trim).filter(|pin| !pin.is_empty());
    pins.map(|pin| Pin::read(pin).ok_or(Expected::Pins)).collect()
}

/// No count of a server needs to be larger, and what holds them cannot be without limit.
const MOST: usize = 1 << 28;

pub(super) fn at_least(text: &str, least: usize) -> Result<usize, Expected> {
    text.parse().ok().filter(|n| (least..=MOST).contains(n)).ok_or(Expected::Between(least as u64, MOST as u64))
}

pub(super) fn span(text: &str) -> Result<Duration, Expected> {
    let span: jiff::SignedDuration = text.parse().map_err(|_| Expected::Duration)?;
    Duration::try_from(span).map_err(|_| Expected::Duration)
}

/// A time span that is not empty.
pub(super) fn some_span(text: &str) -> Result<Duration, Expected> {
    span(text).ok().filter(|span| !span.is_zero()).ok_or(Expected::Duration)
}

/// What a limit of a session can be set to.
pub(super) fn limit(text: &str, limit: Limit) -> Result<usize, Expected> {
    let most = limit.most();
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or(Expected::Between(1, most as u64))
}

pub(super) fn bytes(text: &str) -> Result<u64, Expected> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit))).unwrap_or((text, 1));
    let n = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0);
    n.ok_or(Expected::Bytes)
}

pub(super) fn size(text: &str) -> Result<usize, Expected> {
    usize::try_from(bytes(text)?).map_err(|_| Expected::Bytes)
}

pub(super) fn durability(text: &str) -> Result<Durability, Expected> {
    match text {
        "disk" => Ok(Durability::Disk),
        "process" => Ok(Durability::Process),
        "async" => Ok(Durability::Async),
        _ => Err(Expected::OneOf(&["disk", "process", "async"])),
    }
}

pub(super) fn when_full(text: &str) -> Result<WhenFull, Expected> {
    match text {
        "block" => Ok(WhenFull::Block),
        "refuse" => Ok(WhenFull::Refuse),
        "drop-oldest" => Ok(WhenFull::DropOldest),
        _ => Err(Expected::OneOf(&["block", "refuse", "drop-oldest"])),
    }
}

pub(super) fn when_damaged(text: &str) -> Result<WhenDamaged, Expected> {
    match text {
        "refuse" => Ok(WhenDamaged::Refuse),
        "set-aside" => Ok(WhenDamaged::SetAside),
        _ => Err(Expected::OneOf(&["refuse", "set-aside"])),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Expected> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(Expected::OneOf(&["text", "json"])),
    }
}
