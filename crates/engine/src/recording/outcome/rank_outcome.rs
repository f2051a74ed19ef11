//! A rank's part of a phase's outcome, and the sum of several. It omits facts recorded in the seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rank_share::RankShare;
use crate::ingest::SourceStats;
use crate::recording::recorder::Counts;
use crate::recording::stream_end::StreamEnd;

/// Maximum number of ranks to name for an unreachable host.
const NAMED: usize = 8;

/// Outcome of one rank, or of several.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankOutcome {
    /// Fingerprint of the plan; see [`crate::recording::second::Second::plan`].
    pub plan: u64,
    /// The generator's error, if it failed; of several, the first rank's.
    pub failed: Option<String>,
    /// Whether a stop ended the load.
    pub stopped: bool,
    /// Counts of the warm-up and of the measured segment, by slot.
    pub counts: Vec<[Counts; 2]>,
    /// Requests in flight at the end, by slot: number, and maximum time since scheduled.
    pub in_flight: Vec<(u64, Duration)>,
    /// Ends of the streams.
    pub streams: Vec<StreamEnd>,
    /// End of the last worker, after the phase's start.
    pub ended: Duration,
    /// End of the warm-up, after the phase's start.
    pub warmup: Duration,
    /// When a stream ended the phase, after its start, if one did.
    pub over: Option<Duration>,
    /// Uncertainty and drift of the wall clock; seconds.
    pub clock: (f64, f64),
    /// All hosts known to any rank.
    pub hosts: BTreeSet<String>,
    /// Hosts that could not be reached.
    pub unreachable: BTreeMap<String, Unreachable>,
    /// Corpora with lines set aside: number of lines, and files that contain them.
    pub set_aside: BTreeMap<String, (u64, Vec<String>)>,
    /// Final statistics of the sources.
    pub sources: BTreeMap<String, SourceStats>,
    /// The shares of the ranks, by their numbers.
    pub by_rank: Vec<RankShare>,
}

/// Ranks that could not reach a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// Reason of the first rank.
    pub why: String,
    /// The first ranks.
    pub ranks: Vec<u64>,
    /// Number of ranks.
    pub of: u64,
}

impl RankOutcome {
    /// Adds the outcome of other ranks of the same phase: sums of counts, latest times, worst clock, all hosts and
    /// ranks. Fails if the plans differ.
    pub fn add(&mut self, other: Self) -> Result<(), String> {
        if self.plan != other.plan {
            return Err("these are parts of different plans: all ranks need the same plan and version".into());
        }
        self.stopped |= other.stopped;
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(other.counts.iter().flatten()) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.in_flight.iter_mut().zip(other.in_flight) {
            *mine = (mine.0 + theirs.0, mine.1.max(theirs.1));
        }
        for (mine, theirs) in self.streams.iter_mut().zip(other.streams) {
            *mine = mine.and(theirs);
        }
        self.ended = self.ended.max(other.ended);
        self.warmup = self.warmup.max(other.warmup);
        self.over = self.over.max(other.over);
        let drift = if other.clock.1.abs() > self.clock.1.abs() { other.clock.1 } else { self.clock.1 };
        self.clock = (self.clock.0.max(other.clock.0), drift);
        self.hosts.extend(other.hosts);
        for (host, theirs) in other.unreachable {
            match self.unreachable.get_mut(&host) {
                Some(mine) => mine.add(theirs),
                None => drop(self.unreachable.insert(host, theirs)),
            }
        }
        for (corpus, theirs) in other.set_aside {
            // Ranks read the same files and report the same lines.
            let mine = self.set_aside.entry(corpus).or_insert_with(|| theirs.clone());
            if *mine < theirs {
                *mine = theirs;
            }
        }
        for (name, theirs) in other.sources {
            self.sources.entry(name).or_default().add(theirs);
        }
        self.by_rank.extend(other.by_rank);
        self.by_rank.sort_by_key(|share| share.rank);
        let mut failures = self.by_rank.iter().filter_map(|share| Some((share.rank, share.failed.as_ref()?)));
        self.failed = failures.next().map(|(rank, words)| format!("rank {rank}: {words}"));
        Ok(())
    }
}

impl Unreachable {
    /// Adds other ranks. Keeps the reason of the lowest rank, and the numbers of the first eight.
    fn add(&mut self, other: Self) {
        if other.ranks.first() < self.ranks.first() {
            self.why = other.why;
        }
        self.ranks.extend(other.ranks);
        self.ranks.sort_unstable();
        self.ranks.truncate(NAMED);
        self.of += other.of;
    }
}
