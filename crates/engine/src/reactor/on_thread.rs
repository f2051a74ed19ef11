//! Values that stay on one thread.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// Returns a number of the calling thread that no other thread of the process ever has.
pub fn thread_number() -> u64 {
    NUMBER.with(|number| *number)
}

/// A value that only its own thread can use. It is `Send` and `Sync`, so that futures which hold it can be; none
/// of them may be polled elsewhere.
pub struct OnThread<T> {
    thread: u64,
    value: ManuallyDrop<T>,
}

// SAFETY: Only the thread that created the value refers to it or drops it.
unsafe impl<T> Send for OnThread<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for OnThread<T> {}

impl<T> OnThread<T> {
    /// Binds `value` to the calling thread.
    pub fn new(value: T) -> Self {
        Self { thread: thread_number(), value: ManuallyDrop::new(value) }
    }

    /// Returns whether the value belongs to the calling thread.
    pub fn is_here(&self) -> bool {
        self.thread == thread_number()
    }

    /// Returns the value. Panics on another thread.
    #[inline]
    pub fn get(&self) -> &T {
        assert!(self.is_here(), "a value of one worker was used on another thread");
        &self.value
    }
}

impl<T> Drop for OnThread<T> {
    /// Drops the value on its thread; leaks it elsewhere.
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: The value is not used after `drop`.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
