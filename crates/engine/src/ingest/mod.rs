//! Sources: where events come from that the generator does not make up as requests (a port, files, standard input, a log
//! that is replayed, a generator of events).
//!
//! Readers on threads of their own cut lines ([`line_reader`]), read them ([`line`]) and put the events into a
//! [`queue`], from which the clients of a stream take them in batches. What is not an event is a dead letter
//! ([`dead_letters`]).

mod acks;
pub mod chunk;
pub mod dead_letters;
mod disposition;
mod files;
pub mod instant;
pub mod line;
mod line_reader;
mod listen;
mod paced;
pub mod probes;
pub mod queue;
mod readers;
mod sampler;
mod source_stats;
mod spill;
mod stdin;

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
use dead_letters::{Bundle, DeadLetters, Reason};
pub use disposition::{Disposition, dispositions};
use instant::Unit;
use line::Reader;
use listen::Port;
use probes::Probes;
use queue::Queue;
use readers::Readers;
use sampler::Sampler;
pub use source_stats::{Offered, SourceStats};
use spill::Spill;

/// What is counted of a source.
#[derive(Debug, Default)]
struct Counts {
    lines: AtomicU64,
    accepted: AtomicU64,
    indexed: AtomicU64,
    /// Of these, how many are of each kind.
    kinds: Vec<AtomicU64>,
    bytes: AtomicU64,
    connections: AtomicU64,
}

/// A source, from the plan's check to the phase's end.
#[derive(Debug)]
pub struct Source {
    name: String,
    plan: plan::Source,
    seed: u64,
    /// This rank's part of what all ranks read.
    share: Stride,
    readers: usize,
    reader: Reader,
    dead_letters: DeadLetters,
    counts: Counts,
    /// Where clients find its events.
    pub queue: Queue,
    cpu: Readers,
    /// Of events that have instants of their own: how many were due, and how many came.
    offered: OnceLock<Offered>,
    /// Those of its events that are looked for, if any are.
    pub probes: Option<Probes>,
    address: OnceLock<String>,
    /// Open already, where the load waits for the first line.
    port: Mutex<Option<Port>>,
    trouble: Mutex<Vec<String>>,
    warned: OnceLock<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What is called with words when a reader panics.
pub type Fail = Arc<dyn Fn(String) + Send + Sync>;

impl Source {
    /// When the newest event had arrived that a query has seen; `None` where nothing is looked for, nothing was seen yet,
    /// or no events have come for two stretches of which each would have had one that is looked for: then the age of
    /// the newest one is not the store's doing.
    pub fn shown(&self) -> Option<Instant> {
        let probes = self.probes.as_ref()?;
        probes.newest().filter(|_| self.queue.flows(Instant::now(), 2 * probes.sampling.sample))
    }

    /// Checks what the plan says of it; reads nothing yet. `sampling` says how its events are looked for, if they are.
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

    fn checked(name: &str, plan: &plan::Source, phase: &plan::Plan) -> Result<Self, PlanError> {
        let ways = [plan.listen.is_some(), !plan.files.is_empty(), plan.stdin, plan.generate.is_some()];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(PlanError::new("it has to have one of listen, files, stdin and generate"));
        }
        if phase.ranks > 1 && (plan.stdin || plan.listen.is_some()) {
            let way = if plan.stdin { "standard input is read" } else { "a port is listened on" };
            return Err(PlanError::new(format!("{way} by one process: {} ranks cannot share it", phase.ranks)));
        }
        if plan.listen.as_ref().is_some_and(|listen| listen.connections == 0) {
            return Err(PlanError::new("connections of 0 let no sender in: give 1 or more"));
        }
        if plan.batch == 0 || plan.buffer == 0 || plan.longest_line == 0 {
            return Err(PlanError::new("batch, buffer and longest_line of 0 let nothing through: give 1 or more"));
        }
        if let Some(replay) = &plan.replay {
            if plan.files.is_empty() {
                return Err(PlanError::new("only files can be replayed at their own times"));
            }
            if !(replay.speed > 0.0 && replay.speed.is_finite()) {
                return Err(PlanError::new(format!("a speed of {}: give more than 0", replay.speed)));
            }
        }
        if plan.acknowledge && plan.listen.is_none() {
            return Err(PlanError::new("only senders by TCP can be told what is safe: acknowledge needs listen"));
        }
        if plan.wait.is_some() && plan.listen.is_none() {
            return Err(PlanError::new("only the first line of a sender by TCP can be waited for: wait needs listen"));
        }
        if plan.spill > 0 && plan.listen.is_none() && !plan.stdin {
            let cause = "only what comes by TCP or on standard input is spilled to disk: files and generators wait";
            return Err(PlanError::new(cause));
        }
        files::check(&plan.files)?;
        if let Some(listen) = &plan.listen {
            listen::check(listen)?;
        }
        let share = Stride { index: phase.rank, of: phase.ranks };
        let reader = Reader::new(&plan.events, plan.replay.as_ref().map(|replay| replay.time.as_str()))?;
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
            warned: OnceLock::new(),
            threads: Mutex::default(),
        };
        if let Some(made) = &plan.generate {
            Profile::new(&made.rate)?;
            paced::generator(&source, made, 0)?;
        }
        Ok(source)
    }

    /// Opens the port and returns when its first line begins to come, where the plan says that it is waited for.
    ///
    /// An error if the port cannot be had, or if nothing comes in time.
    pub fn await_first(&self) -> Result<(), PlanError> {
        let (Some(listen), Some(patience)) = (&self.plan.listen, self.plan.wait) else { return Ok(()) };
        let place = || format!("source {:?}", self.name);
        let mut port = Port::open(listen, self.readers).map_err(|e| e.within(place()))?;
        port.await_first(patience).map_err(|e| e.within(place()))?;
        *self.port.lock().expect("no thread panics while it holds the lock") = Some(port);
        Ok(())
    }

    /// Begins to read at `start`. An error, and nothing is read, if a port cannot be had.
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
                let _ended = Reads(source);
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

    /// Has a thread of its own do something, whose CPU time is counted as that of reading.
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

    /// Reads nothing more, and waits until that is so.
    pub fn end(&self) {
        self.queue.finish();
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics while it holds the lock"));
        for thread in threads {
            // Of a reader that panicked the phase has heard.
            let _ = thread.join();
        }
    }

    /// Takes down what went wrong, once in the same words.
    fn say(&self, words: String) {
        let mut trouble = self.trouble.lock().expect("no thread panics while it holds the lock");
        if !trouble.contains(&words) && trouble.len() < 20 {
            trouble.push(words);
        }
    }

    /// Warns of the first time that seems to be in a unit other than milliseconds.
    fn warn(&self, unit: Unit, milliseconds: i64) {
        self.warned.get_or_init(|| self.say(unit.warning(milliseconds)));
    }

    fn came(&self, bytes: usize) {
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts the lines of a reading, writes its dead letters, and hands over its events; does nothing with events for
    /// which it is too late. Returns whether the dead letters were kept.
    fn take_up(&self, lines: u64, chunk: Chunk, dead_letters: &mut Bundle) -> bool {
        let mut counted = false;
        let events = chunk.events.len() as u64;
        let mut count = || {
            self.counts.lines.fetch_add(lines, Ordering::Relaxed);
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

    /// Writes dead letters; returns whether they are in the file, if there is to be one.
    fn write(&self, dead_letters: &mut Bundle) -> bool {
        self.dead_letters.write(dead_letters).map_err(|words| self.say(words)).is_ok()
    }

    /// Events of a batch have come to their ends, each as `fates` say by places; `words` are the store's. Events whose
    /// dead letters cannot be written are left: nothing is acknowledged that is nowhere.
    pub fn settle(&self, taken: &InFlightBatch, fates: &mut [(u32, Disposition)], words: &str) {
        let mut dead_letters = Bundle::default();
        for (place, _) in fates.iter().filter(|(_, disposition)| *disposition == Disposition::Refused) {
            let line = taken.batch.line(&taken.batch.events[*place as usize]);
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
                    kinds[taken.batch.events[place as usize].kind] += 1;
                }
                Disposition::Refused => {}
            }
            taken.settle(place as usize);
        }
        if let Some(probes) = &self.probes {
            probes.acknowledged(taken, fates);
        }
        self.counts.indexed.fetch_add(indexed, Ordering::Relaxed);
        for (counter, count) in self.counts.kinds.iter().zip(kinds) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// A reader at work, however its thread ends.
struct Reads<'a>(&'a Source);

impl Drop for Reads<'_> {
    fn drop(&mut self) {
        self.0.queue.reader_ended();
    }
}
