//! Paced sources: generators and replayed logs, whose events are due at given times.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use super::chunk::Chunk;
use super::dead_letters::{Bundle, Reason, Refusal};
use super::line::EventFields;
use super::line_reader::{MARK, wall};
use super::{Offered, Source, files, instant};
use crate::pacing::profile::Profile;
use crate::plan::{GeneratorPlan, NEVER, PlanError};
use crate::workload::event::Event;
use crate::workload::event::generate::{Generate, GeneratorOptions, generator as named};

/// Events due within this time are handed over together.
const TOGETHER: Duration = Duration::from_millis(1);

/// Size of a chunk when many events are due, bytes.
const READING: usize = 64 << 10;

/// Lines without events that are counted together.
const MANY: u64 = 1024;

/// Creates the generator that the plan names. `now`: the first event's time, milliseconds since 1970, if the
/// plan sets none. Refuses an unknown generator, and an invalid start, rate or option.
pub fn generator(source: &Source, made: &GeneratorPlan, now: i64) -> Result<Box<dyn Generate>, PlanError> {
    let start = match &made.start {
        None => now,
        Some(text) => instant::iso(text).ok_or_else(|| {
            PlanError::new(format!("start must be a time such as 2017-03-01T00:00:00Z; got {text:?}"))
        })?,
    };
    let (rate, seed) = (Profile::new(&made.rate)?, made.seed.unwrap_or(source.seed));
    let order =
        GeneratorOptions { seed, rate, documents: made.documents, start, share: source.share, with: &made.with };
    named(&made.generator, &order)
}

/// Queues each event of a generator or a replay when it is due after `start`, and blocks meanwhile.
/// At the end it stores the source's progress, if its events have due times. Fails if the generator cannot be created.
pub fn read(source: &Source, start: Instant) -> Result<(), String> {
    let mut pace = Pace::new(source, start);
    all(source, &mut pace)?;
    pace.hand_over();
    if pace.paced {
        let _ = source.offered.set(pace.offered());
    }
    Ok(())
}

/// Queues the events of a generator, or of the files of a replay, until the end or until the queue closes. An
/// unreadable file is recorded as damage. Fails if the generator cannot be created.
fn all(source: &Source, pace: &mut Pace<'_>) -> Result<(), String> {
    match (&source.plan.generate, &source.plan.replay) {
        (Some(made), _) => {
            let mut generator = generator(source, made, pace.wall).map_err(|error| error.message)?;
            let (mut line, mut transformed) = (Vec::new(), Vec::new());
            while let Some(due) = generator.next(&mut line) {
                let Some(due) = pace.wait(due) else { return Ok(()) };
                let open = match source.reader.parse(&line, &mut transformed) {
                    Ok(Some(fields)) => {
                        pace.event(if source.reader.transforms() { &transformed } else { &line }, fields, due);
                        true
                    }
                    Ok(None) => pace.drop_event(),
                    Err(refusal) => pace.refuse(refusal, &line, &source.name),
                };
                if !open {
                    return Ok(());
                }
                line.clear();
                transformed.clear();
            }
        }
        (None, Some(replay)) => {
            let mut clock = Clock { first: None, last: Duration::ZERO, speed: replay.speed };
            for path in &source.plan.files {
                let name = path.display().to_string();
                let read = files::open(path).and_then(|file| file_of(pace, file, &name, &mut clock));
                if let Err(words) = read {
                    source.say_damage(words);
                }
                if source.queue.is_closed() {
                    return Ok(());
                }
            }
        }
        (None, None) => {}
    }
    Ok(())
}

/// Queues this rank's events of a file when they are due by `clock`; dead letters and dropped events are counted.
/// `name`: the file's name in dead letters. Returns early if the queue closes; fails if the file cannot be read, after
/// the line that the error cuts off.
fn file_of(pace: &mut Pace<'_>, file: Box<dyn Read>, name: &str, clock: &mut Clock) -> Result<(), String> {
    let source = pace.source;
    let longest = source.plan.longest_line;
    // Room for a byte order mark and a line end.
    let most = (longest as u64).saturating_add(MARK.len() as u64 + 2);
    let mut file = BufReader::with_capacity(READING, file);
    let (mut line, mut transformed, mut number) = (Vec::new(), Vec::new(), 0);
    while let Some(end) = next_line(&mut file, most, &mut line) {
        transformed.clear();
        number += 1;
        let marked = line.strip_prefix(MARK).filter(|_| number == 1);
        let text = source.reader.content(marked.unwrap_or(&line));
        // Every rank reads all lines, to keep the same clock, and uses its own share.
        let mine = (number - 1) % source.share.of == source.share.index;
        let fields = match end {
            _ if text.is_empty() => Ok(None),
            LineEnd::Skipped => Err(Reason::TooLong.into()),
            _ => source.parse(text, matches!(end, LineEnd::Cut(_)), &mut transformed),
        };
        let open = match fields {
            Ok(Some(fields)) => {
                let due = clock.due(fields.due.unwrap_or(fields.time));
                let content = if source.reader.transforms() { &transformed[..] } else { text };
                !mine || pace.wait(due).map(|due| pace.event(content, fields, due)).is_some()
            }
            Ok(None) => !mine || text.is_empty() || pace.drop_event(),
            Err(refusal) => {
                !mine || pace.refuse(refusal, &text[..text.len().min(longest)], &format!("{name}:{number}"))
            }
        };
        if let LineEnd::Cut(error) = end {
            return Err(files::damage(name, number - 1, &error));
        }
        if !open {
            break;
        }
    }
    Ok(())
}

/// How a line ends.
enum LineEnd {
    /// With a newline, or with the file.
    Whole,
    /// Beyond the maximum length. Its rest was skipped.
    Skipped,
    /// By an error.
    Cut(std::io::Error),
}

/// Replaces `line` by the next line of a file, up to `most` bytes of it; `None` at the end of the file.
fn next_line(file: &mut impl BufRead, most: u64, line: &mut Vec<u8>) -> Option<LineEnd> {
    line.clear();
    match file.by_ref().take(most).read_until(b'\n', line) {
        Ok(0) => None,
        Ok(_) if line.len() as u64 == most && !line.ends_with(b"\n") => {
            Some(file.skip_until(b'\n').map_or_else(LineEnd::Cut, |_| LineEnd::Skipped))
        }
        Ok(_) => Some(LineEnd::Whole),
        Err(error) => Some(LineEnd::Cut(error)),
    }
}

/// Maps event times of a log to offsets from the start.
struct Clock {
    first: Option<i64>,
    last: Duration,
    speed: f64,
}

impl Clock {
    /// Returns when an event of time `time`, milliseconds since 1970, is due after the start: its distance from the
    /// first event, divided by the replay speed. Times that run backwards count as unchanged.
    fn due(&mut self, time: i64) -> Duration {
        let since = time.saturating_sub(*self.first.get_or_insert(time));
        let seconds = (since as f64 / 1e3 / self.speed).clamp(0.0, NEVER);
        self.last = self.last.max(Duration::from_secs_f64(seconds));
        self.last
    }
}

/// Hands over events when they are due.
struct Pace<'a> {
    source: &'a Source,
    start: Instant,
    /// Wall clock at the start, milliseconds since 1970.
    wall: i64,
    now: Instant,
    /// Whether events have due times. If not, they are handed over as fast as the queue has room.
    paced: bool,
    bytes: Vec<u8>,
    events: Vec<Event>,
    lines: u64,
    dropped: u64,
    dead_letters: Bundle,
    /// Due time of the last wait, and whether the queue has closed.
    last: Duration,
    unwanted: bool,
}

impl<'a> Pace<'a> {
    /// Creates the state of a source whose first event may be due at `start`.
    fn new(source: &'a Source, start: Instant) -> Self {
        let now = Instant::now();
        let wall = wall() - now.saturating_duration_since(start).as_millis() as i64;
        let (bytes, events) = (Vec::new(), Vec::new());
        let (last, unwanted) = (Duration::ZERO, false);
        let paced = source.plan.generate.as_ref().is_none_or(|made| made.paced);
        Self {
            source,
            start,
            wall,
            now,
            paced,
            bytes,
            events,
            lines: 0,
            dropped: 0,
            dead_letters: Bundle::default(),
            last,
            unwanted,
        }
    }

    /// Returns how far the source has come; see [`Offered`].
    fn offered(&self) -> Offered {
        let until = if self.unwanted { self.start.elapsed() } else { self.last };
        let flush = self.source.plan.flush.as_secs_f64();
        Offered { until: until.as_secs_f64(), made: self.last.min(until).as_secs_f64(), flush }
    }

    /// Waits until `due` after the start, if the source is paced; returns the due time, or `None` if the queue has
    /// closed. Queues collected events before it sleeps.
    fn wait(&mut self, due: Duration) -> Option<Duration> {
        let due = if self.paced { due } else { self.start.elapsed() };
        self.last = due;
        self.unwanted = !self.wait_until(self.start + due);
        (!self.unwanted).then_some(due)
    }

    /// Waits until `due`; returns false if the queue has closed. Queues collected events before it sleeps.
    fn wait_until(&mut self, due: Instant) -> bool {
        if due > self.now {
            self.now = Instant::now();
        }
        if due > self.now || self.bytes.len() >= READING {
            self.hand_over();
            if !self.source.queue.wait_for_room() {
                return false;
            }
        }
        if due > self.now {
            let open = self.source.queue.sleep_until(due.max(self.now + TOGETHER));
            self.now = Instant::now();
            return open;
        }
        true
    }

    /// Collects an event with its line, due at `due` after the start, for the next [`Pace::hand_over`].
    fn event(&mut self, line: &[u8], fields: EventFields, due: Duration) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(line);
        self.lines += 1;
        self.events.push(Event {
            arrived: self.start + due,
            line: start..self.bytes.len(),
            id: start + fields.id.start..start + fields.id.end,
            kind: fields.kind,
            time: fields.time,
            arrival: self.wall + due.as_millis() as i64,
        });
    }

    /// Counts a line that the transformation drops; may queue the lines collected so far. Returns false if the queue
    /// has closed.
    fn drop_event(&mut self) -> bool {
        self.lines += 1;
        self.dropped += 1;
        self.pass_on()
    }

    /// Collects a line as a dead letter; may queue the lines collected so far. Returns false if the queue has closed.
    /// `from`: the line's origin.
    fn refuse(&mut self, Refusal { reason, words }: Refusal, line: &[u8], from: &str) -> bool {
        self.lines += 1;
        self.source.dead_letters.add(&mut self.dead_letters, reason, &words, line, from);
        self.pass_on()
    }

    /// Hands over the collected lines if they are many, because lines without events do not wait for a due time. Then
    /// blocks while the queue is full; returns false if it has closed.
    fn pass_on(&mut self) -> bool {
        if self.lines >= MANY || self.dead_letters.size() >= READING {
            self.hand_over();
            self.unwanted = !self.source.queue.wait_for_room();
        }
        !self.unwanted
    }

    /// Queues the collected events, and writes the collected dead letters; does nothing without lines.
    fn hand_over(&mut self) {
        if self.lines == 0 {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let events = std::mem::take(&mut self.events);
        self.source.add_bytes(bytes.len());
        let chunk = Chunk { bytes, events, ticket: None };
        let (lines, dropped) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.dropped));
        self.source.take_up(lines, dropped, chunk, &mut self.dead_letters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_backwards_stands_still_until_it_has_caught_up() {
        let mut clock = Clock { first: None, last: Duration::ZERO, speed: 2.0 };
        let due: Vec<u128> =
            [10_000, 12_000, 5_000, 11_000, 14_000].map(|time| clock.due(time).as_millis()).into_iter().collect();
        assert_eq!(due, [0, 1000, 1000, 1000, 2000]);
    }
}
