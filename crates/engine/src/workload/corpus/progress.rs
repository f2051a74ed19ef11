//! Progress of a long operation on the terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line that is updated once a second, and removed at the end.
pub struct Progress {
    next: Instant,
    shown: bool,
}

impl Progress {
    const PAUSE: Duration = Duration::from_secs(1);

    /// Creates the line, which is shown only if standard error is a terminal.
    pub fn new() -> Self {
        Self { next: Instant::now() + Self::PAUSE, shown: io::stderr().is_terminal() }
    }

    /// Shows the text of `line`, if a second has passed since the last update and standard error is a terminal.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.shown && Instant::now() >= self.next {
            self.next = Instant::now() + Self::PAUSE;
            let _ = write!(io::stderr(), "\r\x1b[K{}", line());
        }
    }
}

impl Drop for Progress {
    /// Removes the line from the terminal.
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
