//! Values with one instance per worker thread, such as a session with tasks on that thread's runtime.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static HELD: RefCell<HashMap<u64, Rc<dyn Any>>> = RefCell::default();
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// One `T` per thread that uses it, dropped with its thread.
pub struct PerThread<T> {
    number: u64,
    of: PhantomData<fn() -> T>,
}

impl<T: 'static> PerThread<T> {
    /// Creates it without values.
    pub fn new() -> Self {
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), of: PhantomData }
    }

    /// Returns this thread's value; the first call of the thread creates it with `make`.
    pub fn get(&self, make: impl FnOnce() -> T) -> Rc<T> {
        let held = HELD.with_borrow(|held| held.get(&self.number).cloned());
        let held = held.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new(make());
            HELD.with_borrow_mut(|held| held.insert(self.number, made.clone()));
            made
        });
        held.downcast().expect("the number is of this type alone")
    }
}

impl<T> fmt::Debug for PerThread<T> {
    /// Writes the number that identifies this set of values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<T: 'static> Default for PerThread<T> {
    /// Creates it without values.
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_value() {
        let held = PerThread::new();
        let first = held.get(|| 1);
        assert!(Rc::ptr_eq(&first, &held.get(|| 2)));
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(*held.get(|| 3), 3)).join().unwrap());
        assert_eq!(*PerThread::new().get(|| 4), 4, "another's number is another");
    }
}
