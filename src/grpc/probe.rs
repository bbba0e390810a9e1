//! The caller of a `Probe` stream as the adapter that asks models: questions go out, answers come in, one probe
//! after another.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tonic::{Status, Streaming};

use crate::{
    drift::ModelOutput,
    service::{Adapter, ProbeEnd, ProbeQuestion, ProbeRole, Service},
};

use super::{
    admission::Admission,
    convert_drift as convert, status,
    wire::{self, probe_request, probe_response},
};

/// Runs the probes of one stream until the caller has no more, or does what the protocol does not have.
pub async fn run(
    service: Arc<Service>,
    admission: Admission,
    requests: Streaming<wire::ProbeRequest>,
    answers: mpsc::Sender<Result<wire::ProbeResponse, Status>>,
    patience: Duration,
) {
    let mut caller = Caller { requests, answers, admission, patience, late: Vec::new(), broken: None };
    while let Some(start) = caller.start().await {
        let ended = match convert::probe_start(start) {
            Ok(ask) => service.probe(ask, &mut caller).await.map_err(Status::from),
            Err(invalid) => Err(invalid),
        };
        let ended = ended.map(|end| match end {
            ProbeEnd::Found(record) => probe_response::Message::Result(convert::evaluated(&record)),
            ProbeEnd::Failed { probe, failure } => probe_response::Message::Failure(wire::ProbeFailure {
                probe_id: probe.to_string(),
                label: failure.word().to_owned(),
                message: failure.to_string(),
            }),
        });
        match ended {
            Ok(message) => caller.send(message).await,
            Err(status) => caller.broken = caller.broken.or(Some(status)),
        }
        if caller.broken.is_some() {
            break;
        }
    }
    if let Some(status) = caller.broken {
        // A caller that has gone away needs no word.
        let _ = caller.answers.send(Err(status)).await;
    }
}

struct Caller {
    requests: Streaming<wire::ProbeRequest>,
    answers: mpsc::Sender<Result<wire::ProbeResponse, Status>>,
    admission: Admission,
    /// How long an answer may take.
    patience: Duration,
    /// Who was too late, and may still answer.
    late: Vec<ProbeRole>,
    /// Why the stream ends; nothing while it goes on.
    broken: Option<Status>,
}

impl Caller {
    /// The next probe to begin.
    async fn start(&mut self) -> Option<wire::ProbeStart> {
        loop {
            let answer = match self.next().await? {
                probe_request::Message::Start(start) => return Some(start),
                probe_request::Message::Answer(answer) => convert::probe_answer(answer),
            };
            match answer {
                Err(invalid) => self.broken = Some(invalid),
                Ok((role, _)) if self.was_late(role) => continue,
                Ok(_) => self.refuse("answer", "no question is open"),
            }
            return None;
        }
    }

    /// Whether an answer comes after its time; once for each question.
    fn was_late(&mut self, role: ProbeRole) -> bool {
        let place = self.late.iter().position(|late| *late == role);
        place.map(|at| self.late.swap_remove(at)).is_some()
    }

    /// The next message; nothing at the end, which may have a reason.
    async fn next(&mut self) -> Option<probe_request::Message> {
        let request = tokio::select! {
            biased;
            () = self.admission.draining() => {
                self.broken = Some(status::stopping());
                return None;
            }
            request = self.requests.next() => request?,
        };
        match request {
            Ok(wire::ProbeRequest { message: Some(message) }) => Some(message),
            Ok(wire::ProbeRequest { message: None }) => {
                self.refuse("message", "must hold a start or an answer");
                None
            }
            Err(broken) => {
                self.broken = Some(broken);
                None
            }
        }
    }

    fn refuse(&mut self, field: &str, why: &str) {
        self.broken = Some(status::invalid(vec![status::violation(field, why)]));
    }

    async fn send(&mut self, message: probe_response::Message) {
        // Where the caller has gone away, the next message does not come either.
        let _ = self.answers.send(Ok(wire::ProbeResponse { message: Some(message) })).await;
    }
}

impl Adapter for Caller {
    async fn ask(&mut self, questions: Vec<ProbeQuestion>) -> Vec<Option<ModelOutput>> {
        let roles: Vec<ProbeRole> = questions.iter().map(|q| q.role).collect();
        for question in &questions {
            self.send(probe_response::Message::Question(convert::question(question))).await;
        }
        let mut found: Vec<Option<Option<ModelOutput>>> = vec![None; roles.len()];
        let limit = Instant::now() + self.patience;
        while found.iter().any(Option::is_none) && self.broken.is_none() {
            let message = match timeout_at(limit, self.next()).await {
                Ok(Some(message)) => message,
                // Too late, or no more to come: what is open has failed.
                Ok(None) | Err(_) => break,
            };
            let answer = match message {
                probe_request::Message::Answer(answer) => convert::probe_answer(answer),
                probe_request::Message::Start(_) => {
                    self.refuse("start", "the probe before is not over");
                    break;
                }
            };
            match answer {
                Err(invalid) => self.broken = Some(invalid),
                Ok((role, output)) => {
                    let open = roles.iter().zip(&mut found).find(|(asked, slot)| **asked == role && slot.is_none());
                    match open {
                        Some((_, slot)) => *slot = Some(output),
                        None if self.was_late(role) => {}
                        None => self.refuse("answer.role", "was not asked, or has answered"),
                    }
                }
            }
        }
        let unanswered = roles.iter().zip(&found).filter(|(_, answer)| answer.is_none());
        self.late.extend(unanswered.map(|(role, _)| *role));
        found.into_iter().map(Option::flatten).collect()
    }
}
