//! The collections that operations are about, and which of them keep an index of their ids.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A collection, as it was found before the load.
#[derive(Debug)]
pub struct Collection {
    /// What it is called.
    pub name: String,
    indexed: AtomicBool,
}

impl Collection {
    /// Without an index, as far as is known yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), indexed: AtomicBool::new(false) }
    }

    /// Whether it keeps an index of its ids.
    pub fn indexed(&self) -> bool {
        self.indexed.load(Ordering::Relaxed)
    }

    /// It keeps an index, or none.
    pub fn set_indexed(&self, indexed: bool) {
        self.indexed.store(indexed, Ordering::Relaxed);
    }
}

/// Those of all operations.
#[derive(Debug, Default)]
pub struct Collections(Mutex<Vec<Arc<Collection>>>);

impl Collections {
    /// The collection of that name, the same one for all who ask.
    pub fn get(&self, name: &str) -> Arc<Collection> {
        let mut collections = self.lock();
        if let Some(known) = collections.iter().find(|known| known.name == name) {
            return known.clone();
        }
        let new = Arc::new(Collection::new(name));
        collections.push(new.clone());
        new
    }

    /// Takes note of whether a collection keeps an index, if an operation is about it.
    pub fn set_indexed(&self, name: &[u8], indexed: bool) {
        if let Some(known) = self.lock().iter().find(|known| known.name.as_bytes() == name) {
            known.set_indexed(indexed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Collection>>> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}
