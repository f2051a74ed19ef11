//! CPU time of the threads that read a source, measurable from other threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::util::cpu::thread_cpu;

/// All threads that read or have read a source.
#[derive(Debug, Default)]
pub struct Readers(Mutex<Vec<Arc<Thread>>>);

#[derive(Debug)]
struct Thread {
    /// The thread's schedstat file; `None` if the kernel does not provide it.
    running: Option<File>,
    /// Final CPU time, s.
    ended: OnceLock<f64>,
}

/// Guard of a reader thread; records the final CPU time when dropped.
pub struct Reader(Arc<Thread>);

impl Readers {
    /// Registers the calling thread as a reader, until the returned guard is dropped.
    pub fn begin(&self) -> Reader {
        let thread = Thread { running: File::open("/proc/thread-self/schedstat").ok(), ended: OnceLock::new() };
        let thread = Arc::new(thread);
        self.0.lock().expect("no thread panics while it holds the lock").push(thread.clone());
        Reader(thread)
    }

    /// Returns the CPU time of each registered thread so far, s, in order of registration; 0 if it is unknown.
    pub fn cpu(&self) -> Vec<f64> {
        self.0.lock().expect("no thread panics while it holds the lock").iter().map(|thread| thread.cpu()).collect()
    }
}

impl Thread {
    /// Returns the thread's CPU time, s: the final one, or the time so far.
    fn cpu(&self) -> f64 {
        self.ended.get().copied().or_else(|| self.so_far()).unwrap_or(0.0)
    }

    /// Reads the thread's CPU time so far, s, from the first field of schedstat (kernel documentation, sched-stats);
    /// `None` if it cannot be read.
    fn so_far(&self) -> Option<f64> {
        let mut text = [0; 64];
        let length = self.running.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
    }
}

impl Drop for Reader {
    /// Records the final CPU time of the calling thread, which must be the reader.
    fn drop(&mut self) {
        let _ = self.0.ended.set(thread_cpu());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_time_of_a_thread_is_seen_from_another_while_it_runs_and_when_it_has_ended() {
        let readers = Readers::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _reader = readers.begin();
                let begun = Instant::now();
                while thread_cpu() < 0.05 && begun.elapsed() < Duration::from_secs(20) {}
                std::thread::sleep(Duration::from_millis(20));
            });
            while readers.cpu().is_empty() {
                std::thread::yield_now();
            }
        });
        assert_eq!(readers.cpu().len(), 1);
        assert!((0.05..1.0).contains(&readers.cpu()[0]), "{:?}", readers.cpu());
        let _reader = readers.begin();
        assert_eq!(readers.cpu().len(), 2);
    }
}
