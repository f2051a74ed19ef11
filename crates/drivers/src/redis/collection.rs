//! The collections of the operations, and which of them keep an index of their ids.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A collection, as found before the load.
#[derive(Debug)]
pub struct Collection {
    /// Its name.
    pub name: String,
    indexed: AtomicBool,
}

impl Collection {
    /// Creates a collection without an index.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), indexed: AtomicBool::new(false) }
    }

    /// Returns whether it keeps an index of its ids.
    pub fn indexed(&self) -> bool {
        self.indexed.load(Ordering::Relaxed)
    }

    /// Sets whether it keeps an index.
    pub fn set_indexed(&self, indexed: bool) {
        self.indexed.store(indexed, Ordering::Relaxed);
    }
}

/// The collections of all operations.
#[derive(Debug, Default)]
pub struct Collections(Mutex<Vec<Arc<Collection>>>);

impl Collections {
    /// Returns the collection with this name, which the first call creates; all callers share it.
    pub fn get(&self, name: &str) -> Arc<Collection> {
        let mut collections = self.lock();
        if let Some(known) = collections.iter().find(|known| known.name == name) {
            return known.clone();
        }
        let new = Arc::new(Collection::new(name));
        collections.push(new.clone());
        new
    }

    /// Sets whether a collection keeps an index, if any operation uses the collection.
    pub fn set_indexed(&self, name: &[u8], indexed: bool) {
        if let Some(known) = self.lock().iter().find(|known| known.name.as_bytes() == name) {
            known.set_indexed(indexed);
        }
    }

    /// Locks and returns the collections. Panics if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Collection>>> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}
