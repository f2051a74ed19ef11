//! Feeds simulated open loops through a recorder and a tally with a condition on missed requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::channel;
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::driver::{ErrorClass, Failure, Reply};
use crate::pacing::profile::Profile;
use crate::pacing::schedule::{Due, Stride};
use crate::plan::{Arrivals, Level};
use crate::recording::recorder::{Recorder, Times};
use crate::util::draw::Draw;
use crate::util::math;

const THINK: Duration = Duration::from_millis(500);

/// How a store answers.
#[derive(Clone, Copy)]
enum Store {
    /// After this time.
    Constant(Duration),
    /// After an exponential time with this mean.
    Exponential(Duration),
    /// One after the other, this many per second.
    Queue(f64),
    /// Every second request after 5 ms, the others never.
    HalfStalled,
    /// After 5 ms, every tenth with an error.
    Failing,
    /// After 5 ms, with an error.
    Broken,
}

/// An open loop against a store.
#[derive(Clone)]
struct Load {
    seed: u64,
    rate: Value,
    steps: u64,
    max_in_flight: usize,
    warmup: u64,
    lasts: u64,
    metric: &'static str,
    above: f64,
    store: Store,
}

/// Events of the simulation, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step of the client's journey is due.
    Step(usize, u64),
    /// The step due at this time is answered.
    Answer(usize, u64, Duration),
    Arrival,
}

impl Load {
    /// Creates a load of 60 s with this rate and store, and a condition on 5 % missed requests.
    fn new(rate: impl Into<Value>, store: Store) -> Self {
        let rate = rate.into();
        let (max_in_flight, metric) = (20_000, "missed_share");
        Self { seed: 1, rate, steps: 1, max_in_flight, warmup: 0, lasts: 60, metric, above: 0.05, store }
    }

    /// Returns the second whose end stopped the phase; `None` if it was not stopped. The condition covers
    /// 10 seconds.
    fn stopped_at(&self) -> Option<u64> {
        let level: Level = serde_json::from_value(self.rate.clone()).unwrap();
        let profile = Profile::new(&level).unwrap();
        let mut arrivals = Due::new(profile, Arrivals::Poisson, Stride { index: 0, of: 1 }, self.seed, 1);
        let mut tally = Tally::new(&self.plan(), vec![slot("s")], Shown::default());
        let (finished, intervals) = channel();
        let (recycle, empty) = channel();
        let (start, warmup) = (Instant::now(), Duration::from_secs(self.warmup));
        let mut recorder =
            Recorder::new(0, 1, start, move || warmup, false, finished, empty).with_deadlines(self.plan().deadlines());
        let mut waiting = vec![None; self.max_in_flight];
        let mut idle: Vec<usize> = (0..self.max_in_flight).rev().collect();
        let mut events = BinaryHeap::from([Reverse((arrivals.next().unwrap().1, Event::Arrival))]);
        let mut requests = 0;
        let mut free = Duration::ZERO;
        while let Some(Reverse((now, event))) = events.pop() {
            if now >= Duration::from_secs(self.warmup + self.lasts + 30) {
                break;
            }
            recorder.look(start + now, &waiting);
            let is_over = now >= Duration::from_secs(self.warmup + self.lasts);
            let mut due = None;
            match event {
                Event::Arrival if is_over => {}
                Event::Arrival => {
                    match idle.pop() {
                        Some(client) => due = Some((client, 0)),
                        None => recorder.dropped(0, start + now, start + now, &waiting),
                    }
                    events.push(Reverse((arrivals.next().unwrap().1, Event::Arrival)));
                }
                Event::Step(client, step) => due = (!is_over).then_some((client, step)),
                Event::Answer(client, step, scheduled) => {
                    requests += 1;
                    let fails = match self.store {
                        Store::Failing => requests % 10 == 0,
                        store => matches!(store, Store::Broken),
                    };
                    let outcome = if fails { Err(Failure::new(ErrorClass::Server, "busy")) } else { Ok(()) };
                    let scheduled = start + scheduled;
                    let times = Times { scheduled, started: scheduled, ends: None, client: client as u64, trace: None };
                    recorder.request(0, times, Reply::new(scheduled, start + now, outcome), &waiting);
                    waiting[client] = None;
                    if step + 1 < self.steps {
                        events.push(Reverse((now + THINK, Event::Step(client, step + 1))));
                    } else {
                        idle.push(client);
                    }
                }
            }
            if let Some((client, step)) = due {
                waiting[client] = Some((0, start + now));
                if let Some(done) = self.answered(now, requests, &mut free) {
                    events.push(Reverse((done, Event::Answer(client, step, now))));
                }
            }
            for mut interval in intervals.try_iter() {
                tally.second(&interval);
                if tally.totals.stopped_by.is_some() {
                    return Some(interval.second);
                }
                interval.clear();
                recycle.send(interval).unwrap();
            }
        }
        None
    }

    /// Returns when a request that is sent `now` is answered; `None` if never. `free`: when the queue is
    /// empty.
    fn answered(&self, now: Duration, requests: u64, free: &mut Duration) -> Option<Duration> {
        let draw = Draw::new(self.seed, 2, now.as_nanos() as u64 ^ requests);
        match self.store {
            Store::Constant(time) => Some(now + time),
            Store::Exponential(mean) => Some(now + mean.mul_f64(-math::ln(1.0 - draw.unit(0)))),
            Store::Queue(rate) => {
                *free = now.max(*free) + Duration::from_secs_f64(1.0 / rate);
                Some(*free)
            }
            Store::HalfStalled if draw.unit(0) < 0.5 => None,
            Store::HalfStalled | Store::Failing | Store::Broken => Some(now + Duration::from_millis(5)),
        }
    }

    /// Returns the plan of the load, with the condition.
    fn plan(&self) -> Plan {
        let steps = if self.steps > 1 { self.steps } else { 0 };
        let journey: Vec<Value> = (0..steps).map(|_| json!({"operation": "a"})).collect();
        let pacing = json!({"open": {"rate": self.rate, "max_in_flight": self.max_in_flight}});
        let mut stream = json!({"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": self.lasts}});
        if steps > 0 {
            stream.as_object_mut().unwrap().remove("mix");
            stream["journey"] = json!(journey);
        }
        serde_json::from_value(json!({
            "seed": 1, "phase": "load", "warmup": self.warmup, "target": {"driver": "none", "hosts": []},
            "operations": {"a": {}}, "streams": [stream],
            "stop_when": [{"metric": self.metric, "above": self.above, "seconds": 10}],
        }))
        .unwrap()
    }
}

/// Creates a slot of a stream's operation `a`.
fn slot(stream: &str) -> Slot {
    Slot { stream: stream.into(), operation: "a".into(), part: None, of_several: false }
}

#[test]
fn progress_counts_the_requests_of_each_operation() {
    let read = |stream: &str| Slot { operation: "read".into(), ..slot(stream) };
    let slots = vec![slot("s"), Slot { part: Some("page"), ..slot("s") }, read("s"), read("t")];
    let progress = Shown::default();
    let mut tally = Tally::new(&Load::new(1, Store::Failing).plan(), slots, progress.clone());
    for second in 0..2 {
        let mut interval = Interval::new(second, 4);
        // Requests, successes and dropped requests of each slot.
        for (slot, counts) in [(10, 9, 0), (50, 0, 0), (3, 1, 0), (1, 1, 2)].into_iter().enumerate() {
            let counted = &mut interval.cell(slot, second > 0).counts;
            (counted.requests, counted.successes, counted.dropped) = counts;
        }
        tally.second(&interval);
    }
    let progress = shown(&progress);
    let expected = [("a", Requests { due: 20, failed: 2 }), ("read", Requests { due: 12, failed: 8 })];
    let expected = expected.map(|(name, requests)| (name.to_owned(), requests));
    assert_eq!(progress.operations, BTreeMap::from(expected));
    assert_eq!((progress.requests, progress.errors), (28, 6));
}

/// Converts seconds to a duration.
fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value)
}

/// Returns a rate that rises from 0 to 400 in 60 s.
fn ramp() -> Value {
    json!({"from": 0, "stages": [{"to": 400, "over": 60}]})
}

/// The condition on missed requests does not stop a phase with response times below its window.
#[test]
fn a_phase_whose_responses_are_faster_than_the_window_is_not_stopped() {
    for store in [Store::Constant(seconds(0.5)), Store::Constant(seconds(3.0)), Store::Exponential(seconds(0.5))] {
        for (rate, seeds, lasts) in [(20, 4, 60), (200, 1, 60), (5000, 1, 12)] {
            for seed in 0..seeds {
                let load = Load { seed, lasts, ..Load::new(rate, store) };
                assert_eq!(load.stopped_at(), None, "{rate}/s, seed {seed}");
            }
        }
        assert_eq!(Load::new(ramp(), store).stopped_at(), None, "ramp");
        let journeys = Load { steps: 5, ..Load::new(20, store) };
        assert_eq!(journeys.stopped_at(), None, "journeys");
        // The queue of the warm-up is empty when the window begins.
        let pause = json!({"from": 200, "stages": [{"to": 200, "over": 5}, {"to": 0, "over": 0}, {"to": 0, "over": 4},
            {"to": 200, "over": 0}]});
        assert_eq!(Load { warmup: 9, ..Load::new(pause, store) }.stopped_at(), None, "pause");
    }
}

#[test]
fn an_overloaded_phase_is_stopped() {
    for (rate, overload, latest) in [
        // The queue grows until requests take 10 s.
        (20, 1.1, 250),
        (200, 1.1, 150),
        (20, 1.5, 60),
        (200, 1.5, 40),
        (20, 2.0, 35),
        (200, 2.0, 25),
        // Requests are dropped before they take 10 s.
        (5000, 1.1, 40),
        (5000, 1.5, 15),
        (5000, 2.0, 15),
    ] {
        let most = if rate == 5000 { 1024 } else { 20_000 };
        let store = Store::Queue(f64::from(rate) / overload);
        let load = Load { max_in_flight: most, lasts: 300, ..Load::new(rate, store) };
        let stopped = load.stopped_at();
        assert!(stopped.is_some_and(|at| (9..=latest).contains(&at)), "{rate}/s, {overload}: {stopped:?}");
    }
    // The store becomes too slow at the half of the ramp.
    let stopped = Load { lasts: 120, ..Load::new(ramp(), Store::Queue(200.0)) }.stopped_at();
    assert!(stopped.is_some_and(|at| (40..90).contains(&at)), "{stopped:?}");
    let stopped = Load { steps: 5, lasts: 120, ..Load::new(20, Store::Queue(50.0)) }.stopped_at();
    assert!(stopped.is_some_and(|at| at < 60), "{stopped:?}");
}

#[test]
fn failed_and_unanswered_requests_are_missed() {
    let failing = |above| Load { above, ..Load::new(200, Store::Failing) }.stopped_at();
    assert_eq!((failing(0.05), failing(0.15)), (Some(9), None));
    let stalled = |above| Load { above, ..Load::new(200, Store::HalfStalled) }.stopped_at();
    // Deadlines pass from the tenth second on.
    assert!(stalled(0.4).is_some_and(|at| (10..25).contains(&at)), "{:?}", stalled(0.4));
    assert_eq!(stalled(0.6), None);
}

/// In most seconds nothing is in flight. They neither meet a condition nor reset it.
#[test]
fn idle_seconds_at_a_low_rate_say_nothing() {
    let stopped = |metric, above, store| {
        let load = Load { metric, above, lasts: 900, max_in_flight: 2, ..Load::new(0.1, store) };
        load.stopped_at()
    };
    let (quick, slow) = (Store::Constant(seconds(0.005)), Store::Constant(seconds(2.5)));
    // Each request meets the condition for one or two seconds.
    for (metric, above, store) in [("error_share", 0.5, Store::Broken), ("response_p99", 2.0, slow)] {
        let at = stopped(metric, above, store);
        assert!(at.is_some_and(|at| (20..300).contains(&at)), "{metric}: {at:?}");
    }
    // Two requests are never answered, and the others are dropped.
    let never = Store::Constant(seconds(1e6));
    assert!(stopped("dropped", 0.0, never).is_some_and(|at| (40..400).contains(&at)));
    assert!(stopped("response_p99", 2.0, never).is_some_and(|at| at < 60));
    for metric in ["error_share", "response_p99", "dropped"] {
        assert_eq!(stopped(metric, 0.5, quick), None, "{metric}");
    }
    assert_eq!(stopped("error_share", 0.5, Store::Failing), None, "a success in between");
}

#[test]
fn progress_has_the_requests_in_flight_and_the_age_of_the_oldest() {
    let (slots, progress) = (vec![slot("s"), Slot { part: Some("page"), ..slot("s") }], Shown::default());
    let mut tally = Tally::new(&Load::new(1, Store::Failing).plan(), slots, progress.clone());
    for (waiting, age) in [(3, 1.5), (0, 0.0)] {
        let mut interval = Interval::new(0, 2);
        for (slot, measured) in [(0, false), (0, true), (1, true)] {
            let cell = interval.cell(slot, measured);
            (cell.unanswered, cell.oldest_unanswered) = (waiting, seconds(if measured { age } else { age / 2.0 }));
        }
        tally.second(&interval);
        let progress = shown(&progress);
        assert_eq!((progress.in_flight, progress.oldest_in_flight), (2 * waiting, seconds(age)));
    }
}

#[test]
fn a_dropped_journey_misses_all_its_requests() {
    // A journey of five steps takes 4.5 s: half of the 90 that are due in this time find a client.
    let dropping = |above| {
        let store = Store::Constant(seconds(0.5));
        Load { steps: 5, max_in_flight: 45, above, ..Load::new(20, store) }.stopped_at()
    };
    assert!(dropping(0.4).is_some(), "half of the requests");
    assert_eq!(dropping(0.7), None);
}

#[test]
fn seconds_outside_the_measured_window_do_not_stop_a_phase() {
    // Half of the requests are never answered, but no deadline passes in the window.
    let short = Load { lasts: 10, above: 0.0, ..Load::new(200, Store::HalfStalled) };
    assert_eq!(short.stopped_at(), None);
    assert!(Load { lasts: 15, ..short }.stopped_at().is_some());
    // The warm-up fails, the window is too short to judge.
    let warm = Load { warmup: 30, lasts: 9, above: 0.0, ..Load::new(200, Store::Failing) };
    assert_eq!(warm.stopped_at(), None);
    assert_eq!(Load { lasts: 11, ..warm }.stopped_at(), Some(39));
}
