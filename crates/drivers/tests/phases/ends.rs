//! End of a phase: by duration, a stop, a condition, or a panic in the generator.

use std::collections::BTreeMap;
use std::sync::Mutex;

use loadframe_engine::plan::PlanErrorKind;

use super::*;

#[test]
fn a_stop_ends_the_phase_and_keeps_the_measurements() {
    let folder = Folder::new();
    let plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 2, "think_time": 0.001}},
        "stop": {"duration": 600},
    }));
    let running = begin::<Null>(&plan, &folder);
    assert!(!running.wait(Duration::from_millis(1300)));
    let asked = Instant::now();
    running.stop();
    assert!(running.wait(Duration::from_secs(1)), "not within a second");
    assert!(asked.elapsed() < Duration::from_secs(1));
    let outcome = running.outcome().unwrap();
    assert_eq!(outcome["interrupted"], true);
    let recorded: u64 = series(&folder).iter().map(|row| row[5].parse::<u64>().unwrap()).sum();
    assert_eq!(outcome["operations"][0]["successes"], recorded);
    assert!(recorded > 500, "{recorded}");
    let measured = outcome["measured"].as_f64().unwrap();
    assert!((1.2..2.3).contains(&measured), "{measured}");
}

#[test]
fn a_condition_ends_the_phase_and_says_so_however_many_threads_have_no_client() {
    for threads in [1, 4] {
        let mut plan = plan(json!({
            "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"duration": 600},
        }));
        plan["stop_when"] = json!([{"metric": "error_share", "above": 0.5, "seconds": 2}]);
        plan["threads"] = json!(threads);
        let (outcome, _folder) = run::<Moody>(&plan);
        assert_eq!(outcome["interrupted"], false);
        assert_eq!(outcome["stopped_by"]["metric"], "error_share");
        assert!(outcome["measured"].as_f64().unwrap() < 10.0);
    }
}

#[test]
fn a_thread_whose_streams_are_over_holds_no_second_up() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1, "think_time": 0.01}},
        "stop": {"duration": 600},
    }));
    // The second thread runs half of this stream only.
    plan["streams"].as_array_mut().unwrap().push(json!({
        "name": "t", "mix": [["b", 1]], "pacing": {"closed": {"clients": 2}}, "stop": {"requests": 2},
    }));
    plan["threads"] = json!(2);
    let folder = Folder::new();
    let running = begin::<Null>(&plan, &folder);
    let until = Instant::now() + Duration::from_secs(20);
    while running.progress().seconds < 2 {
        assert!(Instant::now() < until, "no second was collected");
        assert!(!running.wait(Duration::from_millis(100)));
    }
    let seconds: BTreeSet<String> = series(&folder).into_iter().map(|row| row[3].clone()).collect();
    assert!(seconds.contains("1"), "the seconds are written while the load runs: {seconds:?}");
}

#[test]
fn a_phase_that_is_stopped_was_measured_until_then_and_no_longer_than_its_window() {
    let slow = |window: f64| {
        let mut plan = plan(json!({
            "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 10}}, "stop": {"duration": window},
        }));
        plan["operations"]["a"] = json!({"ms": 60_000});
        plan["warmup"] = json!(0.2);
        plan
    };
    // Stop time (ms), window (s), bounds of the measured time (s); no request is answered in any case.
    for (after, window, least, most) in [(100, 600.0, 0.0, 0.0), (700, 600.0, 0.4, 0.9), (900, 0.5, 0.5, 0.5)] {
        let folder = Folder::new();
        let running = begin::<Slow>(&slow(window), &folder);
        assert!(!running.wait(Duration::from_millis(after)), "it drains for 30 s");
        running.stop();
        let outcome = running.outcome().unwrap();
        let measured = outcome["measured"].as_f64().unwrap();
        assert!((least..=most).contains(&measured), "{measured} s of {window} s, stopped after {after} ms");
        assert_eq!(outcome["interrupted"], true);
    }
}

#[test]
fn a_rate_at_which_nothing_more_comes_lasts_as_long_as_it_was_asked_to() {
    let begun = Instant::now();
    let (outcome, _folder) = run::<Null>(&plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 1e-25}}, "stop": {"duration": 0.4},
    })));
    assert!(begun.elapsed() >= Duration::from_secs_f64(0.4));
    assert_eq!((&outcome["failed"], &outcome["measured"]), (&Value::Null, &json!(0.4)));
    assert_eq!(outcome["operations"][0]["successes"], 1, "request 0 is due at once");
}

/// Executed requests, by the phase's name; the count of a running phase grows.
static EXECUTED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn executed(phase: &str) -> u64 {
    EXECUTED.lock().unwrap().get(phase).copied().unwrap_or(0)
}

/// Panics at the fiftieth request, in a task started by that request, or when a client connects.
struct Dying(String);

impl Driver for Dying {
    type Operation = (String, String);
    type Connection = ();

    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self(target.hosts.concat()))
    }
    fn map(&self, form: &Value, _: &Context) -> Result<Self::Operation, PlanError> {
        Ok((self.0.clone(), form["dies"].as_str().unwrap_or_default().to_owned()))
    }
    fn requests(&self, _: &Self::Operation) -> Option<u64> {
        None
    }
    fn connection(&self, client: u64) {
        assert!(client != 3, "a client too many");
    }
    async fn execute(
        &self,
        (): &mut (),
        (phase, dies): &Self::Operation,
        _: &Context,
        draw: &Draw,
        _: Option<&[u32]>,
    ) -> Reply {
        *EXECUTED.lock().unwrap().entry(phase.clone()).or_default() += 1;
        let sent = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        match dies.as_str() {
            "request" => assert!(draw.k != 50, "a request was lost"),
            "task" if draw.k == 50 => {
                tokio::task::spawn_local(async { panic!("a task was lost") });
            }
            _ => {}
        }
        let done = Instant::now();
        Reply { bytes_sent: 1, bytes_received: 1, ..Reply::new(sent, done, Ok(())) }
    }
}

fn dying(phase: &str, dies: &str, clients: u64) -> Value {
    json!({
        "seed": 1, "phase": phase, "target": {"driver": "dying", "hosts": [phase]}, "threads": 2,
        "operations": {"a": {"dies": dies}},
        "streams": [{
            "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": clients}}, "stop": {"duration": 600},
        }],
    })
}

fn assert_over(phase: &str) {
    let before = executed(phase);
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(executed(phase), before, "the load of {phase} goes on");
}

#[test]
fn a_panic_ends_the_phase_with_measurements_and_reason() {
    for (dies, clients, words) in
        [("request", 3, "a request was lost"), ("task", 3, "a task was lost"), ("client", 4, "a client too many")]
    {
        let begun = Instant::now();
        let (outcome, folder) = run::<Dying>(&dying(dies, dies, clients));
        assert!(begun.elapsed() < Duration::from_secs(60));
        let failed = outcome["failed"].as_str().unwrap();
        assert!(failed.contains("panicked") && failed.contains(words) && failed.contains("ends.rs:"), "{failed}");
        assert_eq!(outcome["interrupted"], false);
        let recorded: u64 = series(&folder).iter().map(|row| row[5].parse::<u64>().unwrap()).sum();
        assert_eq!(outcome["operations"][0]["successes"], recorded);
        // The panicking worker has done every second earlier request; the other may not have had a core yet.
        assert!(recorded >= if dies == "client" { 0 } else { 24 }, "{recorded}");
        assert_over(dies);
    }
}

#[test]
fn records_that_cannot_be_written_end_the_load_before_that_is_said() {
    for member in ["series.csv", "generator.csv", "histograms.hlog"] {
        let folder = Folder::new();
        std::os::unix::fs::symlink("/dev/full", folder.0.join(member)).unwrap();
        let plan = dying(member, "", 3);
        // The headers are written at the start.
        let error = match start::<Dying>(serde_json::from_value(plan).unwrap(), &folder.0) {
            Err(error) => {
                assert_eq!(error.kind, PlanErrorKind::Machine, "the plan is good: {error}");
                error.message
            }
            Ok(running) => {
                assert!(running.wait(Duration::from_secs(20)), "it goes on without a record");
                running.outcome().unwrap_err()
            }
        };
        assert!(error.contains("No space left"), "{member}: {error}");
        assert_over(member);
    }
}

#[test]
fn dropping_the_handle_ends_the_load() {
    let folder = Folder::new();
    let running = begin::<Dying>(&dying("left", "", 3), &folder);
    assert!(!running.wait(Duration::from_millis(200)));
    assert!(executed("left") > 0);
    drop(running);
    assert_over("left");
}

#[test]
fn a_missed_rate_ends_the_phase_and_a_rate_that_is_kept_does_not() {
    // At most 100 requests/s: 5 at a time, 50 ms each.
    let load = |rate: u64| {
        let mut plan = plan(json!({
            "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": rate, "max_in_flight": 5}},
            "stop": {"duration": if rate < 100 { 4 } else { 600 }},
        }));
        plan["operations"]["a"] = json!({"ms": 50});
        plan["stop_when"] = json!([{"metric": "missed_share", "above": 0.4, "seconds": 2}]);
        plan
    };
    let (outcome, _folder) = run::<Slow>(&load(400));
    assert_eq!(outcome["stopped_by"]["metric"], "missed_share");
    assert_eq!(outcome["interrupted"], false);
    let (outcome, _folder) = run::<Slow>(&load(20));
    assert_eq!((&outcome["stopped_by"], &outcome["measured"]), (&Value::Null, &json!(4.0)));
}

#[test]
fn the_caller_may_end_the_warm_up_and_the_window_of_an_adjustable_phase() {
    for (threads, pacing) in
        [(1, json!({"open": {"rate": 200}})), (2, json!({"closed": {"clients": 4, "think_time": 0.005}}))]
    {
        let mut plan = plan(json!({"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": 600}}));
        // A client that sleeps for long must not delay the end.
        let mut sleeper = plan["streams"][0].clone();
        sleeper["name"] = json!("sleeper");
        sleeper["pacing"] = json!({"closed": {"clients": 1, "think_time": 300}});
        plan["streams"].as_array_mut().unwrap().push(sleeper);
        plan["warmup"] = json!(500);
        plan["threads"] = json!(threads);
        let folder = Folder::new();
        let running = begin::<Null>(&plan, &folder);
        assert!(running.adjust(Some(5), None).unwrap_err().contains("adjustable"));
        drop(running);

        plan["adjustable"] = json!(true);
        let folder = Folder::new();
        let running = begin::<Null>(&plan, &folder);
        let until = Instant::now() + Duration::from_secs(60);
        while running.progress().seconds < 1 {
            assert!(Instant::now() < until && !running.wait(Duration::from_millis(20)));
        }
        assert!(running.adjust(Some(0), None).unwrap_err().contains("has begun already"));
        let from = running.progress().seconds + 4;
        running.adjust(Some(from), None).unwrap();
        while running.progress().seconds < from + 1 {
            assert!(Instant::now() < until && !running.wait(Duration::from_millis(20)));
        }
        let end = running.progress().seconds + 4;
        running.adjust(None, Some(end)).unwrap();
        assert!(running.wait(Duration::from_secs(60)), "the sleeping client was not woken");
        let outcome = running.outcome().unwrap();
        assert_eq!(outcome["warmup"], json!(from as f64));
        assert_eq!(outcome["measured"], json!((end - from) as f64));
        assert_eq!((&outcome["interrupted"], &outcome["failed"]), (&json!(false), &Value::Null));
        for row in series(&folder) {
            let (segment, second) = (row[2].as_str(), row[3].parse::<u64>().unwrap());
            // A request of the warm-up may be answered after it.
            assert!(segment == "warmup" || second >= from, "{row:?}");
            assert!(segment == "measure" || second <= from, "{row:?}");
        }
        let last = outcome["last_done"].as_f64().unwrap();
        assert!(last < end as f64 + 0.5, "a request was sent after the end: {last}");
    }
}

#[test]
fn an_open_stream_pauses_after_the_warm_up_and_resumes_with_its_schedule() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 100}}, "stop": {"duration": 1},
    }));
    (plan["warmup"], plan["pause_after"], plan["adjustable"]) = (json!(300), json!(1), json!(true));
    let folder = Folder::new();
    let running = begin::<Null>(&plan, &folder);
    let until = Instant::now() + Duration::from_secs(60);
    while running.progress().seconds < 3 {
        assert!(Instant::now() < until && !running.wait(Duration::from_millis(20)));
    }
    let from = running.progress().seconds + 3;
    running.adjust(Some(from), None).unwrap();
    assert!(running.wait(Duration::from_secs(60)));
    let outcome = running.outcome().unwrap();
    assert_eq!((&outcome["warmup"], &outcome["measured"]), (&json!(from as f64), &json!(1.0)));
    let operation = &outcome["operations"][0];
    assert_eq!((&operation["warmup"]["requests"], &operation["requests"]), (&json!(100), &json!(100)));
    let seconds: BTreeSet<u64> = series(&folder).iter().map(|row| row[3].parse().unwrap()).collect();
    assert!(seconds.iter().all(|second| *second <= 1 || *second >= from), "{seconds:?}");

    // Without a decision the pause ends with the warm-up.
    plan["warmup"] = json!(2);
    let (outcome, _folder) = run::<Null>(&plan);
    assert_eq!((&outcome["warmup"], &outcome["operations"][0]["requests"]), (&json!(2.0), &json!(100)));
}
