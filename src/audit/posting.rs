//! Postings: under what a record is found. A store keeps, for each session and for each policy, the blocks that hold
//! something of it.

use std::{collections::BTreeSet, sync::Arc};

use super::record::{Body, Draft, PackRef, Record};

/// What records are asked for by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Posting {
    /// A session.
    Session(Arc<str>),
    /// A policy that hit, fired or was undecided, or that a judge spoke of.
    Policy {
        /// The pack's name.
        pack: Arc<str>,
        /// The policy.
        policy: Arc<str>,
    },
}

impl Posting {
    /// The start that the store's keys of its blocks share; no one's is the start of another's.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (tag, texts) = match self {
            Posting::Session(session) => (1, [session.as_ref(), ""]),
            Posting::Policy { pack, policy } => (2, [pack.as_ref(), policy.as_ref()]),
        };
        let mut out = vec![tag];
        for text in texts {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

/// What a record names, as far as it is found under it or counted.
#[derive(Debug, Default)]
pub struct Names<'a> {
    /// Sessions; most records have one.
    pub sessions: Vec<&'a Arc<str>>,
    /// The pack.
    pub pack: Option<&'a Arc<PackRef>>,
    /// Policies that hit, fired or were undecided, or that a judge spoke of.
    pub policies: Vec<&'a Arc<str>>,
}

impl Names<'_> {
    /// Under what the record is found.
    pub(super) fn postings(&self) -> BTreeSet<Posting> {
        let sessions = self.sessions.iter().map(|session| Posting::Session(Arc::clone(session)));
        let policies = self.pack.into_iter().flat_map(|pack| {
            self.policies.iter().map(|policy| Posting::Policy { pack: pack.name.clone(), policy: Arc::clone(policy) })
        });
        sessions.chain(policies).collect()
    }
}

impl Draft {
    /// What it names.
    pub fn names(&self) -> Names<'_> {
        let one = |session, pack| Names { sessions: vec![session], pack: Some(pack), policies: Vec::new() };
        match self {
            Draft::Judged { session, pack, step, .. } => Names {
                policies: (step.hits.iter().map(|h| &h.firing.policy))
                    .chain(step.signals.iter().map(|s| &s.firing.policy))
                    .chain(step.undecided.iter().map(|u| &u.policy))
                    .collect(),
                ..one(session, pack)
            },
            Draft::Judge(report) => Names { policies: vec![&report.policy], ..one(&report.session, &report.pack) },
            Draft::Activated(activation) => Names { pack: Some(&activation.pack), ..Names::default() },
            Draft::Drift(drift) => one(&drift.session, &drift.pack),
            Draft::Reading(reading) => one(&reading.session, &reading.pack),
            Draft::Moved { session, from: _, to } => {
                Names { sessions: vec![session], pack: Some(to), policies: Vec::new() }
            }
            Draft::Closed(closed) => {
                Names { sessions: vec![&closed.session], pack: closed.pack.as_ref(), policies: Vec::new() }
            }
            Draft::Lost(loss) => {
                Names { sessions: loss.sessions.iter().map(|(id, ..)| id).collect(), ..Names::default() }
            }
            Draft::Imported { session, .. } | Draft::Erased { session } => {
                Names { sessions: vec![session], ..Names::default() }
            }
            Draft::Checkpoint(_) | Draft::Pruned { .. } | Draft::SetAside(_) | Draft::Refused(_) => Names::default(),
        }
    }
}

impl Record {
    /// What it names.
    pub fn names(&self) -> Names<'_> {
        let one = |session, pack| Names { sessions: vec![session], pack: Some(pack), policies: Vec::new() };
        match &self.body {
            Body::Judged(judged) => Names {
                policies: (judged.hits.iter().map(|h| &h.policy))
                    .chain(judged.signals.iter().map(|s| &s.policy))
                    .chain(judged.undecided.iter().map(|(policy, ..)| policy))
                    .collect(),
                ..one(&judged.session, &judged.pack)
            },
            Body::Judge(report) => Names { policies: vec![&report.policy], ..one(&report.session, &report.pack) },
            Body::Activated(activation) => Names { pack: Some(&activation.pack), ..Names::default() },
            Body::Drift(drift) => one(&drift.session, &drift.pack),
            Body::Reading(reading) => one(&reading.session, &reading.pack),
            Body::Moved { session, from: _, to } => one(session, to),
            Body::Closed(closed) => {
                Names { sessions: vec![&closed.session], pack: closed.pack.as_ref(), policies: Vec::new() }
            }
            Body::Lost(loss) => {
                Names { sessions: loss.sessions.iter().map(|(id, ..)| id).collect(), ..Names::default() }
            }
            Body::Imported { session, .. } | Body::Erased { session } => {
                Names { sessions: vec![session], ..Names::default() }
            }
            Body::Checkpoint(_) | Body::Pruned { .. } | Body::SetAside(_) | Body::Refused(_) => Names::default(),
        }
    }
}
