//! Counts and bucketed times of a running phase, for monitoring systems.
//!
//! The collector's thread adds each second once; workers do not take part. Buckets have fixed bounds, so that
//! sums over phases, runs and machines are exact. A duration counts in the bucket that contains the upper end of
//! its histogram bin, so a bound is off by at most the bin's width, 0.1 %.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::driver::ErrorClass;
use crate::pacing::profile::Profile;
use crate::plan::{Pacing, Plan};
use crate::recording::recorder::{Counts, Interval};
use crate::recording::slot::Slot;
use crate::recording::spans::SpanQueue;

/// Upper bounds of the buckets, ns: six per decade, from 10 µs to 100 s. Longer durations have a bucket without bound.
pub const BOUNDS: [u64; 43] = bounds();

/// Computes the upper bounds of the buckets, ns: six per decade, from 10 µs to 100 s.
const fn bounds() -> [u64; 43] {
    let steps = [10, 15, 20, 30, 50, 70];
    let (mut bounds, mut decade, mut place) = ([0; 43], 1_000, 0);
    while place < bounds.len() {
        bounds[place] = steps[place % steps.len()] * decade;
        place += 1;
        if place % steps.len() == 0 {
            decade *= 10;
        }
    }
    bounds
}

/// Durations counted in buckets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Buckets {
    /// Durations in each bucket, not cumulative; the last has no upper bound.
    #[serde(serialize_with = "as_list")]
    counts: [u64; BOUNDS.len() + 1],
    /// Sum of the durations, s.
    sum: f64,
}

/// Serializes the counts as a list: serde serializes only arrays of up to 32 elements.
fn as_list<S: Serializer>(counts: &[u64; BOUNDS.len() + 1], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(counts)
}

impl Default for Buckets {
    /// Creates buckets without durations.
    fn default() -> Self {
        Self { counts: [0; BOUNDS.len() + 1], sum: 0.0 }
    }
}

impl Buckets {
    /// Counts the durations of a histogram in the buckets.
    fn add(&mut self, durations: &Histogram<u64>) {
        let mut bucket = 0;
        for bin in durations.iter_recorded() {
            while bucket < BOUNDS.len() && bin.value_iterated_to() > BOUNDS[bucket] {
                bucket += 1;
            }
            self.counts[bucket] += bin.count_at_value();
            let middle = durations.median_equivalent(bin.value_iterated_to());
            self.sum += middle as f64 * bin.count_at_value() as f64 / 1e9;
        }
    }
}

/// Measures of one operation of a stream, in the warm-up or in the measured segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct OperationMeasures {
    stream: String,
    operation: String,
    measured: bool,
    successes: u64,
    documents: u64,
    dropped: u64,
    retries: u64,
    bytes_sent: u64,
    bytes_received: u64,
    /// Failed requests by class.
    errors: BTreeMap<&'static str, u64>,
    /// Requests in flight at the end of the last second.
    in_flight: u64,
    response: Buckets,
    service: Buckets,
}

impl OperationMeasures {
    /// Adds the counts of a second; requests in flight are not included.
    fn add(&mut self, counts: &Counts) {
        self.successes += counts.successes;
        self.documents += counts.documents;
        self.dropped += counts.dropped;
        self.retries += counts.retries;
        self.bytes_sent += counts.bytes_sent;
        self.bytes_received += counts.bytes_received;
        for (class, count) in ErrorClass::ALL.into_iter().zip(counts.errors) {
            *self.errors.entry(class.name()).or_default() += count;
        }
    }
}

/// The planned load of a stream in the last second.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct StreamLoad {
    stream: String,
    /// Clients of a closed stream, of users or of a source.
    clients: Option<f64>,
    /// Requests or journeys per second of an open stream.
    rate: Option<f64>,
}

/// Measures of a phase so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Seconds recorded so far.
    seconds: u64,
    streams: Vec<StreamLoad>,
    operations: Vec<OperationMeasures>,
    /// From a request's scheduled time to its start by the client.
    lateness: Buckets,
}

/// Measures shared with their readers.
#[derive(Clone, Debug, Default)]
pub struct SharedMeasures {
    totals: Arc<Mutex<Measures>>,
    /// Spans of sampled requests.
    pub spans: SpanQueue,
}

impl SharedMeasures {
    /// Returns a copy of the measures.
    pub fn read(&self) -> Measures {
        self.totals.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Adds the counts and latencies of the next second, and replaces the planned load and the requests in flight.
    /// `loads`: planned load of each stream. `sum`: the second. Slots that repeat requests of other slots (parts and
    /// timed groups) are omitted.
    pub fn second(&self, slots: &[Slot], loads: &[PlannedLoad], sum: &Interval) {
        let mut measures = self.totals.lock().expect("no thread panics while it holds the lock");
        measures.seconds = sum.second + 1;
        measures.streams = loads.iter().map(|load| load.at(sum.second as f64 + 0.5)).collect();
        measures.operations.iter_mut().for_each(|operation| operation.in_flight = 0);
        for (slot, measured, cell) in sum.used_cells() {
            let Slot { stream, operation, .. } = &slots[slot];
            if !slots[slot].counts() {
                continue;
            }
            let same = |known: &OperationMeasures| {
                (&known.stream, &known.operation, known.measured) == (stream, operation, measured)
            };
            let place = measures.operations.iter().position(same).unwrap_or_else(|| {
                let (stream, operation) = (stream.clone(), operation.clone());
                measures.operations.push(OperationMeasures { stream, operation, measured, ..Default::default() });
                measures.operations.len() - 1
            });
            let known = &mut measures.operations[place];
            known.add(&cell.counts);
            known.in_flight += cell.unanswered;
            known.response.add(&cell.response);
            known.service.add(&cell.service);
        }
        measures.lateness.add(&sum.watch.lateness);
    }
}

/// Number of clients or rate of a stream over time, as planned.
#[derive(Debug)]
pub struct PlannedLoad {
    stream: String,
    clients: Option<Profile>,
    rate: Option<Profile>,
}

impl PlannedLoad {
    /// Returns the planned load of each stream, in the plan's order.
    pub fn of(plan: &Plan) -> Vec<Self> {
        let number = |count: u64| Profile::new(&crate::plan::Level::Constant(count as f64)).ok();
        let of = |pacing: &Pacing| match pacing {
            Pacing::Closed { clients, .. } => (Profile::new(clients).ok(), None),
            Pacing::Open { rate, .. } => (None, Profile::new(rate).ok()),
            Pacing::Users { clients, .. } | Pacing::Source { workers: clients, .. } => (number(*clients), None),
        };
        let streams = plan.streams.iter().map(|stream| (stream.name.clone(), of(&stream.pacing)));
        streams.map(|(stream, (clients, rate))| Self { stream, clients, rate }).collect()
    }

    /// Returns the planned load at a time, s after the phase's start. A number of clients is rounded down.
    fn at(&self, time: f64) -> StreamLoad {
        let level = |profile: &Option<Profile>| profile.as_ref().map(|profile| profile.level_at(time));
        let clients = level(&self.clients).map(f64::floor);
        StreamLoad { stream: self.stream.clone(), clients, rate: level(&self.rate) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::recording::durations::{histogram, record};

    /// Creates a slot of the stream `s`.
    fn slot(operation: &str, part: Option<&'static str>) -> Slot {
        Slot { stream: "s".into(), operation: operation.into(), part, of_several: false }
    }

    /// Returns the measures as JSON.
    fn read(shared: &SharedMeasures) -> Value {
        serde_json::to_value(shared.read()).unwrap()
    }

    #[test]
    fn bounds_have_six_steps_per_decade() {
        assert_eq!(BOUNDS[..7], [10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000]);
        assert_eq!(BOUNDS[BOUNDS.len() - 1], 100_000_000_000);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn buckets_agree_with_the_histogram_within_their_width() {
        let (mut durations, mut buckets) = (histogram(), Buckets::default());
        for k in 0..10_000u64 {
            record(&mut durations, Duration::from_micros(1 + k * k / 50));
        }
        record(&mut durations, Duration::from_secs(200));
        buckets.add(&durations);
        assert_eq!(buckets.counts.iter().sum::<u64>(), durations.len());
        assert_eq!(buckets.counts[BOUNDS.len()], 1, "longer than the last bound");
        let mean = buckets.sum / durations.len() as f64;
        assert!((mean / (durations.mean() / 1e9) - 1.0).abs() < 1e-3, "{mean}");
        for q in [0.1, 0.5, 0.9, 0.99] {
            let value = durations.value_at_quantile(q);
            let mut below = 0;
            let bucket = buckets.counts.iter().position(|count| {
                below += count;
                below as f64 >= q * durations.len() as f64
            });
            let bucket = bucket.unwrap();
            assert!((BOUNDS[bucket - 1]..=BOUNDS[bucket]).contains(&value), "{q}: {value} in bucket {bucket}");
        }
    }

    #[test]
    fn seconds_add_up_by_operation_and_segment() {
        let (slots, shared) = ([slot("read", None), slot("read", Some("page"))], SharedMeasures::default());
        let mut second = Interval::new(0, 2);
        for (number, slot, measured) in [(0, 0, false), (1, 0, true), (2, 0, true), (3, 1, true)] {
            second.clear();
            second.second = number;
            let cell = second.cell(slot, measured);
            (cell.counts.requests, cell.counts.successes, cell.counts.documents) = (3, 2, 20);
            cell.counts.errors[ErrorClass::Timeout as usize] = 1;
            cell.unanswered = 5;
            record(&mut cell.response, Duration::from_millis(12));
            record(&mut cell.service, Duration::from_millis(8));
            record(&mut second.watch.lateness, Duration::from_micros(12));
            shared.second(&slots, &[], &second);
            let in_flight = read(&shared)["operations"].as_array().unwrap().last().unwrap()["in_flight"].clone();
            assert_eq!(in_flight, if slot == 0 { 5 } else { 0 }, "those of the last second");
        }
        let value = read(&shared);
        let operations = value["operations"].as_array().unwrap();
        assert_eq!((operations.len(), &value["seconds"]), (2, &json!(4)), "no part of an operation");
        assert_eq!(operations[0]["measured"], false);
        let measured = &operations[1];
        assert_eq!((&measured["successes"], &measured["documents"]), (&json!(4), &json!(40)));
        assert_eq!((&measured["errors"]["timeout"], &measured["errors"]["server"]), (&json!(2), &json!(0)));
        let buckets = |name: &str| {
            let counts = measured[name]["counts"].as_array().unwrap();
            counts.iter().position(|count| count == 2).map(|place| BOUNDS[place])
        };
        assert_eq!((buckets("response"), buckets("service")), (Some(15_000_000), Some(10_000_000)));
        assert_eq!(value["lateness"]["counts"][1], 4);
    }

    #[test]
    fn clients_and_rates_follow_the_plan() {
        let stages = json!({"from": 0, "stages": [{"to": 100, "over": 10}], "repeats": true});
        let streams: Vec<Value> = [
            json!({"closed": {"clients": {"from": 1, "stages": [{"to": 8, "over": 0}, {"to": 8, "over": 5}]}}}),
            json!({"open": {"rate": stages}}),
            json!({"users": {"users": 50, "clients": 6}}),
        ]
        .into_iter()
        .enumerate()
        .map(|(number, pacing)| json!({"name": format!("s{number}"), "mix": [], "pacing": pacing, "stop": "ended"}))
        .collect();
        let plan = json!({
            "seed": 1, "phase": "p", "streams": streams,
            "target": {"driver": "http", "hosts": []}, "operations": {},
        });
        let loads = PlannedLoad::of(&serde_json::from_value(plan).unwrap());
        let at =
            |time| loads.iter().map(|load| load.at(time)).map(|load| (load.clients, load.rate)).collect::<Vec<_>>();
        assert_eq!(at(2.5), [(Some(8.0), None), (None, Some(25.0)), (Some(6.0), None)]);
        assert_eq!(at(12.5)[1], (None, Some(25.0)), "stages repeat");
    }
}
