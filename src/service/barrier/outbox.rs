//! The messages for one side: those that it was sent last, to be sent again after a lost connection, and those that
//! wait. Bounded; whoever would add to a full one waits.

use std::collections::VecDeque;

/// Messages that were sent and are kept; and messages that may wait.
pub const WINDOW: usize = 64;

/// Messages for one side, numbered from 0.
#[derive(Debug)]
pub struct Outbox<M> {
    kept: VecDeque<M>,
    /// The number of the first that is kept.
    first: u64,
    /// How many of those that are kept were sent.
    sent: usize,
}

/// Messages that a side asks for again are not kept, or never were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// The first that is kept.
    pub first: u64,
    /// The next to come.
    pub next: u64,
}

impl<M> Default for Outbox<M> {
    fn default() -> Outbox<M> {
        Outbox { kept: VecDeque::new(), first: 0, sent: 0 }
    }
}

impl<M: Clone> Outbox<M> {
    /// True if one more message may wait.
    pub fn has_place(&self) -> bool {
        self.kept.len() - self.sent < WINDOW
    }

    /// Adds a message. Without a place for it, it is kept all the same.
    pub fn push(&mut self, message: M) {
        self.kept.push_back(message);
    }

    /// The next message that waits, with its number. It counts as sent.
    pub fn next(&mut self) -> Option<(u64, M)> {
        let message = self.kept.get(self.sent)?.clone();
        let number = self.first + self.sent as u64;
        self.sent += 1;
        if self.sent > WINDOW {
            self.kept.pop_front();
            self.first += 1;
            self.sent -= 1;
        }
        Some((number, message))
    }

    /// Goes back to the first message that the side has not received.
    pub fn resume(&mut self, received: u64) -> Result<(), NotKept> {
        let kept = self.kept.len();
        let sent = received.checked_sub(self.first).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= kept);
        self.sent = sent.ok_or(NotKept { first: self.first, next: self.first + kept as u64 })?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn messages_come_once_in_order_and_again_from_where_the_side_was() {
        let mut outbox = Outbox::default();
        (0..3).for_each(|n| outbox.push(n));
        assert_eq!([outbox.next(), outbox.next()], [Some((0, 0)), Some((1, 1))]);
        outbox.resume(1).unwrap();
        assert_eq!([outbox.next(), outbox.next(), outbox.next()], [Some((1, 1)), Some((2, 2)), None]);
        assert_eq!(outbox.resume(4), Err(NotKept { first: 0, next: 3 }));
    }

    #[test]
    fn as_many_wait_as_the_window_holds_and_as_many_that_were_sent_are_kept() {
        let mut outbox = Outbox::default();
        for n in 0..WINDOW {
            assert!(outbox.has_place());
            outbox.push(n);
        }
        assert!(!outbox.has_place());
        assert_eq!(outbox.next(), Some((0, 0)));
        assert!(outbox.has_place());
        outbox.push(WINDOW);
        // Whoever goes back takes the places of those that waited, and they are bounded all the same.
        outbox.resume(0).unwrap();
        assert!(!outbox.has_place());
        let sent: Vec<_> = std::iter::from_fn(|| outbox.next()).collect();
        assert_eq!(sent, (0..=WINDOW).map(|n| (n as u64, n)).collect::<Vec<_>>());
        assert_eq!(outbox.resume(0), Err(NotKept { first: 1, next: WINDOW as u64 + 1 }));
        outbox.resume(1).unwrap();
        assert_eq!(outbox.next(), Some((1, 1)));
    }
}
