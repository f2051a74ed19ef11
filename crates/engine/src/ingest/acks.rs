//! Acknowledgements to senders: the number of settled lines, in the order sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Reads are merged under one token up to this number of lines, if allowed.
const TOGETHER: u64 = 1000;

/// Counter of the unsettled events of one or several reads.
#[derive(Debug)]
pub struct AckToken {
    left: AtomicUsize,
    waker: Arc<Notify>,
}

impl AckToken {
    /// Creates a token for `events` unsettled events. `waker`: notified when all are settled.
    pub fn new(events: usize, waker: Arc<Notify>) -> Self {
        Self { left: AtomicUsize::new(events), waker }
    }

    /// Adds events unless all events of the token are settled; returns whether they were added.
    fn join(&self, events: usize) -> bool {
        let joined = |left: usize| (left > 0).then_some(left + events);
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, joined).is_ok()
    }

    /// Settles one event; notifies the waker if it was the last. Must not be called more often than there are events.
    pub fn settle(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waker.notify_one();
        }
    }

    /// Returns whether all events of the token are settled.
    fn is_safe(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// Acknowledgement state of one sender.
#[derive(Debug, Default)]
pub struct Acks {
    /// Notified when a token is settled.
    pub waker: Arc<Notify>,
    readings: VecDeque<(u64, Arc<AckToken>)>,
    lines: u64,
    ended: bool,
}

impl Acks {
    /// Adds a read of `lines` lines with `events` events; returns their token. `together`: the read may share
    /// the token of the previous reads.
    pub fn read(&mut self, lines: u64, events: usize, together: bool) -> Arc<AckToken> {
        let before = self.readings.back_mut().filter(|(before, _)| together && *before < TOGETHER);
        if let Some((before, ticket)) = before.filter(|(_, ticket)| ticket.join(events)) {
            *before += lines;
            return ticket.clone();
        }
        let ticket = Arc::new(AckToken::new(events, self.waker.clone()));
        self.readings.push_back((lines, ticket.clone()));
        if events == 0 {
            self.waker.notify_one();
        }
        ticket
    }

    /// Returns the number of the sender's first lines that are all settled, counted from its first line.
    pub fn lines(&mut self) -> u64 {
        while let Some((lines, _)) = self.readings.front().filter(|(_, ticket)| ticket.is_safe()) {
            self.lines += lines;
            self.readings.pop_front();
        }
        self.lines
    }

    /// Declares that no more lines follow, and wakes the task that sends acknowledgements.
    pub fn end(&mut self) {
        self.ended = true;
        self.waker.notify_one();
    }

    /// Returns whether input has ended and all lines are settled.
    pub fn is_all(&self) -> bool {
        self.ended && self.readings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that may share a token do, and lines count only after all events of the token are settled.
    #[test]
    fn readings_that_may_be_safe_together_have_one_ticket_and_no_line_is_safe_too_early() {
        let mut acks = Acks::default();
        let first = acks.read(5, 2, true);
        let second = acks.read(3, 3, true);
        assert!(Arc::ptr_eq(&first, &second));
        (0..4).for_each(|_| first.settle());
        assert_eq!(acks.lines(), 0, "one of five events is not settled");
        first.settle();
        assert_eq!(acks.lines(), 8);
        let third = acks.read(1, 1, true);
        assert!(!Arc::ptr_eq(&first, &third), "the first ticket was settled");
        let fourth = acks.read(1, 1, false);
        assert!(!Arc::ptr_eq(&third, &fourth));
        third.settle();
        assert_eq!(acks.lines(), 9);
    }

    /// Ten thousand reads of one line share ten tokens.
    #[test]
    fn tickets_are_few_however_small_the_readings_are() {
        let mut acks = Acks::default();
        let tickets: std::collections::HashSet<_> =
            (0..10_000).map(|_| Arc::as_ptr(&acks.read(1, 1, true)) as usize).collect();
        assert_eq!(tickets.len(), 10);
    }
}
