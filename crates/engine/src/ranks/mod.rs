//! Rank 0's record of a phase with several ranks. It receives the sums of the ranks' seconds, writes the same
//! files as a single process, and derives the directives for all ranks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::pacing::start_time::StartTime;
use crate::plan::{Plan, PlanError};
use crate::ranks::directives::Directives;
use crate::recording::files::Files;
use crate::recording::measures::SharedMeasures;
use crate::recording::outcome::{RankOutcome, describe, write};
use crate::recording::recorder::{Counts, Interval};
use crate::recording::second::Second;
use crate::recording::slot::Slot;
use crate::recording::tally::{Progress, Shown, Tally, shown};
use crate::recording::worker_stats::Workers;

/// Maximum number of missing ranks to name.
const NAMED: usize = 8;

/// Recorder of a phase with several ranks.
pub struct RankRecorder {
    plan: Plan,
    /// See [`Second::plan`].
    fingerprint: u64,
    start_time: StartTime,
    folder: PathBuf,
    files: Files,
    tally: Tally,
    progress: Shown,
    /// The hosts by their numbers in the files.
    hosts: Vec<String>,
    sum: Interval,
    /// The number of the next second.
    next: u64,
    directives: Directives,
}

/// Reason why a second or a phase's end was not recorded.
#[derive(Debug)]
pub enum Refusal {
    /// The input does not belong to this phase; message.
    Input(String),
    /// A file could not be written; message.
    Files(String),
}

impl RankRecorder {
    /// Creates the files of a phase in `folder`. It begins at `start`, seconds of this machine's CLOCK_MONOTONIC; by
    /// default at the plan's start time. `fingerprint`: of the plan. Fails if the start is out of range or a file
    /// cannot be created.
    pub fn create(
        folder: &Path,
        plan: &Plan,
        slots: &[Slot],
        fingerprint: u64,
        start: Option<f64>,
    ) -> Result<Self, PlanError> {
        let start_time = StartTime::new(plan, start.or(plan.start))?;
        let progress = Shown::default();
        let files = Files::create(folder, plan, slots, start_time.offset, start_time.began(), true)
            .map_err(|e| PlanError::machine(format!("{}: {e}", folder.display())))?;
        Ok(Self {
            plan: plan.clone(),
            fingerprint,
            start_time,
            folder: folder.to_owned(),
            files,
            tally: Tally::new(plan, slots.to_vec(), progress.clone()),
            progress,
            hosts: Vec::new(),
            sum: Interval::new(0, slots.len()),
            next: 0,
            directives: Directives::default(),
        })
    }

    /// Returns the time from the run's start to the start of the load.
    pub fn offset(&self) -> Duration {
        self.start_time.offset
    }

    /// Records the next second: `bytes` is its serialized sum over all ranks still running. Writes it to the files and
    /// updates the directives. Refuses unreadable bytes, and seconds of another plan or out of order.
    pub fn second(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let second = Second::from_bytes(bytes).map_err(Refusal::Input)?;
        if second.plan != self.fingerprint {
            let cause = "this second is of another plan: all ranks need the same plan and version";
            return Err(Refusal::Input(cause.into()));
        }
        if second.second != self.next {
            return Err(Refusal::Input(format!("received second {}, expected {}", second.second, self.next)));
        }
        self.next += 1;
        // Number new hosts of one second in the plan's order, independent of the order of ranks.
        let met: BTreeSet<&str> = second.hosts().collect();
        let planned = self.plan.target.hosts.iter().map(String::as_str).filter(|host| met.contains(host));
        for host in planned {
            if !self.hosts.iter().any(|known| known == host) {
                self.hosts.push(host.to_owned());
            }
        }
        self.sum.clear();
        second.fill(&mut self.sum, &mut self.hosts).map_err(Refusal::Input)?;
        self.record(&second.workers)?;
        for (settled, (floor, total)) in
            self.settled(second.state.counters.len()).iter_mut().zip(&second.state.counters)
        {
            *settled = (*settled).max(if *floor == u64::MAX { *total } else { *floor });
        }
        self.directives.clocks.resize(second.state.clocks.len(), (0, 0));
        for (clock, standing) in self.directives.clocks.iter_mut().zip(&second.state.clocks) {
            if let Some(to) = standing.next(clock.0) {
                *clock = (clock.0 + 1, to);
            }
        }
        let ends = |stream: usize| {
            let named = self.plan.streams.get(stream).map(|stream| &stream.name);
            named.is_some_and(|name| self.plan.ends_with.contains(name))
        };
        let over = second.state.over.iter().enumerate().any(|(stream, over)| *over && ends(stream));
        self.directives.over |= over;
        Ok(())
    }

    /// Resizes the settled counts in the directives to `counters` counters, and returns them.
    fn settled(&mut self, counters: usize) -> &mut Vec<u64> {
        self.directives.settled.resize(counters, 0);
        &mut self.directives.settled
    }

    /// Writes the current second to the files, the totals and the spans.
    /// Sets the stop directive if a condition of the plan is met. Fails if a file cannot be written.
    fn record(&mut self, workers: &Workers) -> Result<(), Refusal> {
        let place = || self.folder.display();
        self.files
            .second(self.tally.slots(), &self.sum, workers)
            .map_err(|error| Refusal::Files(format!("{}: {error}", place())))?;
        self.tally.second(&self.sum);
        self.tally.measures.spans.add(&self.sum.spans, self.tally.slots(), &self.hosts, self.start_time.at);
        self.directives.stop |= self.tally.totals.stopped_by.is_some();
        Ok(())
    }

    /// Sets the end of the warm-up (`measured_from`) and of the phase (`until`), whole seconds after the load's start.
    /// The warm-up is at most the planned one. `None` leaves a value unchanged.
    pub fn adjust(&mut self, measured_from: Option<u64>, until: Option<u64>) {
        let (warmup, ended) = &mut self.tally.window;
        *warmup = measured_from.map_or(*warmup, |second| Duration::from_secs(second).min(self.plan.warmup));
        *ended = until.map(Duration::from_secs).or(*ended);
    }

    /// Returns the current directives for all ranks, serialized.
    pub fn directives(&self) -> Vec<u8> {
        self.directives.to_bytes()
    }

    /// Returns the progress over all ranks, for display.
    pub fn progress(&self) -> Progress {
        shown(&self.progress)
    }

    /// Returns the counts and times over all ranks for monitoring systems; they remain readable after the end.
    pub fn measures(&self) -> SharedMeasures {
        self.tally.measures.clone()
    }

    /// Returns whether a condition of the plan was met, so that all ranks must stop.
    pub fn stopped_by(&self) -> bool {
        self.directives.stop
    }

    /// Writes `outcome.json` and returns the outcome, combined from the ranks' parts. Ranks without a part make the
    /// outcome a failed one. Refuses parts of another plan, and an empty list.
    pub fn finish(&mut self, parts: Vec<RankOutcome>) -> Result<Value, Refusal> {
        self.files.end().map_err(|error| Refusal::Files(format!("{}: {error}", self.folder.display())))?;
        let mut sum: Option<RankOutcome> = None;
        for part in parts {
            if part.plan != self.fingerprint {
                let cause = "this part of an outcome is of another plan: all ranks need the same plan and version";
                return Err(Refusal::Input(cause.into()));
            }
            match &mut sum {
                None => sum = Some(part),
                Some(sum) => sum.add(part).map_err(Refusal::Input)?,
            }
        }
        let mut part = sum.ok_or_else(|| Refusal::Input("an outcome has at least one part".into()))?;
        if part.failed.is_none() {
            part.failed = self.lost(&part);
        }
        let unused = part.hosts.iter().filter(|host| !self.hosts.contains(host));
        let hosts: Vec<String> = self.hosts.iter().chain(unused).cloned().collect();
        let outcome =
            describe(&self.plan, self.tally.slots(), &self.tally.totals, &part, &self.start_time, &hosts, true);
        write(&self.folder.join("outcome.json"), &outcome).map_err(Refusal::Files)?;
        Ok(outcome)
    }

    /// Returns a description of missing data; `None` if the data are complete.
    /// Data are missing if a rank has no part or two, or if the parts' totals differ from the sum of the seconds.
    fn lost(&self, part: &RankOutcome) -> Option<String> {
        let there: BTreeSet<u64> = part.by_rank.iter().map(|share| share.rank).collect();
        let missing: Vec<u64> = (0..self.plan.ranks).filter(|rank| !there.contains(rank)).collect();
        if !missing.is_empty() {
            let named: Vec<String> = missing.iter().take(NAMED).map(u64::to_string).collect();
            let more = if missing.len() > NAMED { " and others" } else { "" };
            return Some(format!(
                "{} of {} ranks did not report an outcome: rank {}{more}",
                missing.len(),
                self.plan.ranks,
                named.join(", ")
            ));
        }
        if there.len() < part.by_rank.len() {
            return Some("a rank reported its outcome twice".into());
        }
        let requests = |counts: &[[Counts; 2]]| counts.iter().flatten().map(|counts| counts.requests).sum::<u64>();
        let (counted, recorded) = (requests(&part.counts), requests(&self.tally.totals.counts));
        (part.counts != self.tally.totals.counts).then(|| {
            format!("the ranks' totals differ from the sum of their seconds: {counted} requests and {recorded}")
        })
    }
}

pub mod directives;
#[cfg(test)]
mod tests;
