//! Input side of the queue: chunks enter memory, or pass through the spill on disk.

use super::{Queue, State};
use crate::ingest::chunk::Chunk;
use crate::ingest::spill::UnreadableEvents;

impl Queue {
    /// Adds the events of a chunk to memory, or to the spill if memory is full or earlier events are on disk. Drops
    /// them if the queue is closed. Calls `accepted` before any client can take them, not if they are dropped. If the
    /// spill is full or cannot be written, the events stay in memory; the error is returned in the second case.
    pub fn push(&self, chunk: Chunk, accepted: impl FnOnce()) -> Result<(), String> {
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        accepted();
        let spill = self.spill.as_ref().filter(|_| state.overflows(self.most) && !state.spill_full);
        let Some(spill) = spill else {
            self.keep(state, chunk);
            return Ok(());
        };
        let count = chunk.events.len();
        // Count the events first: the queue must not appear empty during the write.
        state.spilled += count;
        drop(state);
        let mut spill = spill.lock().expect("no thread panics while it holds the lock");
        let written = spill.write(&chunk);
        let mut state = self.state();
        if let Ok(Some(bytes)) = written {
            state.readable += count;
            state.written.events += count as u64;
            state.written.bytes += bytes;
            state.written.most = state.written.most.max(spill.held());
            drop(state);
            self.drain.notify_one();
            return Ok(());
        }
        state.spilled -= count;
        state.spill_full = true;
        self.keep(state, chunk);
        let words = |error| format!("cannot spill events to disk; senders wait while memory is full: {error}");
        written.map(drop).map_err(words)
    }

    /// Moves spilled chunks back into memory when there is room; blocks until the queue is finished. Reports
    /// unreadable chunks to `say`. Returns at once without a spill.
    pub fn read_back(&self, say: impl Fn(String)) {
        let Some(spill) = &self.spill else { return };
        loop {
            let nothing_to_do =
                |state: &mut State| !state.finished && (state.readable == 0 || state.bytes >= self.most);
            let state = self.drain.wait_while(self.state(), nothing_to_do);
            if state.expect("no thread panics while it holds the lock").finished {
                return;
            }
            let mut spill = spill.lock().expect("no thread panics while it holds the lock");
            let held = spill.held();
            let read = spill.read();
            let mut state = self.state();
            let count = match &read {
                Ok(chunk) => chunk.as_ref().map_or(0, |chunk| chunk.events.len()),
                Err(UnreadableEvents { events, .. }) => *events,
            };
            state.spilled -= count;
            state.readable -= count;
            let room = state.spill_full && (spill.held() < held || state.spilled == 0);
            state.spill_full &= !room;
            match read {
                Ok(Some(chunk)) => self.keep(state, chunk),
                Ok(None) => {}
                Err(UnreadableEvents { events, error }) => {
                    drop(state);
                    say(format!("cannot read back {events} events spilled to disk: {error}"));
                    self.events.notify_waiters();
                }
            }
            if room {
                self.there_is_room();
            }
        }
    }
}
