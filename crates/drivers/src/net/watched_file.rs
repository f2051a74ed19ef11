//! A value from a file that another program rewrites, such as a token that is renewed before it expires.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two looks at the file.
const PERIOD: Duration = Duration::from_secs(1);

/// The value in a file. A thread reads the file again after each change.
pub struct WatchedFile<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

/// The value, and whether to end the thread.
struct Shared<T> {
    /// Number of the value, increased with each new one.
    number: AtomicU64,
    value: Mutex<Arc<T>>,
    ended: Mutex<bool>,
    end: Condvar,
}

/// A client's copy of the value, with its number.
pub type Seen<T> = Option<(u64, Arc<T>)>;

impl<T: Send + Sync + 'static> WatchedFile<T> {
    /// Starts with `first`, and a thread that looks at the file once a second. `parse` returns the value in the file's
    /// text; `None` keeps the last value. So does an unreadable file, which another program may be replacing.
    pub fn new(path: PathBuf, first: T, parse: impl Fn(&str) -> Option<T> + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            number: AtomicU64::new(0),
            value: Mutex::new(Arc::new(first)),
            ended: Mutex::new(false),
            end: Condvar::new(),
        });
        let ours = shared.clone();
        let watch = move || ours.watch(&path, &parse);
        // Without a thread, the first value stays.
        let thread = std::thread::Builder::new().name("loadframe-secret".to_owned()).spawn(watch).ok();
        Self { shared, thread }
    }

    /// Returns the latest value. `seen` caches it, so that a request costs no lock.
    pub fn latest<'a>(&self, seen: &'a mut Seen<T>) -> &'a T {
        let number = self.shared.number.load(Ordering::Acquire);
        if seen.as_ref().is_none_or(|(known, _)| *known != number) {
            *seen = None;
        }
        let (_, value) = seen.get_or_insert_with(|| {
            let value = self.shared.value.lock().unwrap_or_else(PoisonError::into_inner);
            (number, value.clone())
        });
        value
    }
}

impl<T> Shared<T> {
    /// Blocks, and reads the file after each change, until the value is dropped. The last value stays while the file is
    /// missing or `parse` returns `None`.
    fn watch(&self, path: &Path, parse: &impl Fn(&str) -> Option<T>) {
        let mut known = None;
        loop {
            let file = fs::metadata(path).ok().map(|data| (data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
            if file.is_some() && file != known {
                let value = fs::read_to_string(path).ok().and_then(|text| parse(&text));
                if let Some(value) = value {
                    *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                    self.number.fetch_add(1, Ordering::Release);
                    known = file;
                }
            }
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = self.end.wait_timeout_while(ended, PERIOD, |ended| !*ended);
            if *wait.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        }
    }
}

impl<T> Drop for WatchedFile<T> {
    /// Ends the thread and waits for it.
    fn drop(&mut self) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.end.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the watched file has this value.
    fn wait_for(watched: &WatchedFile<String>, seen: &mut Seen<String>, value: &str) {
        while watched.latest(seen) != value {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_value_follows_the_file_and_survives_an_unusable_one() {
        let folder = std::env::temp_dir().join(format!("loadframe-watched-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, next) = (folder.join("token"), folder.join("next"));
        let (read, reads) = std::sync::mpsc::channel();
        let parse = move |text: &str| {
            let _ = read.send(text.is_empty());
            (!text.trim().is_empty()).then(|| text.trim().to_owned())
        };
        let (watched, mut seen) = (WatchedFile::new(path.clone(), "first".to_owned(), parse), None);
        assert_eq!(watched.latest(&mut seen), "first");
        for value in ["second", "third"] {
            fs::write(&next, value).unwrap();
            fs::rename(&next, &path).unwrap();
            wait_for(&watched, &mut seen, value);
        }
        fs::write(&path, "").unwrap();
        // The second look at the empty file follows the first one's effect.
        assert_eq!(reads.iter().filter(|is_empty| *is_empty).take(2).count(), 2);
        assert_eq!(watched.latest(&mut seen), "third");
        fs::write(&path, "fourth").unwrap();
        wait_for(&watched, &mut seen, "fourth");
        drop(watched);
        fs::remove_dir_all(&folder).unwrap();
    }
}
