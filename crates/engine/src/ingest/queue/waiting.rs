//! Back-pressure and shutdown of the queue.

use std::time::Instant;

use super::{Queue, State};

impl Queue {
    /// Wakes readers that wait for room.
    pub(super) fn there_is_room(&self) {
        self.waker.notify_all();
        self.room.notify_waiters();
    }

    /// Returns whether readers must wait in this state: memory is full, and so is the spill, if there is one.
    fn full(&self, state: &State) -> bool {
        state.overflows(self.most) && (self.spill.is_none() || state.spill_full)
    }

    /// Returns whether readers must wait, because memory is full, and the spill too if there is one.
    pub fn is_full(&self) -> bool {
        self.full(&self.state())
    }

    /// Returns whether new events go to disk, because earlier ones are there.
    pub fn spills(&self) -> bool {
        self.state().spilled > 0
    }

    /// Blocks until the queue has room or is closed; returns false if it was closed.
    pub fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| self.full(state) && !state.closed;
        let state = self.waker.wait_while(self.state(), full).expect("no thread panics while it holds the lock");
        !state.closed
    }

    /// Waits until the queue has room or is closed; returns false if it was closed. For readers that share a thread.
    pub async fn room(&self) -> bool {
        self.until(|state| state.closed || !self.full(state)).await;
        !self.is_closed()
    }

    /// Blocks until `due`, or until the queue is closed; returns false in the second case.
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

    /// Waits until the queue is closed for new events.
    pub async fn closed(&self) {
        self.until(|state| state.closed).await;
    }

    /// Waits until the queue is finished, so that clients stop taking events.
    pub async fn finished(&self) {
        self.until(|state| state.finished).await;
    }

    /// Waits until the queue's state satisfies `is_so`.
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

    /// Returns whether the queue is closed for new events.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Counts one reader less. Without readers the queue ends when it is empty.
    pub fn reader_ended(&self) {
        self.state().readers -= 1;
        self.events.notify_waiters();
    }

    /// Closes the queue for new events. Clients still take the events that it holds.
    ///
    /// Clients call this repeatedly after the end of the phase. Only the first call wakes waiters; otherwise
    /// clients would wake themselves in a loop.
    pub fn close(&self) {
        if !self.is_closed() {
            self.change(|state| state.closed = true);
        }
    }

    /// Closes the queue for new events because its source ended before the phase did; see [`Queue::ran_out`].
    pub fn close_by_itself(&self) {
        self.change(|state| (state.ended, state.closed) = (state.ended || !state.closed, true));
    }

    /// Closes and finishes the queue: readers and clients stop, and the spill files are deleted with their events.
    pub fn finish(&self) {
        self.change(|state| (state.closed, state.finished) = (true, true));
        self.drain.notify_all();
        if let Some(spill) = &self.spill {
            spill.lock().expect("no thread panics while it holds the lock").close();
        }
    }

    /// Changes the queue's state by `change`, and wakes readers and clients that wait.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.there_is_room();
        self.events.notify_waiters();
    }

    /// Returns whether the source ended before the queue was closed for another reason.
    pub fn ran_out(&self) -> bool {
        let state = self.state();
        state.ended || (state.readers == 0 && !state.closed)
    }
}
