//! End of a phase: joins all threads and combines their results.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use super::sinks::Ending;
use crate::client::phase::{Leftover, Phase};
use crate::driver::Driver;
use crate::pacing::clock::ClockReading;
use crate::pacing::start_time::StartTime;
use crate::recording::collector::{Link, collect};
use crate::recording::outcome::{Clock, RankOutcome, RankShare, Unreachable, Watch, measured};
use crate::recording::slot::Slot;
use crate::recording::stream_end::StreamEnd;
use crate::recording::tally::Totals;
use crate::util::panics;
use crate::workload::corpus::Corpora;

/// Results of a phase.
pub(super) struct Ended {
    pub totals: Totals,
    watch: Watch,
    leftover: Leftover,
    start_time: StartTime,
}

/// Passes the seconds of all workers to `sink` until the end, then closes it and joins the workers; blocks meanwhile.
/// Returns the combined results, or the phase's error if the records could not be written. An error or panic of the
/// sink also stops the phase.
pub(super) fn finish<D: Driver, S: Ending>(
    phase: &Arc<Phase<D>>,
    mut sink: S,
    links: Vec<Link>,
    workers: &Receiver<JoinHandle<Leftover>>,
    start_time: StartTime,
) -> Result<Ended, String> {
    let hears = phase.clone();
    let _listening = panics::listen(move |words| hears.fail(format!("the collector panicked: {words}")));
    // Catch a panic here: without a receiver of their records, the workers must be stopped.
    let collected =
        catch_unwind(AssertUnwindSafe(|| collect(phase.plan.rank, links, &mut sink).and_then(|()| sink.end())));
    if let Ok(Err(error)) = &collected {
        phase.fail(format!("cannot write the records: {error}"));
    }
    let mut leftover = Leftover { streams: vec![StreamEnd::NOTHING; phase.plan.streams.len()], ..Leftover::default() };
    for worker in workers {
        // A worker's panic was already reported to the phase.
        let theirs = worker.join().unwrap_or_default();
        leftover.in_flight.extend(theirs.in_flight);
        for (stream, part) in leftover.streams.iter_mut().zip(theirs.streams) {
            *stream = stream.and(part);
        }
        leftover.began = leftover.began.max(theirs.began);
        leftover.ended = leftover.ended.max(theirs.ended);
    }
    match collected {
        Ok(Ok((totals, watch))) => Ok(Ended { totals, watch, leftover, start_time }),
        _ => Err(phase.failure.get().cloned().unwrap_or_default()),
    }
}

impl Ended {
    /// Returns this process's part of the outcome; the whole outcome for a single process. `fingerprint`: of the
    /// plan.
    pub(super) fn part<D: Driver>(&self, phase: &Phase<D>, slots: &[Slot], fingerprint: u64) -> RankOutcome {
        let Self { totals, watch, leftover, start_time } = self;
        let rank = phase.plan.rank;
        let mut in_flight = vec![(0, Duration::ZERO); slots.len()];
        for &(slot, age) in &leftover.in_flight {
            let (count, oldest) = &mut in_flight[slot];
            (*count, *oldest) = (*count + 1, age.max(*oldest));
        }
        let now = ClockReading::take();
        let clock = (start_time.clock.uncertainty.max(now.uncertainty).as_secs_f64(), now.drift(&start_time.clock));
        let unreachable = phase.driver.unreachable();
        let counts = measured(slots, &totals.counts);
        let last_done = leftover.streams.iter().map(|end| end.last_done).max().unwrap_or_default();
        let failed = phase.failure.get().cloned();
        let share = RankShare {
            rank,
            began_late: leftover.began.as_secs_f64(),
            requests: counts.requests,
            successes: counts.successes,
            documents: counts.documents,
            dropped: counts.dropped,
            errors: counts.requests - counts.successes,
            in_flight_at_end: leftover.in_flight.len() as u64,
            last_done: last_done.as_secs_f64(),
            ended: leftover.ended.as_secs_f64(),
            watched: watch.watched(),
            clock: Clock { uncertainty: clock.0, drift: clock.1 },
            unreachable: unreachable.iter().map(|(host, _)| host.clone()).collect(),
            failed: failed.clone(),
        };
        let who = |why| Unreachable { why, ranks: vec![rank], of: 1 };
        RankOutcome {
            plan: fingerprint,
            failed,
            stopped: phase.stop.load(Ordering::Relaxed),
            counts: totals.counts.clone(),
            in_flight,
            streams: leftover.streams.clone(),
            ended: leftover.ended,
            warmup: phase.warmup(),
            over: phase.ended.get().map(|ended| ended.saturating_duration_since(start_time.at)),
            clock,
            hosts: phase.driver.hosts().into_iter().collect(),
            unreachable: unreachable.into_iter().map(|(host, why)| (host, who(why))).collect(),
            set_aside: set_aside(&phase.context.corpora),
            sources: phase.stats(),
            by_rank: vec![share],
        }
    }
}

/// Returns the corpora with lines set aside: by name, the number of lines and the files that contain them.
fn set_aside(corpora: &Corpora) -> BTreeMap<String, (u64, Vec<String>)> {
    let stats = corpora.iter().map(|(name, corpus)| (name.to_owned(), corpus.set_aside()));
    let paths = |kept: Vec<&std::path::Path>| kept.iter().map(|path| path.display().to_string()).collect();
    stats.filter(|(_, (lines, _))| *lines > 0).map(|(name, (lines, kept))| (name, (lines, paths(kept)))).collect()
}
