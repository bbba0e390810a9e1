//! What every call passes: the limits of calls in progress and of open streams, and the caller's deadline.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, metadata::MetadataMap};

use super::status;

/// The door.
#[derive(Clone, Debug)]
pub struct Admission {
    calls: Arc<Semaphore>,
    /// Apart, so that callers who hold streams open take no place of a call.
    streams: Arc<Semaphore>,
    most: Most,
    draining: CancellationToken,
    cut: CancellationToken,
}

/// A call in progress; its place is free again when this is dropped.
#[derive(Debug)]
pub struct Admitted {
    _place: OwnedSemaphorePermit,
    deadline: Option<Instant>,
    cut: CancellationToken,
    idle: Duration,
}

/// How much may be in progress.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Calls.
    pub calls: usize,
    /// Streams.
    pub streams: usize,
    /// How long a stream may be idle.
    pub idle: Duration,
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
    /// A door with limits. `draining` is cancelled when the server begins to stop.
    pub fn new(most: Most, draining: CancellationToken) -> Admission {
        let [calls, streams] = [most.calls, most.streams].map(|n| Arc::new(Semaphore::new(n)));
        Admission { calls, streams, most, draining, cut: CancellationToken::new() }
    }

    /// Lets a call in, or says that too many are in progress.
    pub fn admit<T>(&self, request: &Request<T>) -> Result<Admitted, Status> {
        self.enter(&self.calls, request, || status::too_many_calls(self.most.calls))
    }

    /// Lets a stream in, or says that too many are open.
    pub fn admit_stream<T>(&self, request: &Request<T>) -> Result<Admitted, Status> {
        self.enter(&self.streams, request, || status::too_many_streams(self.most.streams))
    }

    /// How long a caller of a stream may keep silent.
    pub fn idle(&self) -> Duration {
        self.most.idle
    }

    fn enter<T>(
        &self,
        places: &Arc<Semaphore>,
        request: &Request<T>,
        full: impl FnOnce() -> Status,
    ) -> Result<Admitted, Status> {
        let place = places.clone().try_acquire_owned().map_err(|e| match e {
            TryAcquireError::Closed => status::stopping(),
            TryAcquireError::NoPermits => full(),
        })?;
        let deadline = request.extensions().get().map(|Deadline(at)| *at);
        Ok(Admitted { _place: place, deadline, cut: self.cut.clone(), idle: self.most.idle })
    }

    /// Done when the server begins to stop.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Waits until no call is in progress, and lets none in from then on. A call that comes in later, on a connection
    /// that is still there, is refused before anything of it is judged.
    pub async fn close_when_idle(&self) {
        for (places, most) in [(&self.streams, self.most.streams), (&self.calls, self.most.calls)] {
            let all = u32::try_from(most).unwrap_or(u32::MAX);
            // Closed while no place is free. It fails if it is closed already, which is as well.
            if let Ok(_all) = places.acquire_many(all).await {
                places.close();
            }
        }
    }

    /// Lets no call in from now on, and ends those in progress.
    pub fn cut(&self) {
        self.streams.close();
        self.calls.close();
        self.cut.cancel();
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
        self.stream_unless(answers, None)
    }

    /// A stream of answers to what its caller sends, which ends as well when there is none for too long.
    pub fn stream_unless_idle<T: Send + 'static>(
        self,
        answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>> {
        let idle = self.idle;
        self.stream_unless(answers, Some(idle))
    }

    fn stream_unless<T: Send + 'static>(
        self,
        answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
        idle: Option<Duration>,
    ) -> Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>> {
        let state = Some((Box::pin(answers), self));
        Box::pin(stream::unfold(state, move |state| async move {
            let (mut answers, admitted) = state?;
            let silence = async {
                match idle {
                    Some(limit) => {
                        tokio::time::sleep(limit).await;
                        status::idle_stream(limit)
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = answers.next() => Some((answer?, Some((answers, admitted)))),
                status = admitted.over() => Some((Err(status), None)),
                status = silence => Some((Err(status), None)),
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
        let most = Most { calls: limit, streams: limit, idle: Duration::from_secs(60) };
        Admission::new(most, CancellationToken::new())
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
        door.close_when_idle().await;
        let refused = door.admit(&none).unwrap_err();
        assert_eq!((refused.code(), refused.message()), (tonic::Code::Unavailable, "the server is stopping"));
    }

    #[tokio::test(start_paused = true)]
    async fn streams_take_no_place_of_a_call_and_end_when_nothing_comes() {
        let door = door(1);
        let none = call(None);
        let watching = door.admit_stream(&none).unwrap().stream(stream::pending::<Result<(), Status>>());
        assert_eq!(door.admit_stream(&none).unwrap_err().message(), "1 streams are open, which is the limit");
        drop(door.admit(&none).unwrap());
        drop(watching);
        let slow = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Some((Ok(1), ()))
        });
        let answers = slow.take(3).chain(stream::pending());
        let got: Vec<Result<i32, Status>> =
            door.admit_stream(&none).unwrap().stream_unless_idle(answers).collect().await;
        assert_eq!(got.iter().filter(|answer| answer.is_ok()).count(), 3);
        assert_eq!(got.last().unwrap().as_ref().unwrap_err().code(), tonic::Code::Aborted);
    }

    /// A call that comes between the last one and the end is not begun: it would be judged and answered otherwise.
    #[tokio::test]
    async fn nothing_is_let_in_behind_the_end() {
        let door = door(2);
        let last = door.admit(&call(None)).unwrap();
        let closing = door.close_when_idle();
        let waiting = async {
            tokio::task::yield_now().await;
            drop(last);
        };
        tokio::join!(closing, waiting);
        assert_eq!(door.admit(&call(None)).unwrap_err().message(), "the server is stopping");
        door.cut();
        assert_eq!(door.admit(&call(None)).unwrap_err().message(), "the server is stopping");
    }
}
