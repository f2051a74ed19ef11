//! Standard input. A reader polls it, so that a phase can end while no input arrives.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Source;
use super::line_reader::{From, LineReader};

/// Interval at which an idle reader checks whether the source was closed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Queues the lines of standard input until it ends, the queue closes, or no line arrives for the plan's idle time.
/// Blocks. Fails if standard input cannot be read.
pub fn read(source: &Source) -> Result<(), String> {
    let say = |error: io::Error| format!("standard input: {error}");
    let stdin = io::stdin();
    let stdin = stdin.as_fd();
    let mut line_reader = LineReader::new(source, From::File("standard input".into(), 0));
    let mut last = Instant::now();
    let whole = loop {
        if source.queue.is_full() {
            if !source.queue.wait_for_room() {
                return Ok(());
            }
            last = Instant::now();
        }
        let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = poll(&mut waits, Some(&LOOK)).or_else(|error| match error {
            rustix::io::Errno::INTR => Ok(0),
            error => Err(say(error.into())),
        })?;
        let idle = |last: Instant| source.plan.idle.is_some_and(|idle: Duration| last.elapsed() >= idle);
        if source.queue.is_closed() || (ready == 0 && idle(last)) {
            break false;
        }
        if ready == 0 {
            continue;
        }
        let count = match line_reader.fill(|buffer| rustix::io::read(stdin, buffer)) {
            Ok(0) => break true,
            Ok(count) => count,
            // A signal arrived, or another process took the bytes.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(error) => {
                line_reader.end(false);
                return Err(say(error.into()));
            }
        };
        line_reader.arrived(count);
        last = Instant::now();
    };
    line_reader.end(whole);
    Ok(())
}
