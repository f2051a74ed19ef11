//! Standard input. A reader polls it, so that a phase can end while no input arrives.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ahead::{Ahead, Search};
use super::line_reader::{From, LineReader};
use super::{Source, files};
use crate::plan::PlanError;

/// Interval at which an idle reader checks whether the source was closed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Name of the source for messages.
const NAME: &str = "standard input";

/// Bytes read before the phase, which reads them again.
static AHEAD: Mutex<Ahead> = Mutex::new(Ahead::new());

/// Blocks until standard input has an event. The next phase reads it from its beginning. Fails if it ends, or without
/// an event within `patience` or in the bytes that the source's buffer holds.
pub fn hold(search: &Search, patience: Duration) -> Result<(), PlanError> {
    let say = |error: io::Error| PlanError::new(format!("{NAME}: {error}"));
    let mut ahead = AHEAD.lock().expect("no thread panics while it holds the lock");
    ahead.searched = 0;
    let stdin = io::stdin();
    let stdin = stdin.as_fd();
    let end = Instant::now() + patience;
    while !ahead.has_event(search, false) {
        search.check(ahead.bytes.len(), NAME)?;
        if Instant::now() >= end {
            return Err(PlanError::new(format!("no event arrived at {NAME} within {} s", patience.as_secs_f64())));
        }
        let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waits, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(say(error.into())),
        }
        match ahead.fill(|buffer| rustix::io::read(stdin, buffer)) {
            Ok(0) if ahead.has_event(search, true) => break,
            Ok(0) => return Err(search.none(NAME)),
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(say(error.into())),
        }
    }
    Ok(())
}

/// Queues the lines of standard input until it ends, the queue closes, or no line arrives for the plan's idle time.
/// Blocks. A failed read is recorded as damage. Fails if standard input cannot be polled.
pub fn read(source: &Source) -> Result<(), String> {
    let say = |error: io::Error| format!("{NAME}: {error}");
    let stdin = io::stdin();
    let stdin = stdin.as_fd();
    let mut line_reader = LineReader::new(source, From::File(NAME.into(), 0));
    let ahead = std::mem::take(&mut *AHEAD.lock().expect("no thread panics while it holds the lock")).bytes;
    let mut ahead = ahead.as_slice();
    let mut last = Instant::now();
    let whole = loop {
        if source.queue.is_full() {
            if !source.queue.wait_for_room() {
                return Ok(());
            }
            last = Instant::now();
        }
        if !ahead.is_empty() && !source.queue.is_closed() {
            // Reading from a slice does not fail.
            let count = line_reader.fill(|buffer| ahead.read(buffer)).map_err(say)?;
            line_reader.arrived(count);
            last = Instant::now();
            continue;
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
                let line = line_reader.line();
                line_reader.end(false);
                source.say_damage(files::damage(NAME, line, &error.into()));
                return Ok(());
            }
        };
        line_reader.arrived(count);
        last = Instant::now();
    };
    line_reader.end(whole);
    Ok(())
}
