//! A session's journal: the items that made it what it is, so that it can be taken up after a restart by judging them
//! again. The engine is deterministic, so the session is then exactly what it was.
//!
//! Entries hold what callers sent, in clear, so they are sealed under the session key before anything else sees them:
//!
//! ```text
//! sealed = nonce:24 bytes  XChaCha20-Poly1305(entry), bound to the session and the entry's number
//! entry  = version:byte=1  (number 0: head | otherwise: list of item)
//! head   = whole:byte  agent:text  mode:byte  pack:name, version, digest  limits:text  asked:text
//! item   = seq:number  print:32 bytes  kind:byte  content
//! content= kind 1: json:bytes | kind 3: nothing
//!        | kind 2: turn, index, calls:number  call_id, tool:text  arguments:bytes  text, time:text
//!        | kind 4: trigger:text  tokens:8 bytes  external:byte  reputation:maybe real  at:real
//!        | kind 5: nothing (a probe that was due has failed; its seq and print mean nothing)
//! moved  = version:byte=1  0:byte  pack:name, version, digest  limits:text  hits:list of (policy:text  n:number)
//!          turn:number  answers:list of (index:number  gate:byte, 1 allow, 2 review, 3 deny)
//! ```
//!
//! A journal that outgrows its bound is dropped but for a head that says so: such a session goes on, and cannot be
//! taken up after a restart.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    audit::{
        JournalChange, JournalEntry, JournalWrite, Mode, PackRef,
        bytes::{BytesError, Reader, put_len, put_number, put_text},
    },
    drift::{RuntimeEvent, Trigger},
    engine::Told,
    model::{Digest, Gate, json},
};

use super::{
    drift::Occurrence,
    judging::{Item, ItemBody, ProposedCall},
    session_key::SessionKey,
};

const VERSION: u8 = 1;

/// What a journal begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// False if the journal outgrew its bound, or is not to hold the session's items.
    pub whole: bool,
    /// The agent; may be empty.
    pub agent: Arc<str>,
    /// The session's mode.
    pub mode: Mode,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// How they were asked for.
    pub asked: Arc<str>,
    /// The limits that it is judged under, as words: under others it would not be what it was.
    pub limits: String,
}

/// Why a journal cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It outgrew its bound; under which rules.
    TooLong,
    /// An entry is missing.
    Gap,
    /// It does not open with the key, or does not follow the layout.
    Broken,
}

/// Something that changed a session.
#[derive(Debug)]
pub enum Kept {
    /// Items were judged, in one request.
    Items(Vec<Item>),
    /// A probe that was due has failed.
    GivenBack,
    /// The session moved to other rules.
    Moved(Moved),
}

/// A move to other rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The rules from then on.
    pub pack: Arc<PackRef>,
    /// The limits from then on.
    pub limits: String,
    /// What callers were told up to then.
    pub told: Told,
}

/// Writes the journal of one session.
#[derive(Debug)]
pub struct Journal {
    session: Arc<str>,
    head: Head,
    /// The number of the next entry.
    next: u64,
    bytes: usize,
    bound: usize,
}

impl Journal {
    /// Of a session that begins. A bound of 0 keeps nothing.
    pub fn new(session: Arc<str>, head: Head, bound: usize) -> Journal {
        Journal { session, head, next: 0, bytes: 0, bound }
    }

    /// Of a session that was taken up.
    pub fn after(session: Arc<str>, head: Head, bound: usize, entries: &[JournalEntry]) -> Journal {
        let bytes = entries.iter().map(|(_, bytes)| bytes.len()).sum();
        Journal { session, head, next: entries.len() as u64, bytes, bound }
    }

    /// What is written when items were judged.
    pub fn judged(&mut self, key: &SessionKey, items: &[&Item]) -> Vec<JournalWrite> {
        if items.is_empty() {
            return Vec::new();
        }
        let mut entry = vec![VERSION];
        put_len(&mut entry, items.len());
        items.iter().for_each(|item| put_item(&mut entry, item));
        self.add(key, &entry)
    }

    /// What is written when a probe that was due has failed.
    pub fn given_back(&mut self, key: &SessionKey) -> Vec<JournalWrite> {
        let mut entry = vec![VERSION, 1, 0];
        entry.extend_from_slice(&[0; 32]);
        entry.push(5);
        self.add(key, &entry)
    }

    /// What is written when the session has moved to the rules of this journal's head.
    pub fn moved(&mut self, key: &SessionKey, told: &Told) -> Vec<JournalWrite> {
        let Told { hits, turn, answers } = told;
        // A list of items is never empty.
        let mut entry = vec![VERSION, 0];
        put_pack(&mut entry, &self.head.pack);
        put_text(&mut entry, &self.head.limits);
        put_len(&mut entry, hits.len());
        for (policy, n) in hits {
            put_text(&mut entry, policy);
            put_number(&mut entry, (*n).into());
        }
        put_number(&mut entry, (*turn).into());
        put_len(&mut entry, answers.len());
        for (index, gate) in answers {
            put_number(&mut entry, (*index).into());
            entry.push(match gate {
                Gate::Allow => 1,
                Gate::Review => 2,
                Gate::Deny => 3,
            });
        }
        self.add(key, &entry)
    }

    /// Whether all that made the session what it is is kept.
    pub fn is_whole(&self) -> bool {
        self.bound > 0 && self.head.whole
    }

    /// What is written when the session takes nothing more.
    pub fn closed(&mut self) -> Vec<JournalWrite> {
        self.bound = 0;
        if self.next == 0 { Vec::new() } else { vec![self.write(JournalChange::Drop)] }
    }

    fn add(&mut self, key: &SessionKey, entry: &[u8]) -> Vec<JournalWrite> {
        if self.bound == 0 {
            return Vec::new();
        }
        if !self.head.whole {
            // That such a session was open is all that is kept.
            return if self.next == 0 {
                self.seal(key, &head_bytes(&self.head)).into_iter().collect()
            } else {
                Vec::new()
            };
        }
        let mut writes = Vec::new();
        if self.next == 0 {
            // What was kept of an earlier session of this id and could not be dropped then would be taken for its own.
            writes.push(self.write(JournalChange::Drop));
            writes.extend(self.seal(key, &head_bytes(&self.head)));
        }
        writes.extend(self.seal(key, entry));
        if self.bytes > self.bound {
            self.head.whole = false;
            self.next = 0;
            let head = self.seal(key, &head_bytes(&self.head));
            writes = [Some(self.write(JournalChange::Drop)), head].into_iter().flatten().collect();
        }
        writes
    }

    /// The next entry. If the system has no random bytes, nothing is kept: a gap, which is found later.
    fn seal(&mut self, key: &SessionKey, entry: &[u8]) -> Option<JournalWrite> {
        let number = self.next;
        self.next += 1;
        let bytes = key.seal(&self.session, number, entry)?;
        self.bytes += bytes.len();
        Some(self.write(JournalChange::Add { number, bytes }))
    }

    fn write(&self, change: JournalChange) -> JournalWrite {
        JournalWrite { session: self.session.clone(), change }
    }
}

/// Reads a journal. What is known of a session whose journal cannot be read is in the head, if that can be.
pub fn read(key: &SessionKey, session: &str, entries: &[JournalEntry]) -> (Option<Head>, Result<Vec<Kept>, Unread>) {
    let open = |entry: Option<&JournalEntry>, number: u64| {
        let (found, sealed) = entry.ok_or(Unread::Gap)?;
        if *found != number {
            return Err(Unread::Gap);
        }
        key.open(session, number, sealed).ok_or(Unread::Broken)
    };
    let head = match open(entries.first(), 0).and_then(|bytes| read_head(&bytes).map_err(|_| Unread::Broken)) {
        Ok(head) => head,
        Err(why) => return (None, Err(why)),
    };
    if !head.whole {
        return (Some(head), Err(Unread::TooLong));
    }
    let mut kept = Vec::new();
    for (number, entry) in (1..).zip(entries.iter().skip(1)) {
        match open(Some(entry), number).and_then(|bytes| read_items(&bytes).map_err(|_| Unread::Broken)) {
            Ok(items) => kept.push(items),
            Err(why) => return (Some(head), Err(why)),
        }
    }
    (Some(head), Ok(kept))
}

fn head_bytes(head: &Head) -> Vec<u8> {
    let Head { whole, agent, mode, pack, asked, limits } = head;
    let mut out = vec![VERSION, (*whole).into()];
    put_text(&mut out, agent);
    out.push(match mode {
        Mode::Gate => 1,
        Mode::Episode => 2,
    });
    put_pack(&mut out, pack);
    put_text(&mut out, limits);
    put_text(&mut out, asked);
    out
}

fn put_pack(out: &mut Vec<u8>, pack: &PackRef) {
    put_text(out, &pack.name);
    put_text(out, &pack.version);
    out.extend_from_slice(pack.digest.bytes());
}

fn read_pack(reader: &mut Reader<'_>) -> Result<Arc<PackRef>, BytesError> {
    let (name, version) = (reader.text()?.into(), reader.text()?.into());
    Ok(Arc::new(PackRef { name, version, digest: Digest::new(reader.array()?) }))
}

fn read_head(bytes: &[u8]) -> Result<Head, BytesError> {
    let reader = &mut versioned(bytes)?;
    Ok(Head {
        whole: reader.byte()? == 1,
        agent: reader.text()?.into(),
        mode: if reader.byte()? == 1 { Mode::Gate } else { Mode::Episode },
        pack: read_pack(reader)?,
        limits: reader.text()?.to_owned(),
        asked: reader.text()?.into(),
    })
}

fn versioned(bytes: &[u8]) -> Result<Reader<'_>, BytesError> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? == VERSION { Ok(reader) } else { Err(BytesError::Wide) }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_item(out: &mut Vec<u8>, item: &Item) {
    let Item { seq, print, body } = item;
    put_number(out, *seq);
    out.extend_from_slice(print.bytes());
    match body {
        ItemBody::Message { json, .. } => {
            out.push(1);
            put_bytes(out, json);
        }
        ItemBody::Proposal(call) => {
            let ProposedCall { turn, index, calls, call_id, tool, arguments_json, message_text, time } = call;
            out.push(2);
            for number in [turn, index, calls] {
                put_number(out, (*number).into());
            }
            put_text(out, call_id);
            put_text(out, tool);
            put_bytes(out, arguments_json);
            put_text(out, message_text);
            put_text(out, &time.map(|time| time.to_string()).unwrap_or_default());
        }
        ItemBody::End => out.push(3),
        ItemBody::RuntimeEvent(occurrence) => {
            let Occurrence { event: RuntimeEvent { trigger, tokens, external_content }, reputation, at } = occurrence;
            out.push(4);
            put_text(out, trigger.word());
            out.extend_from_slice(&tokens.to_le_bytes());
            out.push((*external_content).into());
            out.push(reputation.is_some().into());
            reputation.iter().for_each(|real| out.extend_from_slice(&real.to_le_bytes()));
            out.extend_from_slice(&at.to_le_bytes());
        }
    }
}

fn read_gate(reader: &mut Reader<'_>) -> Result<Gate, BytesError> {
    match reader.byte()? {
        1 => Ok(Gate::Allow),
        2 => Ok(Gate::Review),
        3 => Ok(Gate::Deny),
        _ => Err(BytesError::Wide),
    }
}

fn read_items(bytes: &[u8]) -> Result<Kept, BytesError> {
    let mut reader = versioned(bytes)?;
    let items = reader.list(read_item)?;
    if items.is_empty() {
        let moved = Moved {
            pack: read_pack(&mut reader)?,
            limits: reader.text()?.to_owned(),
            told: Told {
                hits: reader.list(|r| Ok::<_, BytesError>((r.text()?.into(), r.number32()?)))?,
                turn: reader.number32()?,
                answers: reader.list(|r| Ok::<_, BytesError>((r.number32()?, read_gate(r)?)))?,
            },
        };
        return if reader.is_empty() { Ok(Kept::Moved(moved)) } else { Err(BytesError::Wide) };
    }
    match items.into_iter().collect::<Option<Vec<Item>>>() {
        _ if !reader.is_empty() => Err(BytesError::Wide),
        Some(items) => Ok(Kept::Items(items)),
        None => Ok(Kept::GivenBack),
    }
}

/// An item; nothing for a probe that has failed.
fn read_item(reader: &mut Reader<'_>) -> Result<Option<Item>, BytesError> {
    let (seq, print) = (reader.number()?, Digest::new(reader.array()?));
    let body = match reader.byte()? {
        1 => {
            let json = read_bytes(reader)?;
            ItemBody::Message { message: json::parse(&json).map_err(|_| BytesError::Text)?, json }
        }
        2 => ItemBody::Proposal(ProposedCall {
            turn: reader.number32()?,
            index: reader.number32()?,
            calls: reader.number32()?,
            call_id: reader.text()?.to_owned(),
            tool: reader.text()?.to_owned(),
            arguments_json: read_bytes(reader)?,
            message_text: reader.text()?.to_owned(),
            time: match reader.text()? {
                "" => None,
                time => Some(time.parse().map_err(|_| BytesError::Text)?),
            },
        }),
        3 => ItemBody::End,
        4 => ItemBody::RuntimeEvent(Occurrence {
            event: RuntimeEvent {
                trigger: Trigger::from_word(reader.text()?).ok_or(BytesError::Text)?,
                tokens: i64::from_le_bytes(reader.array()?),
                external_content: reader.byte()? == 1,
            },
            reputation: if reader.byte()? == 1 { Some(f64::from_le_bytes(reader.array()?)) } else { None },
            at: f64::from_le_bytes(reader.array()?),
        }),
        5 => return Ok(None),
        _ => return Err(BytesError::Wide),
    };
    Ok(Some(Item { seq, print, body }))
}

fn read_bytes(reader: &mut Reader<'_>) -> Result<Bytes, BytesError> {
    let len = reader.len()?;
    Ok(Bytes::copy_from_slice(reader.bytes(len)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    const SECRET: &str = "mia.li@example.com";

    fn head() -> Head {
        let digest = Digest::new([7; 32]);
        let pack = Arc::new(PackRef { name: "p".into(), version: "1.0.0".into(), digest });
        Head {
            whole: true,
            agent: "a".into(),
            mode: Mode::Episode,
            pack,
            asked: "p@1".into(),
            limits: "few".to_owned(),
        }
    }

    fn items() -> Vec<Item> {
        let json = Bytes::from(format!(r#"{{"role":"user","content":"{SECRET}"}}"#));
        let call = ProposedCall {
            turn: 1,
            index: 2,
            calls: 3,
            call_id: "c".to_owned(),
            tool: "t".to_owned(),
            arguments_json: Bytes::from_static(b"{\"a\":1e400"),
            message_text: "m".to_owned(),
            time: Some("17.25".parse().unwrap()),
        };
        let event = |reputation| Occurrence {
            event: RuntimeEvent { trigger: Trigger::Manual, tokens: -5, external_content: true },
            reputation,
            at: 1.0 / 3.0,
        };
        let bodies = [
            ItemBody::Message { message: json::parse(&json).unwrap(), json },
            ItemBody::Proposal(call),
            ItemBody::RuntimeEvent(event(None)),
            ItemBody::RuntimeEvent(event(Some(0.1))),
            ItemBody::End,
        ];
        (5..).zip(bodies).map(|(seq, body)| Item { seq, print: Digest::new([seq as u8; 32]), body }).collect()
    }

    fn key() -> SessionKey {
        SessionKey::new([3; 32])
    }

    /// The entries that writes leave.
    fn kept(writes: Vec<JournalWrite>) -> Vec<JournalEntry> {
        let mut entries = Vec::new();
        for write in writes {
            match write.change {
                JournalChange::Add { number, bytes } => entries.push((number, bytes)),
                JournalChange::Drop => entries.clear(),
            }
        }
        entries
    }

    fn written() -> Vec<JournalEntry> {
        let mut journal = Journal::new("s".into(), head(), 1 << 20);
        let mut writes = journal.judged(&key(), &items().iter().take(2).collect::<Vec<_>>());
        writes.extend(journal.given_back(&key()));
        writes.extend(journal.judged(&key(), &items().iter().skip(2).collect::<Vec<_>>()));
        kept(writes)
    }

    #[test]
    fn a_session_that_begins_takes_nothing_over_from_an_earlier_one() {
        let mut entries = written();
        let mut anew = Journal::new("s".into(), head(), 1 << 20);
        for write in anew.judged(&key(), &items().iter().take(1).collect::<Vec<_>>()) {
            match write.change {
                JournalChange::Drop => entries.clear(),
                JournalChange::Add { number, bytes } => entries.push((number, bytes)),
            }
        }
        assert_eq!(read(&key(), "s", &entries).1.unwrap().len(), 1);
    }

    #[test]
    fn a_move_reads_back() {
        let mut journal = Journal::new("s".into(), head(), 1 << 20);
        let mut writes = journal.judged(&key(), &items().iter().take(1).collect::<Vec<_>>());
        let hits = vec![("A".into(), 3), ("B".into(), 1)];
        let told = Told { hits, turn: 4, answers: vec![(0, Gate::Allow), (2, Gate::Deny)] };
        writes.extend(journal.moved(&key(), &told));
        let read = read(&key(), "s", &kept(writes)).1.unwrap();
        let Some(Kept::Moved(moved)) = read.last() else { panic!("{read:?}") };
        assert_eq!(*moved, Moved { pack: head().pack, limits: "few".to_owned(), told });
    }

    #[test]
    fn a_journal_reads_back_and_is_never_in_clear() {
        let entries = written();
        assert_eq!(entries.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(entries.iter().all(|(_, bytes)| !bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())));
        let (read_head, read_items) = read(&key(), "s", &entries);
        assert_eq!(read_head, Some(head()));
        let (mut first, mut then) = (items(), items());
        first.truncate(2);
        then.drain(..2);
        let expected = [Kept::Items(first), Kept::GivenBack, Kept::Items(then)];
        assert_eq!(format!("{:?}", read_items.unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn what_was_changed_moved_or_left_out_is_noticed() {
        let entries = written();
        let why = |session: &str, entries: &[JournalEntry]| read(&key(), session, entries).1.unwrap_err();
        assert_eq!(why("other", &entries), Unread::Broken);
        assert_eq!(read(&SessionKey::new([4; 32]), "s", &entries).1.unwrap_err(), Unread::Broken);
        for n in 0..entries.len() {
            for byte in 0..entries[n].1.len() {
                let mut changed = entries.clone();
                changed[n].1[byte] ^= 1;
                assert_eq!(why("s", &changed), Unread::Broken);
            }
            if n + 1 < entries.len() {
                let mut without = entries.clone();
                without.remove(n);
                assert_eq!(why("s", &without), Unread::Gap);
                let mut swapped = entries.clone();
                (swapped[n].1, swapped[n + 1].1) = (entries[n + 1].1.clone(), entries[n].1.clone());
                assert_eq!(why("s", &swapped), Unread::Broken);
            }
        }
        assert_eq!(why("s", &[]), Unread::Gap);
    }

    #[test]
    fn a_journal_that_outgrows_its_bound_says_so_and_no_more() {
        let mut journal = Journal::new("s".into(), head(), 1_000);
        let mut writes = Vec::new();
        for _ in 0..20 {
            writes.extend(journal.judged(&key(), &items().iter().collect::<Vec<_>>()));
        }
        let entries = kept(writes);
        assert_eq!(entries.len(), 1);
        let (told, kept_items) = read(&key(), "s", &entries);
        assert_eq!((told.unwrap().pack, kept_items.unwrap_err()), (head().pack, Unread::TooLong));
        assert_eq!(kept(journal.closed()).len(), 0);
        assert_eq!(Journal::new("s".into(), head(), 0).judged(&key(), &[&items()[0]]), []);
    }
}
