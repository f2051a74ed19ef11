//! A Tokio runtime on a separate thread. On a worker with a reactor it serves Tokio timers and look-ups of names.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// A running runtime; dropping it ends its tasks and waits for its thread.
pub struct Background {
    handle: Handle,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the runtime. Fails if the process has run out of file descriptors or threads.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), Arc::<Notify>::default());
        let stopped = stop.clone();
        let run = move || {
            runtime.block_on(stopped.notified());
            // Does not wait for look-ups of names, which can take half a minute.
            runtime.shutdown_background();
        };
        let thread = Some(thread::Builder::new().name("background".into()).spawn(run)?);
        Ok(Self { handle, stop, thread })
    }

    /// Returns the runtime's handle, which spawns tasks on it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    /// Ends the runtime and its tasks, and waits for its thread, but not for look-ups of names.
    fn drop(&mut self) {
        self.stop.notify_one();
        // A panic of its thread has been printed.
        self.thread.take().map(JoinHandle::join);
    }
}
