//! A rank's part of a phase's outcome, and the sum of several: all but what the seconds say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rank_share::RankShare;
use crate::ingest::SourceStats;
use crate::recording::recorder::Counts;
use crate::recording::stream_end::StreamEnd;

/// Ranks named with a host that they cannot reach.
const NAMED: usize = 8;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankOutcome {
    /// Of which plan; see [`crate::recording::second::Second::plan`].
    pub plan: u64,
    /// How the generator failed, if it did: the first rank's words.
    pub failed: Option<String>,
    /// Whether the load was ended by an order.
    pub stopped: bool,
    /// Counts of the warm-up and of the measured segment, by slot.
    pub counts: Vec<[Counts; 2]>,
    /// Requests in flight at the end by slot: how many, and the greatest time since one of them was scheduled.
    pub in_flight: Vec<(u64, Duration)>,
    /// How the streams ended.
    pub streams: Vec<StreamEnd>,
    /// When the last worker ended, after the phase's start.
    pub ended: Duration,
    /// When a stream ended the phase, after its start, if one did.
    pub over: Option<Duration>,
    /// By how much the wall clock may be off, and how far it has drifted; seconds.
    pub clock: (f64, f64),
    /// The hosts that anybody knew.
    pub hosts: BTreeSet<String>,
    /// The hosts that could not be reached.
    pub unreachable: BTreeMap<String, Unreachable>,
    /// Corpora of which lines were kept aside: how many, and the files that have them.
    pub set_aside: BTreeMap<String, (u64, Vec<String>)>,
    /// How the sources stood in the end.
    pub sources: BTreeMap<String, SourceStats>,
    /// The shares of the ranks, by their numbers.
    pub by_rank: Vec<RankShare>,
}

/// Who could not reach a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// The first one's reason.
    pub why: String,
    /// The first ranks.
    pub ranks: Vec<u64>,
    /// How many ranks.
    pub of: u64,
}

impl RankOutcome {
    /// Adds other ranks' part of the same phase. An error in words for another plan's.
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
            // Ranks read the same files, and each says the same of them.
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
