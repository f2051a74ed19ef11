//! More clients than connections: waiting, its records, and refusals.

use std::path::PathBuf;
use std::time::Duration;

use loadframe_drivers::null::Null;
use loadframe_drivers::search::Search;
use loadframe_engine::driver::Driver;
use loadframe_engine::recording::histograms::HistogramLog;
use serde_json::{Value, json};

use crate::erased::start;
use crate::nodes::HttpNode;

fn plan(hosts: &[&HttpNode], connections: u64, stream: &Value) -> Value {
    let hosts: Vec<&str> = hosts.iter().map(|node| node.host.as_str()).collect();
    json!({
        "seed": 1, "phase": "p", "drain": 0, "target": {"driver": "search", "hosts": hosts, "connections": connections},
        "operations": {"a": {"request": {"method": "GET", "path": "/"}, "timeout": 5}}, "streams": [stream],
    })
}

fn stream(pacing: &Value, stop: &Value) -> Value {
    json!({"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": stop})
}

/// Runs a phase. Returns its outcome, and the smallest and largest response and service times in microseconds.
fn run(plan: &Value, name: &str) -> (Value, [(u64, u64); 2]) {
    let folder = Folder(std::env::temp_dir().join(format!("loadframe-cap-{}-{name}", std::process::id())));
    std::fs::create_dir(&folder.0).unwrap();
    let running = start::<Search>(serde_json::from_value(plan.clone()).unwrap(), &folder.0).unwrap();
    assert!(running.wait(Duration::from_secs(60)));
    let outcome = running.outcome().unwrap();
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let range = |what: &str| {
        let total = log.total(&format!("p/a/{what}"), 0.0, f64::INFINITY).unwrap();
        (total.min() / 1000, total.max() / 1000)
    };
    let times = [range("response"), range("service")];
    (outcome, times)
}

/// A folder of one test; dropping it removes it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn refusal<D: Driver>(plan: &Value) -> String {
    let started = start::<D>(serde_json::from_value(plan.clone()).unwrap(), &std::env::temp_dir());
    started.err().expect("a refusal").to_string()
}

#[test]
fn clients_share_as_many_connections_as_there_may_be() {
    for (spread, connections) in [("fixed", 5), ("round_robin", 5), ("all", 5)] {
        let (a, b) = (HttpNode::new(), HttpNode::new());
        let clients = stream(&json!({"closed": {"clients": 12}}), &json!({"requests": 600}));
        let mut plan = plan(&[&a, &b], connections, &clients);
        plan["threads"] = json!(2);
        plan["target"]["spread"] = json!(spread);
        let (outcome, _) = run(&plan, spread);
        assert_eq!(outcome["operations"][0]["successes"], 600, "{spread}: {outcome}");
        assert!(a.requests() >= 100 && b.requests() >= 100, "{spread}: {} and {}", a.requests(), b.requests());
        let open = [a.connections(), b.connections()];
        match spread {
            "fixed" => assert_eq!(open, [3, 2]),
            _ => assert!(open.iter().sum::<u64>() <= connections, "{spread}: {open:?}"),
        }
    }
}

#[test]
fn the_wait_for_a_connection_is_in_the_response_time_and_not_in_the_service_time() {
    let node = HttpNode::slow(50);
    let stream = stream(&json!({"closed": {"clients": 4}}), &json!({"requests": 12}));
    let (outcome, [response, service]) = run(&plan(&[&node], 1, &stream), "wait");
    assert_eq!((&outcome["operations"][0]["successes"], node.connections()), (&json!(12), 1));
    assert!(response.1 >= 4 * 50_000, "three others were served before: {response:?}");
    assert!(service.0 >= 50_000 && response.1 - service.1 >= 50_000, "{response:?} {service:?}");
}

#[test]
fn who_waits_for_a_connection_at_the_end_is_in_flight_and_has_an_age() {
    let node = HttpNode::slow(400);
    let stream = stream(&json!({"open": {"rate": 20}}), &json!({"duration": 1}));
    let (outcome, _) = run(&plan(&[&node], 1, &stream), "end");
    let operation = &outcome["operations"][0];
    let (done, left) = (operation["requests"].as_u64().unwrap(), operation["in_flight_at_end"].as_u64().unwrap());
    assert!(done <= 3 && done + left == 20, "{operation}");
    assert_eq!(operation["dropped"], 0);
    // The third request is queued; it was due after 100 ms.
    assert!(operation["in_flight_oldest"].as_f64().unwrap() > 0.5, "{operation}");
}

#[test]
fn who_waits_longer_than_the_timeout_has_timed_out() {
    let node = HttpNode::slow(2000);
    let stream = stream(&json!({"closed": {"clients": 2}}), &json!({"requests": 2}));
    let mut plan = plan(&[&node], 1, &stream);
    // Leaves time to connect on a busy machine.
    plan["operations"]["a"]["timeout"] = json!(0.8);
    let (outcome, _) = run(&plan, "timeout");
    let said: Vec<&str> = outcome["operations"][0]["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            assert_eq!(error["class"], "timeout");
            error["message"].as_str().unwrap()
        })
        .collect();
    assert!(said.contains(&"no answer within 0.8 s"), "{said:?}");
}

#[test]
fn a_cap_that_carries_nothing_is_refused_before_the_load() {
    let nodes = [HttpNode::new(), HttpNode::new()];
    let stream = stream(&json!({"closed": {"clients": 4}}), &json!({"requests": 4}));
    let mut plan = plan(&[&nodes[0], &nodes[1]], 0, &stream);
    assert_eq!(refusal::<Search>(&plan), "target: 0 connections carry nothing: give 1 or more");
    plan["threads"] = json!(3);
    plan["target"]["connections"] = json!(2);
    assert_eq!(refusal::<Search>(&plan), "target: 2 connections for 3 worker threads: give each at least one");
    plan["target"]["connections"] = json!(5);
    plan["target"]["spread"] = json!("round_robin");
    let error = refusal::<Search>(&plan);
    assert!(error.starts_with("target: 5 connections are too few: each of 3 worker threads needs one to"), "{error}");
    assert!(refusal::<Null>(&plan).starts_with("target: this driver cannot limit its connections"));
}

#[test]
fn the_wait_for_a_connection_is_part_of_the_time_that_a_request_has() {
    let node = HttpNode::slow(400);
    let stream = stream(&json!({"closed": {"clients": 2}}), &json!({"requests": 2}));
    let mut plan = plan(&[&node], 1, &stream);
    plan["operations"]["a"]["timeout"] = json!(0.6);
    let (outcome, _) = run(&plan, "late");
    let operation = &outcome["operations"][0];
    let classes: Vec<_> = operation["errors"].as_array().unwrap().iter().map(|error| &error["class"]).collect();
    assert_eq!((&operation["successes"], classes), (&json!(1), vec![&json!("timeout")]), "{outcome}");
}
