//! One stream of `JoinEpisode`: it takes a side, then inputs go into the episode and messages come out of it, each at its
//! own pace, until the episode ends or the caller goes away.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep_until,
};
use tonic::{Status, Streaming};

use crate::service::{AuditorFault, Delivery, EndReason, JoinedAs, Outlet, Service, Speaker, ToAuditor, ToTarget};

use super::{
    admission::Admission,
    convert_join::{self as convert, Input, Join},
    status,
    wire::{self, join_episode_request},
};

type Answers = mpsc::Sender<Result<wire::JoinEpisodeResponse, Status>>;

/// Runs a stream. What it ends with, other than the episode's end, is its status.
pub async fn run(
    service: Arc<Service>,
    admission: Admission,
    requests: Streaming<wire::JoinEpisodeRequest>,
    answers: Answers,
) {
    if let Err(status) = join(service, admission, requests, &answers).await {
        // A caller that has gone away needs no word.
        let _ = answers.send(Err(status)).await;
    }
}

async fn join(
    service: Arc<Service>,
    admission: Admission,
    mut requests: Streaming<wire::JoinEpisodeRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    let first = tokio::select! {
        biased;
        () = admission.draining() => return Err(status::stopping()),
        () = answers.closed() => return Ok(()),
        () = tokio::time::sleep(admission.idle()) => return Err(status::idle_stream(admission.idle())),
        first = requests.next() => first,
    };
    let Some(first) = first.transpose()? else { return Ok(()) };
    let Some(join_episode_request::Message::Join(join)) = first.message else {
        return Err(status::invalid(vec![status::violation("message", "the first message must join")]));
    };
    match convert::join(join, service.prints())? {
        Join::Auditor(ask, scenario) => {
            let joined = service.join_as_auditor(ask, scenario).await?;
            relay(&service, &admission, joined, requests, answers).await
        }
        Join::Target(ask, setup) => {
            let joined = service.join_as_target(ask, setup).await?;
            relay(&service, &admission, joined, requests, answers).await
        }
    }
}

/// What is particular to a side.
trait OnTheWire: Outlet {
    /// Takes an input of this side. An error without a status is the end, of which the side is told otherwise.
    fn take(
        service: &Service,
        speaker: &Speaker<Self>,
        input: wire::EpisodeInput,
    ) -> impl Future<Output = Result<(), Option<Status>>> + Send;

    /// A message to this side.
    fn told(delivery: Delivery<Self>) -> wire::JoinEpisodeResponse;
}

impl OnTheWire for ToAuditor {
    async fn take(
        service: &Service,
        speaker: &Speaker<ToAuditor>,
        input: wire::EpisodeInput,
    ) -> Result<(), Option<Status>> {
        let (number, input) = convert::auditor_input(input)?;
        let taken = match input {
            Input::Take(text) => service.auditor_says(speaker, number, text).await,
            Input::End => service.end_episode(speaker, number, EndReason::Auditor).await.map_err(AuditorFault::from),
        };
        taken.map_err(convert::auditor_fault)
    }

    fn told(delivery: Delivery<ToAuditor>) -> wire::JoinEpisodeResponse {
        convert::to_auditor(delivery)
    }
}

impl OnTheWire for ToTarget {
    async fn take(
        service: &Service,
        speaker: &Speaker<ToTarget>,
        input: wire::EpisodeInput,
    ) -> Result<(), Option<Status>> {
        let (number, input) = convert::target_input(input, service.prints())?;
        let taken = match input {
            Input::Take(input) => service.target_sends(speaker, number, input).await,
            Input::End => service.end_episode(speaker, number, EndReason::Target).await,
        };
        taken.map_err(convert::target_fault)
    }

    fn told(delivery: Delivery<ToTarget>) -> wire::JoinEpisodeResponse {
        convert::to_target(delivery)
    }
}

/// Sends a side what is there for it, while what it sends is taken.
async fn relay<M: OnTheWire>(
    service: &Arc<Service>,
    admission: &Admission,
    JoinedAs { next, mut seat, speaker }: JoinedAs<M>,
    requests: Streaming<wire::JoinEpisodeRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    let (refuse, mut refused) = oneshot::channel();
    // Apart, so that an input is taken to its end though the caller goes away in the middle.
    tokio::spawn(inputs(service.clone(), speaker, requests, refuse));
    let deadline = seat.deadline();
    let (mut takes, mut late) = (true, false);
    let mut message = convert::joined(next);
    loop {
        if answers.send(Ok(message)).await.is_err() {
            return Ok(());
        }
        message = loop {
            tokio::select! {
                biased;
                () = answers.closed() => return Ok(()),
                () = admission.draining() => return Err(status::stopping()),
                delivery = seat.next() => match delivery {
                    Some(delivery) => break M::told(delivery),
                    None => return Ok(()),
                },
                status = &mut refused, if takes => match status {
                    Ok(status) => return Err(status),
                    // It sends no more, and still receives.
                    Err(_) => takes = false,
                },
                () = sleep_until(deadline), if !late => {
                    late = true;
                    service.end_at_deadline(&seat).await;
                }
            }
        };
    }
}

/// Takes what a side sends, until it sends no more, something is refused, or it has left.
async fn inputs<M: OnTheWire>(
    service: Arc<Service>,
    speaker: Speaker<M>,
    mut requests: Streaming<wire::JoinEpisodeRequest>,
    refuse: oneshot::Sender<Status>,
) {
    loop {
        let request = tokio::select! {
            biased;
            () = speaker.gone() => return,
            request = requests.next() => request,
        };
        let taken = match request {
            None => return,
            Some(Err(broken)) => Err(Some(broken)),
            Some(Ok(wire::JoinEpisodeRequest { message: Some(join_episode_request::Message::Input(input)) })) => {
                M::take(&service, &speaker, input).await
            }
            Some(Ok(_)) => {
                Err(Some(status::invalid(vec![status::violation("message", "must hold an input after the join")])))
            }
        };
        if let Err(why) = taken {
            // Dropped first: whoever hears of the refusal may join again.
            drop(speaker);
            if let Some(status) = why {
                let _ = refuse.send(status);
            }
            return;
        }
    }
}
