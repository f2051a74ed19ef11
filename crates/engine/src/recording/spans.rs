//! Spans of sampled requests, one per attempt, on their way to an OpenTelemetry receiver.
//!
//! Spans are part of their second, like samples. Their number is bounded everywhere: more are counted as dropped.
//! A slow receiver therefore never delays the load.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::driver::ErrorClass;
use crate::pacing::clock::ClockReading;
use crate::recording::sample::Sample;
use crate::recording::slot::Slot;
use crate::util::trace::Trace;

/// Maximum number of spans of a second, and of spans that wait for their reader.
pub const MOST: usize = 5_000;

/// One attempt of a sampled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// Its ids.
    pub trace: Trace,
    /// Whether the histograms count its times: true for a last attempt, unless it is a poll for a write.
    pub recorded: bool,
    /// Its times and outcome.
    pub sample: Sample,
}

/// Spans of a second. `T` is a span, possibly with further data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans<T = Span> {
    /// The spans, at most [`MOST`].
    pub kept: Vec<T>,
    /// Number of further spans.
    pub dropped: u64,
}

impl<T> Default for Spans<T> {
    /// Creates an empty collection.
    fn default() -> Self {
        Self { kept: Vec::new(), dropped: 0 }
    }
}

impl<T> Spans<T> {
    /// Adds a span, or counts it as dropped if [`MOST`] are kept.
    pub fn push(&mut self, span: T) {
        if self.kept.len() < MOST {
            self.kept.push(span);
        } else {
            self.dropped += 1;
        }
    }

    /// Removes all spans, and sets the number of dropped ones to 0.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.dropped = 0;
    }

    /// Adds other spans. Keeps the lowest [`MOST`], so that the order of additions does not matter; the others count as
    /// dropped.
    pub fn add(&mut self, other: &Self)
    where
        T: Clone + Ord,
    {
        self.dropped += other.dropped;
        if other.kept.is_empty() {
            return;
        }
        self.kept.extend_from_slice(&other.kept);
        self.kept.sort_unstable();
        self.dropped += self.kept.len().saturating_sub(MOST) as u64;
        self.kept.truncate(MOST);
    }
}

/// A span with names and wall-clock times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadSpan {
    trace: String,
    span: String,
    /// Number of the attempt, from 0.
    attempt: u32,
    /// See [`Span::recorded`].
    recorded: bool,
    stream: String,
    operation: String,
    measured: bool,
    rank: u32,
    client: u32,
    /// Nanoseconds since 1970, as the following.
    scheduled: i64,
    sent: i64,
    done: i64,
    /// Address of the node; empty without a node, and for a driver without hosts.
    node: String,
    /// The HTTP status, if there was an answer.
    status: Option<u16>,
    /// Class of the failure.
    error: Option<&'static str>,
}

/// Spans that wait for their reader.
#[derive(Clone, Debug, Default)]
pub struct SpanQueue(Arc<Mutex<Spans<ReadSpan>>>);

impl SpanQueue {
    /// Adds the spans of a second, with the names of their slots and hosts, and wall-clock times.
    /// `start`: start of the phase. `hosts`: names by node number. Above [`MOST`] waiting spans, further ones count as
    /// dropped.
    pub fn add(&self, spans: &Spans, slots: &[Slot], hosts: &[String], start: Instant) {
        if spans.kept.is_empty() && spans.dropped == 0 {
            return;
        }
        // Read again each second, because the wall clock drifts against the monotonic clock.
        let now = ClockReading::take();
        let began = wall_time(now, start);
        let mut queue = self.0.lock().expect("no thread panics while it holds the lock");
        queue.dropped += spans.dropped;
        for Span { trace, recorded, sample } in &spans.kept {
            let slot = &slots[sample.slot as usize];
            queue.push(ReadSpan {
                trace: trace.id(),
                span: trace.span(),
                attempt: trace.attempt,
                recorded: *recorded,
                stream: slot.stream.clone(),
                operation: slot.operation.clone(),
                measured: sample.measured,
                rank: sample.rank,
                client: sample.client,
                scheduled: began + sample.scheduled,
                sent: began + sample.sent,
                done: began + sample.done,
                node: hosts.get(usize::from(sample.node)).cloned().unwrap_or_default(),
                status: Some(sample.status).filter(|status| *status > 0),
                error: sample.class.checked_sub(1).map(|class| ErrorClass::ALL[usize::from(class)].name()),
            });
        }
    }

    /// Removes and returns the waiting spans, and the number of dropped ones.
    pub fn take(&self) -> Spans<ReadSpan> {
        std::mem::take(&mut *self.0.lock().expect("no thread panics while it holds the lock"))
    }
}

/// Returns the wall-clock time of an instant, nanoseconds since 1970. `now`: a recent reading of both clocks.
fn wall_time(now: ClockReading, instant: Instant) -> i64 {
    let nanos = |time: Duration| time.as_nanos() as i64;
    let wall = nanos(now.wall.duration_since(UNIX_EPOCH).unwrap_or_default());
    wall - nanos(now.at.saturating_duration_since(instant)) + nanos(instant.saturating_duration_since(now.at))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::driver::{Failure, Reply};
    use crate::util::draw::Draw;

    /// Creates the span of a failed request `k` at the time `at`, in a phase that began at `start`.
    fn span(k: u64, at: Instant, start: Instant) -> Span {
        let reply = Reply { status: Some(503), ..Reply::new(at, at, Err(Failure::new(ErrorClass::Server, "no"))) };
        let sample = Sample::of(0, 3, start, at, true, &reply);
        Span { trace: Draw::new(1, 2, k).trace_context(9, 7, 1), recorded: true, sample }
    }

    #[test]
    fn spans_beyond_the_limit_are_counted_whatever_the_order_of_additions() {
        let now = Instant::now();
        let parts: Vec<Spans> = (0..3)
            .map(|part| {
                let mut spans = Spans::default();
                (0..MOST as u64 - 10).for_each(|k| spans.push(span(part * 100_000 + k, now, now)));
                spans
            })
            .collect();
        let sum = |order: [usize; 3]| {
            let mut sum = Spans::default();
            order.iter().for_each(|part| sum.add(&parts[*part]));
            sum
        };
        assert_eq!((sum([0, 1, 2]).kept.len(), sum([0, 1, 2]).dropped), (MOST, 2 * MOST as u64 - 30));
        assert_eq!(sum([0, 1, 2]), sum([2, 0, 1]));
        let mut full = sum([0, 1, 2]);
        full.push(span(0, now, now));
        assert_eq!((full.kept.len(), full.dropped), (MOST, 2 * MOST as u64 - 29));
    }

    #[test]
    fn readers_get_wall_clock_times_and_names_once() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let mut spans = Spans::default();
        spans.push(span(1, start + Duration::from_millis(1500), start));
        spans.dropped = 2;
        let slot = Slot { stream: "s".into(), operation: "read".into(), part: None, of_several: false };
        let queue = SpanQueue::default();
        queue.add(&spans, &[slot], &["n:9200".into()], start);
        let Spans { kept, dropped } = queue.take();
        let [read] = kept.as_slice() else { panic!("{kept:?}") };
        let expected = wall + Duration::from_millis(1500);
        let expected = expected.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!((read.scheduled - expected).abs() < 1_000_000, "{} and {expected}", read.scheduled);
        assert_eq!((read.stream.as_str(), read.operation.as_str(), read.node.as_str()), ("s", "read", "n:9200"));
        assert_eq!((read.status, read.error, read.attempt, dropped), (Some(503), Some("server"), 1, 2));
        assert_eq!(queue.take(), Spans::default());
    }
}
