//! Connections that a worker's clients lost and opened again, counted by drivers and read by the recorder of the thread.

use std::cell::Cell;

thread_local! {
    /// Lost connections that were not replaced yet.
    static LOST: Cell<u64> = const { Cell::new(0) };
    static REPLACED: Cell<u64> = const { Cell::new(0) };
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
}
