//! Reconnections and connection setup times of a worker's clients. Drivers report them; the recorder of the
//! same thread reads them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

thread_local! {
    /// Lost connections not replaced yet.
    static LOST: Cell<u64> = const { Cell::new(0) };
    static REPLACED: Cell<u64> = const { Cell::new(0) };
    static SETUPS: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
}

/// Counts a lost connection of this thread: closed by the server, broken or unusable.
pub fn lost() {
    LOST.set(LOST.get() + 1);
}

/// Counts a connection of this thread as opened. It replaces a lost one, if any.
pub fn opened() {
    if let Some(left) = LOST.get().checked_sub(1) {
        LOST.set(left);
        REPLACED.set(REPLACED.get() + 1);
    }
}

/// Returns how many connections of this thread were replaced since the last call, and resets the count.
pub fn take() -> u64 {
    REPLACED.replace(0)
}

/// Stores the duration of one connection setup of this thread: to connect, encrypt and authenticate.
pub fn set_up(duration: Duration) {
    SETUPS.with_borrow_mut(|setups| setups.push(duration));
}

/// Passes each setup time of this thread since the last call to `record`.
pub fn take_setups(record: impl FnMut(Duration)) {
    SETUPS.with_borrow_mut(|setups| setups.drain(..).for_each(record));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_replaces_a_lost_one_counts() {
        opened();
        assert_eq!(take(), 0);
        lost();
        assert_eq!(take(), 0);
        opened();
        opened();
        assert_eq!((take(), take()), (1, 0));
    }

    #[test]
    fn each_setup_is_taken_once() {
        let (slow, fast) = (Duration::from_millis(3), Duration::from_micros(40));
        set_up(slow);
        set_up(fast);
        let mut taken = Vec::new();
        take_setups(|duration| taken.push(duration));
        take_setups(|_| panic!("it was taken"));
        assert_eq!(taken, [slow, fast]);
    }
}
