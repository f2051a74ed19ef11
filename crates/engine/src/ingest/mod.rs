//! Event sources: a TCP port, files, standard input, a replayed log or an event generator.
//!
//! Reader threads cut lines (`line_reader`), parse them ([`mod@line`]) and put the events into a [`queue`]. The
//! clients of a stream take them from the queue in batches. Invalid lines become dead letters
//! ([`dead_letters`]).

mod acks;
mod ahead;
pub mod chunk;
pub mod dead_letters;
mod disposition;
mod files;
mod first_event;
pub mod instant;
pub mod line;
mod line_reader;
mod listen;
mod paced;
pub mod probes;
pub mod queue;
mod readers;
mod sampler;
mod samples;
mod source_stats;
mod spill;
mod stdin;
pub mod transform;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::pacing::profile::Profile;
use crate::pacing::schedule::Stride;
use crate::plan;
use crate::plan::{PlanError, Sampling};
use crate::util::panics;
use chunk::{Chunk, InFlightBatch};
use dead_letters::{Bundle, DeadLetters, Reason, Refusal};
pub use disposition::{Disposition, dispositions};
pub use first_event::FirstEvent;
use line::{EventFields, Reader};
use listen::Port;
use probes::Probes;
use queue::Queue;
use readers::Readers;
use sampler::Sampler;
pub use samples::{Preview, preview, samples};
pub use source_stats::{Offered, SourceStats};
use spill::Spill;
use transform::Transform;

/// Counters of a source.
#[derive(Debug, Default)]
struct Counts {
    lines: AtomicU64,
    dropped: AtomicU64,
    accepted: AtomicU64,
    indexed: AtomicU64,
    /// Indexed events of each kind.
    kinds: Vec<AtomicU64>,
    bytes: AtomicU64,
    connections: AtomicU64,
}

/// A source, from the plan's check to the end of the phase.
#[derive(Debug)]
pub struct Source {
    name: String,
    plan: plan::Source,
    seed: u64,
    /// Share of the input that this rank reads.
    share: Stride,
    readers: usize,
    reader: Reader,
    dead_letters: DeadLetters,
    counts: Counts,
    /// The queue from which clients take events.
    pub queue: Queue,
    cpu: Readers,
    /// Progress of a paced source.
    offered: OnceLock<Offered>,
    /// Visibility probes, if configured.
    pub probes: Option<Probes>,
    address: OnceLock<String>,
    /// Already open if the load waits for the first line.
    port: Mutex<Option<Port>>,
    trouble: Mutex<Vec<String>>,
    /// Problems because of which a part of the input was not read.
    damage: Mutex<Vec<String>>,
    warned: OnceLock<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Callback for the message of a reader's panic.
pub type Fail = Arc<dyn Fn(String) + Send + Sync>;

impl Source {
    /// Returns the arrival time of the newest event that a query has found.
    ///
    /// `None` without probes, before the first find, or when no events arrived for two sampling intervals. In
    /// the last case the newest event is old because of the source, not the store.
    pub fn shown(&self) -> Option<Instant> {
        let probes = self.probes.as_ref()?;
        probes.newest().filter(|_| self.queue.flows(Instant::now(), 2 * probes.sampling.sample))
    }

    /// Checks the source in the plan; reads nothing yet. `sampling`: settings of the visibility probes, if
    /// any. The error names the source.
    pub fn new(
        name: &str,
        plan: &plan::Source,
        phase: &plan::Plan,
        sampling: Option<Sampling>,
    ) -> Result<Self, PlanError> {
        let place = || format!("source {name:?}");
        let source = Self::checked(name, plan, phase).map_err(|e| e.within(place()))?;
        let probes = sampling.map(|sampling| Probes::new(sampling, source.reader.names.clone()));
        Ok(Self { probes, ..source })
    }

    /// Builds the source without visibility probes. Refuses keys that exclude each other, values out of range, and
    /// files, certificates or generators that cannot be used.
    fn checked(name: &str, plan: &plan::Source, phase: &plan::Plan) -> Result<Self, PlanError> {
        let ways = [plan.listen.is_some(), !plan.files.is_empty(), plan.stdin, plan.generate.is_some()];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(PlanError::new("it needs exactly one of listen, files, stdin and generate"));
        }
        if phase.ranks > 1 && (plan.stdin || plan.listen.is_some()) {
            let way = if plan.stdin { "standard input is read" } else { "a port is listened on" };
            return Err(PlanError::new(format!("{way} by one process: {} ranks cannot share it", phase.ranks)));
        }
        if plan.listen.as_ref().is_some_and(|listen| listen.connections == 0) {
            return Err(PlanError::new("connections must be at least 1; got 0"));
        }
        if plan.batch == 0 || plan.buffer == 0 || plan.longest_line == 0 {
            return Err(PlanError::new("batch, buffer and longest_line must be at least 1"));
        }
        if let Some(replay) = &plan.replay {
            if plan.files.is_empty() {
                return Err(PlanError::new("replay requires files"));
            }
            if !(replay.speed > 0.0 && replay.speed.is_finite()) {
                return Err(PlanError::new(format!("a speed of {}: give more than 0", replay.speed)));
            }
        }
        if plan.acknowledge && plan.listen.is_none() {
            return Err(PlanError::new("acknowledge requires listen: only TCP senders receive acknowledgements"));
        }
        if plan.wait.is_some() && plan.listen.is_none() {
            return Err(PlanError::new("wait requires listen: only a TCP source can wait for its first line"));
        }
        if plan.spill > 0 && plan.listen.is_none() && !plan.stdin {
            let cause = "only TCP and standard input spill to disk: files and generators wait for room";
            return Err(PlanError::new(cause));
        }
        files::check(&plan.files)?;
        if let Some(listen) = &plan.listen {
            listen::check(listen)?;
        }
        let share = Stride { index: phase.rank, of: phase.ranks };
        let reader = Reader::new(&plan.events, plan.replay.as_ref().map(|replay| replay.time.as_str()))?;
        let reader = reader.with(Transform::new(&plan.events, plan.longest_line)?);
        let readers = if plan.listen.is_some() { phase.threads as usize } else { 1 };
        let kinds = reader.names.iter().map(|_| AtomicU64::new(0)).collect();
        let queue = Queue::new(plan.batch, plan.flush, plan.buffer, reader.names.clone(), readers);
        let folder = || plan.spill_folder.clone().unwrap_or_else(std::env::temp_dir);
        let spill = (plan.spill > 0).then(|| Spill::new(folder().join(format!("spill-{name}")), plan.spill));
        let source = Self {
            name: name.to_owned(),
            plan: plan.clone(),
            seed: phase.seed,
            share,
            readers,
            reader,
            dead_letters: DeadLetters::new(plan.dead_letters.as_deref()),
            counts: Counts { kinds, ..Counts::default() },
            queue: queue.with(spill),
            cpu: Readers::default(),
            offered: OnceLock::new(),
            probes: None,
            address: OnceLock::new(),
            port: Mutex::default(),
            trouble: Mutex::default(),
            damage: Mutex::default(),
            warned: OnceLock::new(),
            threads: Mutex::default(),
        };
        if let Some(made) = &plan.generate {
            Profile::new(&made.rate)?;
            paced::generator(&source, made, 0)?;
        }
        Ok(source)
    }

    /// Opens the port and waits until its first line begins to arrive; does nothing unless the plan says so.
    ///
    /// Fails if the port cannot be opened or nothing arrives in time.
    pub fn await_first(&self) -> Result<(), PlanError> {
        let (Some(listen), Some(patience)) = (&self.plan.listen, self.plan.wait) else { return Ok(()) };
        let place = || format!("source {:?}", self.name);
        let mut port = Port::open(listen, self.readers).map_err(|e| e.within(place()))?;
        port.await_first(patience).map_err(|e| e.within(place()))?;
        *self.port.lock().expect("no thread panics while it holds the lock") = Some(port);
        Ok(())
    }

    /// Starts the reader threads, which read from `start` on. Opens the port, if there is one, and sets the sampler.
    /// `fail` receives the message of a reader's panic. Fails if the port cannot be opened or a thread cannot start.
    pub fn begin(self: &Arc<Self>, start: Instant, fail: &Fail) -> Result<(), PlanError> {
        let place = || format!("source {:?}", self.name);
        let open = self.port.lock().expect("no thread panics while it holds the lock").take();
        let mut port = match (open, &self.plan.listen) {
            (Some(port), _) => Some(port),
            (None, Some(listen)) => Some(Port::open(listen, self.readers).map_err(|e| e.within(place()))?),
            (None, None) => None,
        };
        if let Some(port) = &mut port {
            let _ = self.address.set(port.address.to_string());
            self.counts.connections.fetch_add(port.share_early(), Ordering::Relaxed);
        }
        if let Some(probes) = &self.probes {
            self.queue.sample(Sampler::new(start, probes.sampling.sample, self.share, self.seed));
        }
        for number in 0..self.readers {
            let part = port.as_mut().map(|port| port.part(number));
            self.spawn(format!("source-{number}"), fail, move |source| {
                let _ended = ReaderGuard(source);
                if !source.queue.sleep_until(start) {
                    return Ok(());
                }
                match part {
                    Some(part) => listen::read(source, part),
                    None if source.plan.stdin => stdin::read(source),
                    None if source.plan.generate.is_some() || source.plan.replay.is_some() => {
                        paced::read(source, start)
                    }
                    None => files::read(source),
                }
            })?;
        }
        if self.plan.spill > 0 {
            self.spawn("source-spill".into(), fail, |source| {
                source.queue.read_back(|words| source.say(words));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Spawns a reader thread that does `work`. Its CPU time counts as reading; its errors become warnings, and its
    /// panics go to `fail`. Fails, and closes the queue, if the thread cannot start.
    fn spawn(
        self: &Arc<Self>,
        name: String,
        fail: &Fail,
        work: impl FnOnce(&Arc<Self>) -> Result<(), String> + Send + 'static,
    ) -> Result<(), PlanError> {
        let (source, fail) = (self.clone(), fail.clone());
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _listening = panics::listen(move |words| fail(format!("the reader of a source panicked: {words}")));
            let _counted = source.cpu.begin();
            if let Err(words) = work(&source) {
                source.say(words);
            }
        });
        let thread = thread.map_err(|e| {
            self.queue.close();
            PlanError::machine(format!("cannot start a thread: {e}"))
        })?;
        self.threads.lock().expect("no thread panics while it holds the lock").push(thread);
        Ok(())
    }

    /// Finishes the queue, which stops the readers, and blocks until their threads have ended. Events left in the
    /// queue are not sent.
    pub fn end(&self) {
        self.queue.finish();
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics while it holds the lock"));
        for thread in threads {
            // A panic was already reported to the phase.
            let _ = thread.join();
        }
    }

    /// Records a warning for the source's statistics, once; keeps at most 20 different ones.
    fn say(&self, words: String) {
        keep(&self.trouble, words);
    }

    /// Records that a part of the input cannot be read, as a warning, too; keeps at most 20 different ones.
    fn say_damage(&self, words: String) {
        keep(&self.damage, words.clone());
        self.say(words);
    }

    /// Parses the content of a line; `None` if a transformation drops the event. Appends a transformed line to `out`:
    /// the range of the id is then within that line, otherwise within `line`. Refuses a line that is too long. `cut`:
    /// its end may be missing, so only a complete object is accepted, and no text. Warns of the first time that seems
    /// to have a unit other than milliseconds.
    fn parse(&self, line: &[u8], cut: bool, out: &mut Vec<u8>) -> Result<Option<EventFields>, Refusal> {
        if line.len() > self.plan.longest_line {
            return Err(Reason::TooLong.into());
        }
        if cut && self.reader.reads_text() {
            return Err(Reason::CutOff.into());
        }
        let fields = self.reader.parse(line, out).map_err(|refusal| match refusal.reason {
            Reason::NoObject if cut => Reason::CutOff.into(),
            _ => refusal,
        })?;
        if let Some((unit, milliseconds)) = fields.as_ref().and_then(|fields| fields.unit) {
            self.warned.get_or_init(|| self.say(unit.warning(milliseconds)));
        }
        Ok(fields)
    }

    /// Adds to the number of bytes received.
    fn add_bytes(&self, bytes: usize) {
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts the lines of a read, writes its dead letters and queues its events.
    /// `dropped`: number of lines that its transformation dropped. Returns whether the dead letters were stored. If the
    /// queue is closed and the read has events, discards and counts nothing, and returns false.
    fn take_up(&self, lines: u64, dropped: u64, chunk: Chunk, dead_letters: &mut Bundle) -> bool {
        let mut counted = false;
        let events = chunk.events.len() as u64;
        let mut count = || {
            self.counts.lines.fetch_add(lines, Ordering::Relaxed);
            self.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.counts.accepted.fetch_add(events, Ordering::Relaxed);
            counted = true;
        };
        if events == 0 {
            count();
        } else if let Err(words) = self.queue.push(chunk, count) {
            self.say(words);
        }
        counted && {
            let kept = self.write(dead_letters);
            self.dead_letters.count(dead_letters);
            kept
        }
    }

    /// Writes dead letters to the source's file. Returns whether they are stored, also true without a file; an error
    /// becomes a warning.
    fn write(&self, dead_letters: &mut Bundle) -> bool {
        self.dead_letters.write(dead_letters).map_err(|words| self.say(words)).is_ok()
    }

    /// Settles events of a batch after an answer: counts them, writes refused ones as dead letters with the store's
    /// message `words`, and opens visibility probes. `fates`: disposition of each event, by index in the batch. Refused
    /// events whose dead letter cannot be written become [`Disposition::Left`]: nothing is acknowledged that is stored
    /// nowhere.
    pub fn settle(&self, in_flight: &InFlightBatch, fates: &mut [(u32, Disposition)], words: &str) {
        let mut dead_letters = Bundle::default();
        for (place, _) in fates.iter().filter(|(_, disposition)| *disposition == Disposition::Refused) {
            let line = in_flight.batch.line(&in_flight.batch.events[*place as usize]);
            self.dead_letters.add(&mut dead_letters, Reason::Refused, words, line, &self.name);
        }
        if self.write(&mut dead_letters) {
            self.dead_letters.count(&mut dead_letters);
        } else {
            let refused = fates.iter_mut().filter(|(_, disposition)| *disposition == Disposition::Refused);
            refused.for_each(|(_, disposition)| *disposition = Disposition::Left);
        }
        let mut indexed = 0;
        let mut kinds = vec![0; self.counts.kinds.len()];
        for &(place, disposition) in fates.iter() {
            match disposition {
                Disposition::Left => continue,
                Disposition::Taken => {
                    indexed += 1;
                    kinds[in_flight.batch.events[place as usize].kind] += 1;
                }
                Disposition::Refused => {}
            }
            in_flight.settle(place as usize);
        }
        if let Some(probes) = &self.probes {
            probes.acknowledged(in_flight, fates);
        }
        self.counts.indexed.fetch_add(indexed, Ordering::Relaxed);
        for (counter, count) in self.counts.kinds.iter().zip(kinds) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Adds a message, unless it is there already or 20 are.
fn keep(messages: &Mutex<Vec<String>>, words: String) {
    let mut messages = messages.lock().expect("no thread panics while it holds the lock");
    if !messages.contains(&words) && messages.len() < 20 {
        messages.push(words);
    }
}

/// Marks a reader as ended when dropped, also after a panic.
struct ReaderGuard<'a>(&'a Source);

impl Drop for ReaderGuard<'_> {
    /// Tells the queue that one of its readers has ended.
    fn drop(&mut self) {
        self.0.queue.reader_ended();
    }
}
