//! Whole phases on test drivers: requests, records, and the end of a phase.

mod ends;
mod erased;
mod groups;
mod kernel_timestamps;
mod ranks;
mod records;
mod recovery;
mod sources;
mod spread;
mod streams;
mod toy;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadframe_drivers::null::Null;
use loadframe_engine::driver::{Context, Driver, ErrorClass, Exchange, Failure, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::recording::histograms::HistogramLog;
use loadframe_engine::run::Running;
use loadframe_engine::util::draw::Draw;
use serde_json::{Value, json};

use crate::erased::start;

/// A folder of one test; dropping it removes it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("loadframe-phases-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn plan(stream: Value) -> Value {
    json!({
        "seed": 1, "phase": "p", "target": {"driver": "null"},
        "operations": {"a": {}, "b": {}}, "streams": [stream],
    })
}

fn begin<D: Driver>(plan: &Value, folder: &Folder) -> Running {
    start::<D>(serde_json::from_value(plan.clone()).unwrap(), &folder.0).unwrap()
}

fn run<D: Driver>(plan: &Value) -> (Value, Folder) {
    let folder = Folder::new();
    let running = begin::<D>(plan, &folder);
    assert!(running.wait(Duration::from_secs(60)));
    (running.outcome().unwrap(), folder)
}

fn series(folder: &Folder) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.0.join("series.csv")).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn a_closed_stream_issues_exactly_the_requests_it_was_asked_for() {
    for threads in [1, 2, 3] {
        let mut plan = plan(json!({
            "name": "s", "mix": [["a", 3], ["b", 1]],
            "pacing": {"closed": {"clients": 4}}, "stop": {"requests": 10_000},
        }));
        plan["threads"] = json!(threads);
        let (outcome, folder) = run::<Null>(&plan);
        let requests: Vec<u64> =
            outcome["operations"].as_array().unwrap().iter().map(|o| o["successes"].as_u64().unwrap()).collect();
        assert_eq!(requests.iter().sum::<u64>(), 10_000);
        assert!((7_300..7_700).contains(&requests[0]), "a mix of 3:1 gave {requests:?}");
        let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
        assert_eq!(log.total("p/a/response", 0.0, f64::INFINITY).unwrap().len(), requests[0]);
        assert_eq!(log.total("p/b/service", 0.0, f64::INFINITY).unwrap().len(), requests[1]);
    }
}

#[test]
fn an_open_stream_separates_warm_up_from_measurement() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 1000}}, "stop": {"duration": 1.0},
    }));
    plan["warmup"] = json!(0.5);
    plan["threads"] = json!(2);
    let (outcome, folder) = run::<Null>(&plan);
    assert_eq!(outcome["operations"][0]["successes"], 1000);
    let rows = series(&folder);
    let of = |segment: &str| -> u64 {
        rows.iter().filter(|row| row[2] == segment).map(|row| row[5].parse::<u64>().unwrap()).sum()
    };
    assert_eq!((of("warmup"), of("measure")), (500, 1000));
    assert_eq!(outcome["measured"], 1.0);
}

/// A driver for a slow store: it answers after the operation's number of milliseconds.
struct Slow;

impl Driver for Slow {
    type Operation = Duration;
    type Connection = ();

    fn new(_: &Target) -> Result<Self, PlanError> {
        Ok(Self)
    }
    fn map(&self, form: &Value, _: &Context) -> Result<Duration, PlanError> {
        Ok(Duration::from_millis(form["ms"].as_u64().unwrap_or(0)))
    }
    fn requests(&self, _: &Duration) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    async fn execute(&self, (): &mut (), operation: &Duration, _: &Context, _: &Draw, _: Option<&[u32]>) -> Reply {
        let sent = Instant::now();
        tokio::time::sleep(*operation).await;
        let done = Instant::now();
        Reply { bytes_sent: 1, bytes_received: 1, ..Reply::new(sent, done, Ok(())) }
    }
    async fn show(
        &self,
        connection: &mut (),
        operation: &Duration,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        (self.execute(connection, operation, context, draw, None).await, Exchange::default())
    }
}

#[test]
fn a_bound_on_requests_in_flight_drops_and_counts() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 100, "max_in_flight": 5}}, "stop": {"duration": 1.0},
    }));
    plan["operations"]["a"] = json!({"ms": 200});
    let (outcome, _folder) = run::<Slow>(&plan);
    let operation = &outcome["operations"][0];
    let (sent, dropped) = (operation["requests"].as_u64().unwrap(), operation["dropped"].as_u64().unwrap());
    assert_eq!(sent + dropped, 100);
    assert!((20..=30).contains(&sent), "five at a time, 200 ms each, for a second: {sent}");
}

#[test]
fn requests_in_flight_at_the_end_are_waited_for_and_then_recorded_with_their_age() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 10}}, "stop": {"duration": 0.5},
    }));
    plan["operations"]["a"] = json!({"ms": 3000});
    plan["drain"] = json!(0.2);
    let (outcome, _folder) = run::<Slow>(&plan);
    let operation = &outcome["operations"][0];
    assert_eq!(operation["in_flight_at_end"], 5);
    assert_eq!(operation["requests"], 0);
    let oldest = operation["in_flight_oldest"].as_f64().unwrap();
    assert!((0.65..1.5).contains(&oldest), "{oldest}");

    plan["operations"]["a"] = json!({"ms": 300});
    plan["drain"] = json!(10);
    let (outcome, _folder) = run::<Slow>(&plan);
    assert_eq!(outcome["operations"][0]["successes"], 5, "those that end while draining belong to the measurement");
    assert_eq!(outcome["operations"][0]["in_flight_at_end"], 0);
}

#[test]
fn ranks_and_threads_share_one_open_schedule() {
    let mut counts = Vec::new();
    for (ranks, threads) in [(1, 1), (2, 1), (7, 1), (2, 3)] {
        let mut total = 0;
        for rank in 0..ranks {
            let mut plan = plan(json!({
                "name": "s", "mix": [["a", 1], ["b", 2]], "pacing": {"open": {"rate": 2000, "arrivals": "poisson"}},
                "stop": {"duration": 0.2},
            }));
            plan["rank"] = json!(rank);
            plan["ranks"] = json!(ranks);
            plan["threads"] = json!(threads);
            let (outcome, _folder) = run::<Null>(&plan);
            total += outcome["operations"][0]["successes"].as_u64().unwrap();
        }
        counts.push(total);
    }
    assert_eq!(counts.iter().collect::<BTreeSet<_>>().len(), 1, "operation a was drawn {counts:?} times");
}

#[test]
fn a_bad_plan_is_refused_before_anything_runs() {
    let good = json!({"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}});
    let with = |key: &str, value: Value| {
        let mut stream = good.clone();
        stream[key] = value;
        stream
    };
    for (stream, cause) in [
        (with("mix", json!([])), "exactly one of mix, journey and steps"),
        (with("mix", json!([["c", 1]])), "unknown operation \"c\""),
        (with("mix", json!([["a", 0]])), "weight 0"),
        (with("pacing", json!({"closed": {"clients": 0}})), "0 clients"),
        (with("pacing", json!({"closed": {"clients": 1, "think_time": {"uniform": [2, 1]}}})), "between 2s and 1s"),
        (with("pacing", json!({"open": {"rate": 0}})), "rate of 0"),
        (with("pacing", json!({"open": {"rate": 1, "max_in_flight": 0}})), "max_in_flight"),
        (with("stop", json!({"duration": 0})), "duration of 0"),
        (with("stop", json!({"requests": 0})), "0 requests"),
        (with("stop", json!("exhausted")), "reads no corpus"),
        (with("name", json!("a/b")), "not a valid name"),
    ] {
        let folder = Folder::new();
        let error = start::<Null>(serde_json::from_value(plan(stream)).unwrap(), &folder.0).err().unwrap();
        assert!(error.to_string().contains(cause), "{error} does not say {cause:?}");
    }
}

#[test]
fn users_arrive_walk_their_journey_and_leave() {
    for threads in [1, 3] {
        let mut plan = plan(json!({
            "name": "s", "pacing": {"open": {"rate": 50, "arrivals": "poisson"}}, "stop": {"duration": 1.0},
            "journey": [{"operation": "a", "think_time": 0.01}, {"operation": "b"}, {"operation": "a"}],
        }));
        plan["threads"] = json!(threads);
        plan["operations"]["b"] = json!({"ms": 20});
        let (outcome, _folder) = run::<Slow>(&plan);
        let count = |index: usize| outcome["operations"][index]["successes"].as_u64().unwrap();
        assert_eq!(outcome["operations"].as_array().unwrap().len(), 2, "an operation that comes twice is one row");
        let (a, b) = (count(0), count(1));
        assert!((25..=85).contains(&b), "{b} users arrived");
        // The end of the stream interrupts the last users.
        assert!(a > 2 * b - 12 && a <= 2 * b + 6, "{a} and {b}");
    }
}

#[test]
fn a_journey_has_its_steps_in_order_and_whole_journeys_only() {
    let stream = json!({
        "name": "s", "pacing": {"closed": {"clients": 3}}, "stop": {"requests": 3000},
        "journey": [{"operation": "a"}, {"operation": "b"}, {"operation": "b"}],
    });
    let (outcome, _folder) = run::<Null>(&plan(stream.clone()));
    assert_eq!(outcome["operations"][0]["successes"], 1000);
    assert_eq!(outcome["operations"][1]["successes"], 2000);
    let mut odd = stream;
    odd["stop"] = json!({"requests": 1000});
    let folder = Folder::new();
    let error = start::<Null>(serde_json::from_value(plan(odd)).unwrap(), &folder.0).err().unwrap();
    assert!(error.to_string().contains("not a whole number of journeys"), "{error}");
}

#[test]
fn clients_come_and_go_with_the_level() {
    // Two clients for a second, then six, each with at most 100 requests per second.
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "stop": {"duration": 3.0},
        "pacing": {"closed": {
            "clients": {"from": 2, "stages": [{"to": 2, "over": 1}, {"to": 6, "over": 0}, {"to": 6, "over": 1}, {"to": 1, "over": 0}]},
            "think_time": 0.01,
        }},
    }));
    plan["threads"] = json!(2);
    let (_outcome, folder) = run::<Null>(&plan);
    let mut seconds = [0u64; 3];
    for row in series(&folder) {
        seconds[row[3].parse::<usize>().unwrap().min(2)] += row[5].parse::<u64>().unwrap();
    }
    let per_client = seconds[0] as f64 / 2.0;
    assert!((4.0..8.0).contains(&(seconds[1] as f64 / per_client)), "{seconds:?}");
    assert!((0.5..1.5).contains(&(seconds[2] as f64 / per_client)), "{seconds:?}");
}

#[test]
fn a_ramp_offers_the_area_under_its_rate() {
    let (outcome, _folder) = run::<Null>(&plan(json!({
        "name": "s", "mix": [["a", 1]], "stop": {"duration": 2.0},
        "pacing": {"open": {"rate": {"from": 0, "stages": [{"to": 1000, "over": 2}]}}},
    })));
    let sent = outcome["operations"][0]["successes"].as_u64().unwrap();
    assert!((999..=1001).contains(&sent), "{sent}");
}

/// A driver for a store under back-pressure: it rejects two of three attempts.
struct Moody(AtomicU64);

impl Driver for Moody {
    type Operation = ();
    type Connection = ();

    fn new(_: &Target) -> Result<Self, PlanError> {
        Ok(Self(AtomicU64::new(0)))
    }
    fn map(&self, _: &Value, _: &Context) -> Result<(), PlanError> {
        Ok(())
    }
    fn requests(&self, (): &()) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    async fn execute(&self, (): &mut (), (): &(), _: &Context, _: &Draw, _: Option<&[u32]>) -> Reply {
        let sent = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let attempt = self.0.fetch_add(1, Ordering::Relaxed);
        let failure = Failure::new(ErrorClass::Rejected, "busy");
        let outcome = if attempt % 3 == 2 { Ok(()) } else { Err(failure) };
        Reply { documents: 1, ..Reply::new(sent, Instant::now(), outcome) }
    }
    async fn show(&self, connection: &mut (), operation: &(), context: &Context, draw: &Draw) -> (Reply, Exchange) {
        (self.execute(connection, operation, context, draw, None).await, Exchange::default())
    }
}

#[test]
fn retries_are_counted_and_stay_inside_the_response_time() {
    let stream = json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 30}, "retries": 2,
    });
    let (outcome, folder) = run::<Moody>(&plan(stream.clone()));
    let operation = &outcome["operations"][0];
    assert_eq!((&operation["requests"], &operation["successes"]), (&json!(30), &json!(30)));
    assert_eq!(operation["retries"], 60);
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let least = |tag: &str| log.total(tag, 0.0, f64::INFINITY).unwrap().min();
    assert!(least("p/a/response") >= 15_000_000, "three attempts of 5 ms each");
    assert!(least("p/a/service") < 15_000_000, "the last attempt");

    let mut limited = stream.clone();
    limited["back_off"] = json!({"base": 0.001, "budget": 0.2});
    let (outcome, _folder) = run::<Moody>(&plan(limited));
    assert_eq!(outcome["operations"][0]["retries"], 6, "a fifth of 30 requests");

    let mut other = stream.clone();
    other["back_off"] = json!({"on": ["connect"]});
    let (outcome, _folder) = run::<Moody>(&plan(other));
    assert_eq!(outcome["operations"][0]["retries"], 0, "the failures are of another class");

    let mut unasked = stream;
    unasked["retries"] = json!(0);
    let (outcome, _folder) = run::<Moody>(&plan(unasked));
    assert_eq!(outcome["operations"][0]["successes"], 10, "no retries unless asked for");
}

#[test]
fn pacing_fixes_the_time_between_the_starts_of_iterations() {
    for threads in [1, 2] {
        let mut plan = plan(json!({
            "name": "s", "journey": [{"operation": "a", "think_time": 0.05}, {"operation": "b"}],
            "pacing": {"closed": {"clients": 3, "pacing": 0.5}}, "stop": {"duration": 2.2},
        }));
        plan["threads"] = json!(threads);
        plan["operations"] = json!({"a": {"ms": 20}, "b": {"ms": 20}});
        let (outcome, _folder) = run::<Slow>(&plan);
        // Each client starts at 0, 0.5, 1, 1.5 and 2 s, however long its requests take.
        assert_eq!(outcome["operations"][0]["successes"], 15);
        let stream = &outcome["streams"][0];
        let (iterations, overruns) = (stream["iterations"].as_u64().unwrap(), stream["overruns"].as_u64().unwrap());
        assert!((12..=15).contains(&iterations) && overruns <= 3, "{stream}");

        // An iteration that takes longer delays the next, and is counted.
        plan["operations"]["a"] = json!({"ms": 700});
        let (outcome, _folder) = run::<Slow>(&plan);
        let stream = &outcome["streams"][0];
        assert!(stream["overruns"].as_u64().unwrap() >= 6, "{stream}");
        assert_eq!(stream["overruns"], stream["iterations"]);
        assert!((6..=9).contains(&outcome["operations"][0]["successes"].as_u64().unwrap()), "{outcome}");
    }
}
