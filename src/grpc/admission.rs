//! What every call passes: the limit of calls in progress, and the caller's deadline.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, metadata::MetadataMap};

use super::status;

/// The door.
#[derive(Clone, Debug)]
pub struct Admission {
    places: Arc<Semaphore>,
    limit: usize,
    draining: CancellationToken,
    cut: CancellationToken,
}

/// A call in progress; its place is free again when this is dropped.
#[derive(Debug)]
pub struct Admitted {
    _place: OwnedSemaphorePermit,
    deadline: Option<Instant>,
    cut: CancellationToken,
}

/// When a caller stops waiting.
#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

/// Notes a call's deadline as its headers come in. The transport has a timer of its own for it and
/// says CANCELLED; this one is set just before that, so that the handler's answer is there first.
pub fn note_deadline(mut request: Request<()>) -> Result<Request<()>, Status> {
    if let Some(span) = timeout(request.metadata()) {
        let at = Instant::now() + span.min(Duration::from_secs(365 * 24 * 3600));
        request.extensions_mut().insert(Deadline(at));
    }
    Ok(request)
}

impl Admission {
    /// A door with a limit. `draining` is cancelled when the server begins to stop, `cut` when it
    /// waits no longer.
    pub fn new(limit: usize, draining: CancellationToken, cut: CancellationToken) -> Admission {
        Admission { places: Arc::new(Semaphore::new(limit)), limit, draining, cut }
    }

    /// Lets a call in, or says that too many are in progress.
    pub fn admit<T>(&self, request: &Request<T>) -> Result<Admitted, Status> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| status::too_many_calls(self.limit))?;
        let deadline = request.extensions().get().map(|Deadline(at)| *at);
        Ok(Admitted { _place: place, deadline, cut: self.cut.clone() })
    }

    /// Done when the server begins to stop.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Done when no call is in progress.
    pub async fn idle(&self) {
        let all = u32::try_from(self.limit).unwrap_or(u32::MAX);
        // Closed by nobody, so this only waits.
        let _ = self.places.acquire_many(all).await;
    }
}

impl Admitted {
    /// Runs a call, up to its deadline and to the moment that the server waits no longer.
    pub async fn run<T>(self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        tokio::select! {
            biased;
            result = call => result,
            status = self.over() => Err(status),
        }
    }

    /// A stream of answers with the same two ends; the call is in progress until it is dropped.
    pub fn stream<T: Send + 'static>(
        self,
        answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>> {
        let state = Some((Box::pin(answers), self));
        Box::pin(stream::unfold(state, |state| async move {
            let (mut answers, admitted) = state?;
            tokio::select! {
                biased;
                answer = answers.next() => Some((answer?, Some((answers, admitted)))),
                status = admitted.over() => Some((Err(status), None)),
            }
        }))
    }

    async fn over(&self) -> Status {
        let deadline = async {
            match self.deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = deadline => status::deadline_exceeded(),
            () = self.cut.cancelled() => status::stopping(),
        }
    }
}

/// The span of a `grpc-timeout` header: at most eight digits and a unit.
fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(n * 3600),
        'M' => Duration::from_secs(n * 60),
        'S' => Duration::from_secs(n),
        'm' => Duration::from_millis(n),
        'u' => Duration::from_micros(n),
        'n' => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A request as it comes to a handler.
    fn call(timeout: Option<&'static str>) -> Request<()> {
        let mut request = Request::new(());
        if let Some(timeout) = timeout {
            request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
        }
        note_deadline(request).unwrap()
    }

    fn door(limit: usize) -> Admission {
        Admission::new(limit, CancellationToken::new(), CancellationToken::new())
    }

    #[test]
    fn timeouts_read_as_the_protocol_says() {
        let span = |text: &'static str| timeout(call(Some(text)).metadata());
        assert_eq!(span("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(span("100m"), Some(Duration::from_millis(100)));
        assert_eq!(span("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for bad in ["", "m", "5", "5x", "-5m", "999999999m", "1 m"] {
            assert_eq!(span(bad), None, "{bad}");
        }
        assert_eq!(timeout(&MetadataMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_past_its_deadline_is_answered_so() {
        let admitted = door(1).admit(&call(Some("100m"))).unwrap();
        let answer: Result<(), Status> = admitted.run(std::future::pending()).await;
        assert_eq!(answer.unwrap_err().code(), tonic::Code::DeadlineExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_past_its_deadline_ends_with_it() {
        let admitted = door(1).admit(&call(Some("1S"))).unwrap();
        let answers = stream::iter([Ok(1)]).chain(stream::pending());
        let got: Vec<Result<i32, Status>> = admitted.stream(answers).collect().await;
        assert_eq!(got.len(), 2);
        assert!(matches!(got.first(), Some(Ok(1))));
        assert_eq!(got.last().unwrap().as_ref().unwrap_err().code(), tonic::Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn one_call_too_many_is_refused_until_another_ends() {
        let door = door(2);
        let none = call(None);
        let first = door.admit(&none).unwrap();
        let second = door.admit(&none).unwrap().stream(stream::pending::<Result<(), Status>>());
        assert_eq!(door.admit(&none).unwrap_err().code(), tonic::Code::ResourceExhausted);
        drop(first);
        let third = door.admit(&none).unwrap();
        assert!(door.admit(&none).is_err());
        drop((second, third));
        door.idle().await;
    }
}
