//! Reading sealed answers: one record at a time, by somebody who gives a name and a reason, and only once it is
//! recorded that they did.

use std::{ops::ControlFlow, sync::Arc};

use crate::{
    audit::{Answers, Body, Draft, DriftRecord, Reading, RecordNumber, scan},
    redact::Side,
};

use super::{
    Service,
    requests::{Named, RequestError, Turn},
    writer::AuditError,
};

/// Whose answers are to be read, by whom and why.
#[derive(Clone, Debug)]
pub struct RevealAsk {
    /// The record.
    pub record: RecordNumber,
    /// Who reads.
    pub principal: String,
    /// Why.
    pub reason: String,
}

/// The answers of a record. Not to be printed, so it has no `Debug`.
pub struct Revealed {
    /// The record of this reading.
    pub reading: RecordNumber,
    /// The session.
    pub session: Arc<str>,
    /// The evaluation.
    pub evaluation: Arc<str>,
    /// The answers as JSON text, by who gave them.
    pub answers: Vec<(Side, String)>,
}

/// Why answers were not shown. Says nothing of them.
#[derive(Debug, thiserror::Error)]
pub enum RevealError {
    /// There is no such record.
    #[error("there is no record {record}")]
    UnknownRecord {
        /// Its number.
        record: RecordNumber,
    },
    /// It holds no sealed answers.
    #[error("record {record} holds no sealed answers")]
    NotSealed {
        /// Its number.
        record: RecordNumber,
    },
    /// The key is not here.
    #[error("record {record} is sealed with key `{key}`, which this server does not have")]
    NoKey {
        /// Its number.
        record: RecordNumber,
        /// The key's id.
        key: Arc<str>,
    },
    /// The key is here and does not open it.
    #[error("record {record} does not open with key `{key}`: the key is another one, or the record was changed")]
    Damaged {
        /// Its number.
        record: RecordNumber,
        /// The key's id.
        key: Arc<str>,
    },
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The reading could not be recorded.
    #[error("not recorded: {0}")]
    Audit(#[from] AuditError),
}

impl Service {
    /// Shows the sealed answers of a record, once that is recorded.
    pub async fn reveal(&self, ask: RevealAsk, named: Option<Named>) -> Result<Revealed, RevealError> {
        let turn = self.turn(named.as_ref()).await?;
        let RevealAsk { record, principal, reason } = ask;
        let drift = self.drift_record(record).await?;
        let answers = self.opened(record, &drift)?;
        let reading = Reading {
            session: drift.session.clone(),
            pack: drift.pack.clone(),
            record,
            principal: principal.into(),
            reason: reason.into(),
        };
        let reading = match turn {
            // That it was asked for is recorded already, by the same person for the same reason.
            Turn::Repeated(number) => number,
            Turn::New(_) => {
                let place = self.audit.place().await?;
                let recorded = place.answer(named, vec![Draft::Reading(reading)], Vec::new()).done().await?;
                recorded.number().unwrap_or_default()
            }
        };
        let (session, evaluation) = (drift.session, drift.evaluation);
        Ok(Revealed { reading, session, evaluation, answers })
    }

    async fn drift_record(&self, number: RecordNumber) -> Result<DriftRecord, RevealError> {
        let found = self
            .read(move |store| {
                let mut found = None;
                scan(store, number, |record| {
                    found = (record.number == number).then_some(record.body);
                    ControlFlow::Break(())
                })?;
                Ok(found)
            })
            .await
            .map_err(RequestError::from)?;
        match found {
            None => Err(RevealError::UnknownRecord { record: number }),
            Some(Body::Drift(drift)) => Ok(*drift),
            Some(_) => Err(RevealError::NotSealed { record: number }),
        }
    }

    fn opened(&self, record: RecordNumber, drift: &DriftRecord) -> Result<Vec<(Side, String)>, RevealError> {
        let Answers { sealed, .. } = &drift.answers;
        if sealed.is_empty() {
            return Err(RevealError::NotSealed { record });
        }
        let open = |(side, sealed): &(Side, crate::redact::Sealed)| {
            let id = || sealed.key.clone();
            let key = self.keys.payload.of(&sealed.key).ok_or_else(|| RevealError::NoKey { record, key: id() })?;
            let clear = key.open(sealed, &drift.session, &drift.evaluation, *side);
            Ok((*side, clear.ok_or_else(|| RevealError::Damaged { record, key: id() })?))
        };
        sealed.iter().map(open).collect()
    }
}
