//! What senders are told: how many of their lines are safe, in the order in which they sent them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The events of one reading that are not settled yet.
#[derive(Debug)]
pub struct Ticket {
    left: AtomicUsize,
    bell: Arc<Notify>,
}

impl Ticket {
    /// For so many events.
    pub fn new(events: usize, bell: Arc<Notify>) -> Self {
        Self { left: AtomicUsize::new(events), bell }
    }

    /// One of them is settled.
    pub fn settle(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.bell.notify_one();
        }
    }

    fn is_safe(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// How far the lines of one sender are safe.
#[derive(Debug, Default)]
pub struct Safe {
    /// Rings when a ticket is settled.
    pub bell: Arc<Notify>,
    readings: VecDeque<(u64, Arc<Ticket>)>,
    lines: u64,
    ended: bool,
}

impl Safe {
    /// A reading had so many lines, of which so many are events.
    pub fn read(&mut self, lines: u64, events: usize) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::new(events, self.bell.clone()));
        self.readings.push_back((lines, ticket.clone()));
        if events == 0 {
            self.bell.notify_one();
        }
        ticket
    }

    /// How many lines are safe, all before them too.
    pub fn lines(&mut self) -> u64 {
        while let Some((lines, _)) = self.readings.front().filter(|(_, ticket)| ticket.is_safe()) {
            self.lines += lines;
            self.readings.pop_front();
        }
        self.lines
    }

    /// Nothing more is read.
    pub fn end(&mut self) {
        self.ended = true;
        self.bell.notify_one();
    }

    /// Whether all lines that ever will be read are safe.
    pub fn is_all(&self) -> bool {
        self.ended && self.readings.is_empty()
    }
}
