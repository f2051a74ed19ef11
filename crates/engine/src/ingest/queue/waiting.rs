//! Whom a queue has wait, and how it ends.

use std::time::Instant;

use super::{Queue, State};

impl Queue {
    /// Readers that wait look again.
    pub(super) fn there_is_room(&self) {
        self.waker.notify_all();
        self.room.notify_waiters();
    }

    fn full(&self, state: &State) -> bool {
        state.overflows(self.most) && (self.spill.is_none() || state.spill_full)
    }

    /// Whether readers have to wait.
    pub fn is_full(&self) -> bool {
        self.full(&self.state())
    }

    /// Whether what comes goes to disk.
    pub fn spills(&self) -> bool {
        self.state().spilled > 0
    }

    /// Waits until there is room; false if nothing is wanted any more.
    pub fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| self.full(state) && !state.closed;
        let state = self.waker.wait_while(self.state(), full).expect("no thread panics while it holds the lock");
        !state.closed
    }

    /// The same for readers that share a thread.
    pub async fn room(&self) -> bool {
        self.until(|state| state.closed || !self.full(state)).await;
        !self.is_closed()
    }

    /// Waits for an instant; false if nothing is wanted any more.
    pub fn sleep_until(&self, due: Instant) -> bool {
        let mut state = self.state();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return !state.closed;
            }
            state = self.waker.wait_timeout(state, left).expect("no thread panics while it holds the lock").0;
        }
    }

    /// Returns when nothing is wanted any more.
    pub async fn closed(&self) {
        self.until(|state| state.closed).await;
    }

    /// Returns when clients take no more.
    pub async fn finished(&self) {
        self.until(|state| state.finished).await;
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let mut stats = std::pin::pin!(self.room.notified());
            stats.as_mut().enable();
            if is_so(&self.state()) {
                return;
            }
            stats.await;
        }
    }

    /// Whether nothing is wanted any more.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// A reader has nothing more.
    pub fn reader_ended(&self) {
        self.state().readers -= 1;
        self.events.notify_waiters();
    }

    /// Nothing is wanted any more; what is there is still given out.
    ///
    /// Clients close it at each of their turns behind the end: only the first tells the others, or they would wake
    /// themselves for ever.
    pub fn close(&self) {
        if !self.is_closed() {
            self.change(|state| state.closed = true);
        }
    }

    /// The source has ended by itself, though it could go on.
    pub fn close_by_itself(&self) {
        self.change(|state| (state.ended, state.closed) = (!state.closed, true));
    }

    /// Clients take no more, and nothing stays on disk.
    pub fn finish(&self) {
        self.change(|state| (state.closed, state.finished) = (true, true));
        self.drain.notify_all();
        if let Some(spill) = &self.spill {
            spill.lock().expect("no thread panics while it holds the lock").close();
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.there_is_room();
        self.events.notify_waiters();
    }

    /// Whether the source came to its end by itself.
    pub fn ran_out(&self) -> bool {
        let state = self.state();
        state.ended || (state.readers == 0 && !state.closed)
    }
}
