//! Connections that a worker's clients opened: those that replace lost ones, and how long setting each up took. Drivers
//! note them; the recorder of the thread reads them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

thread_local! {
    /// Lost connections that were not replaced yet.
    static LOST: Cell<u64> = const { Cell::new(0) };
    static REPLACED: Cell<u64> = const { Cell::new(0) };
    static SETUPS: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
}

/// A connection was closed by the server, broke, or cannot be used again.
pub fn lost() {
    LOST.set(LOST.get() + 1);
}

/// A connection was opened. It replaces a lost one, if there is one.
pub fn opened() {
    if let Some(left) = LOST.get().checked_sub(1) {
        LOST.set(left);
        REPLACED.set(REPLACED.get() + 1);
    }
}

/// Returns how many connections of this thread were replaced since the last call.
pub fn take() -> u64 {
    REPLACED.replace(0)
}

/// A connection was set up in that time: connected, encrypted and authenticated.
pub fn set_up(duration: Duration) {
    SETUPS.with_borrow_mut(|setups| setups.push(duration));
}

/// Hands each setup of this thread since the last call to `record`.
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
