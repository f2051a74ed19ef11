//! One second of a phase as a value: the record of one rank, or the sum over several. It holds only non-empty
//! cells. Its size is independent of the number of requests and ranks, unless every request is recorded
//! individually. Addition is exact and commutative.
//!
//! Hosts are identified by name, because ranks discover and number them in different orders.

mod sparse;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::driver::{ErrorClass, NO_NODE};
use crate::pacing::simulated_clock::ClockState;
use crate::recording::durations::histogram;
use crate::recording::recorder::{Counts, DeadlineCounts, Interval, MESSAGES, Message, Served, same_words};
use crate::recording::sample::{OfRank, Sample};
use crate::recording::spans::{Span, Spans};
use crate::recording::worker_stats::Workers;
use sparse::Sparse;

/// One second, as exchanged between ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Fingerprint of plan and engine. Seconds with different fingerprints cannot be added.
    pub plan: u64,
    /// Seconds since the phase began.
    pub second: u64,
    /// By slot and whether it is the measured segment.
    cells: BTreeMap<(u64, bool), CellValue>,
    lateness: Sparse,
    lag: Sparse,
    /// Metrics of the workers.
    pub workers: Workers,
    /// Error messages, by ascending rank.
    messages: Vec<Words>,
    /// State of the streams and counters at its end.
    pub state: State,
    /// Individual requests, if recorded.
    samples: Vec<OfRank>,
    /// Spans of sampled requests, each with the name of its node.
    spans: Spans<(Span, String)>,
}

/// State of the streams and counters of one or all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Whether the part of each stream is over; in a sum, whether all parts are.
    pub over: Vec<bool>,
    /// For each counter: the number below which all inserts are finished, and the maximum count of ended
    /// ranks. The first is `u64::MAX` for a rank without further inserts.
    pub counters: Vec<(u64, u64)>,
    /// State of the users of each stream with respect to their shared clock.
    pub clocks: Vec<ClockState>,
}

/// A cell; see [`crate::recording::recorder::Cell`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CellValue {
    counts: Counts,
    deadlines: Vec<DeadlineCounts>,
    response: Sparse,
    service: Sparse,
    failure: Sparse,
    setup: Sparse,
    abandoned: Sparse,
    overhead: Sparse,
    corrected: Sparse,
    nodes: BTreeMap<String, Served>,
    unanswered: u64,
    oldest_unanswered: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Words {
    rank: u64,
    /// Index among the rank's messages in this second.
    place: u64,
    slot: u64,
    class: u64,
    measured: bool,
    status: Option<u16>,
    text: String,
    count: u64,
}

impl Second {
    /// Creates the record of rank `rank` from the sum over its workers. `plan`: fingerprint of the plan. `hosts`:
    /// names of its nodes, by their numbers in `sum`. `state`: of its streams and counters.
    pub fn of(plan: u64, rank: u64, sum: &Interval, mut workers: Workers, hosts: &[String], state: State) -> Self {
        let cells = sum.used_cells().map(|(slot, measured, cell)| {
            let nodes = cell.nodes.iter().enumerate().filter(|(_, served)| served.requests > 0);
            let part = CellValue {
                counts: cell.counts.clone(),
                deadlines: cell.deadlines.clone(),
                response: Sparse::of(&cell.response),
                service: Sparse::of(&cell.service),
                failure: cell.failure.as_ref().map(Sparse::of).unwrap_or_default(),
                setup: cell.setup.as_ref().map(Sparse::of).unwrap_or_default(),
                abandoned: cell.abandoned.as_ref().map(Sparse::of).unwrap_or_default(),
                overhead: cell.overhead.as_ref().map(Sparse::of).unwrap_or_default(),
                corrected: cell.corrected.as_ref().map(Sparse::of).unwrap_or_default(),
                nodes: nodes.map(|(node, served)| (name(hosts, node), *served)).collect(),
                unanswered: cell.unanswered,
                oldest_unanswered: cell.oldest_unanswered,
            };
            ((slot as u64, measured), part)
        });
        let messages = (0..).zip(&sum.messages).map(|(place, message)| Words {
            rank,
            place,
            slot: message.slot as u64,
            class: message.class as u64,
            measured: message.measured,
            status: message.status,
            text: message.text.clone(),
            count: message.count,
        });
        let named = |span: &Span| {
            let sample = Sample { rank: rank as u32, ..span.sample };
            (Span { sample, ..*span }, name(hosts, usize::from(sample.node)))
        };
        workers.prune();
        let mut second = Self {
            plan,
            second: sum.second,
            cells: cells.collect(),
            lateness: Sparse::of(&sum.watch.lateness),
            lag: Sparse::of(&sum.watch.lag),
            workers,
            messages: messages.collect(),
            state,
            samples: if sum.samples.is_empty() {
                Vec::new()
            } else {
                vec![OfRank { rank, hosts: hosts.to_vec(), samples: sum.samples.clone() }]
            },
            spans: Spans { kept: sum.spans.kept.iter().map(named).collect(), dropped: sum.spans.dropped },
        };
        second.keep_the_first_messages();
        second
    }

    /// Parses the output of [`Self::to_bytes`]; fails for other bytes, and for histograms of another layout.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let second: Self = postcard::from_bytes(bytes).map_err(|error| format!("cannot parse a second: {error}"))?;
        let histograms = second.cells.values().flat_map(|part| {
            let CellValue { response, service, failure, setup, abandoned, overhead, corrected, .. } = part;
            [response, service, failure, setup, abandoned, overhead, corrected]
        });
        if !histograms.chain([&second.lateness, &second.lag]).all(Sparse::is_valid) {
            return Err("cannot parse a second: a histogram has another layout".into());
        }
        Ok(second)
    }

    /// Serializes the second, for [`Self::from_bytes`] of another rank.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("nothing in it cannot be written")
    }

    /// Adds the same second of other ranks. Fails for another second or another plan.
    pub fn add(&mut self, other: Self) -> Result<(), String> {
        if self.plan != other.plan {
            return Err("these seconds are of different plans: all ranks need the same plan and version".into());
        }
        if self.second != other.second {
            return Err(format!("second {} cannot be added to second {}", other.second, self.second));
        }
        for (place, part) in other.cells {
            self.cells.entry(place).or_default().add(part);
        }
        self.lateness.add(&other.lateness);
        self.lag.add(&other.lag);
        self.workers.add(&other.workers);
        self.messages.extend(other.messages);
        self.keep_the_first_messages();
        self.state.add(&other.state);
        self.samples.extend(other.samples);
        self.samples.sort_unstable();
        self.spans.add(&other.spans);
        Ok(())
    }

    /// Writes the second into `sum`, which must be empty. Nodes are numbered by `hosts`; new hosts are
    /// appended. Fails if a slot or an error class is unknown.
    pub fn fill(&self, sum: &mut Interval, hosts: &mut Vec<String>) -> Result<(), String> {
        sum.second = self.second;
        for (&(slot, measured), part) in &self.cells {
            let slot = usize::try_from(slot).ok().filter(|slot| *slot < sum.slots());
            part.fill(sum.cell(slot.ok_or("this second is of another plan")?, measured), hosts);
        }
        self.lateness.add_to(&mut sum.watch.lateness);
        self.lag.add_to(&mut sum.watch.lag);
        for Words { slot, class, measured, status, text, count, .. } in &self.messages {
            let class = ErrorClass::ALL.get(*class as usize).copied().ok_or("this error class is not known")?;
            let (slot, text) = (*slot as usize, text.clone());
            sum.messages.push(Message { slot, class, measured: *measured, status: *status, text, count: *count });
        }
        for OfRank { rank, hosts: theirs, samples } in &self.samples {
            let nodes = samples.iter().map(|sample| sample.node).filter(|node| *node != NO_NODE);
            let count = nodes.max().map_or(0, |greatest| usize::from(greatest) + 1);
            let ours: Vec<u16> = (0..count).map(|node| number(hosts, &name(theirs, node)) as u16).collect();
            let renumbered = |sample: &Sample| {
                let node = ours.get(usize::from(sample.node)).copied().unwrap_or(NO_NODE);
                Sample { rank: *rank as u32, node, ..*sample }
            };
            sum.samples.extend(samples.iter().map(renumbered));
        }
        sum.spans.dropped = self.spans.dropped;
        for (span, host) in &self.spans.kept {
            let sample = Sample { node: number(hosts, host) as u16, ..span.sample };
            sum.spans.push(Span { sample, ..*span });
        }
        Ok(())
    }

    /// Returns the names of the hosts that served requests; a host may repeat.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.cells.values().flat_map(|part| part.nodes.keys().map(String::as_str))
    }

    /// Sorts the messages by rank, and joins those that differ only in numbers.
    /// Keeps only the first five of each operation, segment and error class.
    fn keep_the_first_messages(&mut self) {
        self.messages.sort_unstable();
        let mut kept: Vec<Words> = Vec::new();
        for words in std::mem::take(&mut self.messages) {
            let mut kind = kept.iter_mut().filter(|other| other.kind() == words.kind());
            let alike = |other: &&mut Words| other.status == words.status && same_words(&other.text, &words.text);
            if let Some(alike) = kind.find(alike) {
                alike.count += words.count;
            } else if kept.iter().filter(|other| other.kind() == words.kind()).count() < MESSAGES {
                kept.push(words);
            }
        }
        self.messages = kept;
    }
}

impl Words {
    /// Returns its slot, class and segment.
    fn kind(&self) -> (u64, u64, bool) {
        (self.slot, self.class, self.measured)
    }
}

impl State {
    /// Adds the state of other ranks: a stream is over if it is over on all. Keeps lowest floors and highest counts.
    /// Combines clocks.
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.over.iter_mut().zip(&other.over) {
            *mine &= theirs;
        }
        for (mine, theirs) in self.counters.iter_mut().zip(&other.counters) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        for (mine, theirs) in self.clocks.iter_mut().zip(&other.clocks) {
            *mine = mine.and(*theirs);
        }
    }
}

impl CellValue {
    /// Adds the same cell of other ranks.
    fn add(&mut self, other: Self) {
        self.counts.add(&other.counts);
        DeadlineCounts::add_all(&mut self.deadlines, &other.deadlines);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.failure.add(&other.failure);
        self.setup.add(&other.setup);
        self.abandoned.add(&other.abandoned);
        self.overhead.add(&other.overhead);
        self.corrected.add(&other.corrected);
        for (node, served) in other.nodes {
            self.nodes.entry(node).or_default().add(served);
        }
        self.unanswered += other.unanswered;
        self.oldest_unanswered = self.oldest_unanswered.max(other.oldest_unanswered);
    }

    /// Writes the values into `cell`, which must be empty. Nodes are numbered by `hosts`; new hosts are appended.
    fn fill(&self, cell: &mut crate::recording::recorder::Cell, hosts: &mut Vec<String>) {
        cell.counts = self.counts.clone();
        cell.deadlines.clone_from(&self.deadlines);
        self.response.add_to(&mut cell.response);
        self.service.add_to(&mut cell.service);
        let rare = [
            (&self.failure, &mut cell.failure),
            (&self.setup, &mut cell.setup),
            (&self.abandoned, &mut cell.abandoned),
            (&self.overhead, &mut cell.overhead),
            (&self.corrected, &mut cell.corrected),
        ];
        for (rare, durations) in rare {
            if *rare != Sparse::default() {
                rare.add_to(durations.get_or_insert_with(histogram));
            }
        }
        for (name, served) in &self.nodes {
            let node = number(hosts, name);
            if cell.nodes.len() <= node {
                cell.nodes.resize(node + 1, Served::default());
            }
            cell.nodes[node].add(*served);
        }
        cell.unanswered = self.unanswered;
        cell.oldest_unanswered = self.oldest_unanswered;
    }
}

/// Returns the name of a node: its host, or `#NUMBER` for a driver without hosts.
fn name(hosts: &[String], node: usize) -> String {
    hosts.get(node).cloned().unwrap_or_else(|| format!("#{node}"))
}

/// Returns the number of the node `name`: its index in `hosts`, to which a new host is appended, or N for `#N`.
fn number(hosts: &mut Vec<String>, name: &str) -> usize {
    if let Some(number) = name.strip_prefix('#').and_then(|number| number.parse::<u16>().ok()) {
        return usize::from(number);
    }
    hosts.iter().position(|host| host == name).unwrap_or_else(|| {
        hosts.push(name.to_owned());
        hosts.len() - 1
    })
}
