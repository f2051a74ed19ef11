//! Clusters that change under load: nodes used, connections opened, and records of both.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use loadframe_drivers::search::Search;
use loadframe_engine::run::Running;
use serde_json::{Value, json};

use crate::erased::start;
use crate::nodes::HttpNode;

/// Time limit for a change of hosts to take effect.
const SOON: Duration = Duration::from_secs(5);

/// A running phase, with its own folder.
struct Load {
    running: Running,
    folder: PathBuf,
}

impl Load {
    /// Starts 12 closed-loop clients with a think time of 2 ms, for at most a minute.
    fn start(hosts: &[&HttpNode], spread: &str) -> Self {
        Self::with(hosts, spread, &json!({"closed": {"clients": 12, "think_time": 0.002}}))
    }

    /// Starts a load with another pacing.
    fn with(hosts: &[&HttpNode], spread: &str, pacing: &Value) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("loadframe-topology-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let plan = json!({
            "seed": 1, "phase": "p", "threads": 2,
            "target": {"driver": "search", "hosts": names(hosts), "spread": spread, "timeout": 5},
            "operations": {"a": {"request": {"method": "GET", "path": "/"}}},
            "streams": [{
                "name": "s", "mix": [["a", 1]], "pacing": pacing,
                "stop": {"duration": 60},
            }],
        });
        let running = start::<Search>(serde_json::from_value(plan).unwrap(), &folder).unwrap();
        Self { running, folder }
    }

    fn set_hosts(&self, hosts: &[&HttpNode]) {
        self.running.set_hosts(&names(hosts)).unwrap();
    }

    /// Waits until the nodes' request counts are equal within a fifth.
    fn wait_for_equal_shares(&self, nodes: &[&HttpNode]) {
        let began = Instant::now();
        loop {
            let before: Vec<u64> = nodes.iter().map(|node| node.requests()).collect();
            sleep(Duration::from_millis(300));
            let counts: Vec<u64> = nodes.iter().zip(before).map(|(node, before)| node.requests() - before).collect();
            let fair = counts.iter().sum::<u64>() / counts.len() as u64;
            if fair > 20 && counts.iter().all(|count| (fair * 4 / 5..=fair * 6 / 5).contains(count)) {
                return;
            }
            assert!(began.elapsed() < SOON, "after {SOON:?} the shares are {counts:?}");
        }
    }

    /// Waits until the nodes have accepted this many connections. A client connects only when it has something to send,
    /// so equal shares may precede the last client's connection.
    fn wait_for_connections<const N: usize>(&self, nodes: [&HttpNode; N], expected: [u64; N]) {
        let began = Instant::now();
        while nodes.map(HttpNode::connections) != expected {
            let connections = nodes.map(HttpNode::connections);
            assert!(began.elapsed() < SOON, "after {SOON:?} the connections are {connections:?}, not {expected:?}");
            sleep(Duration::from_millis(5));
        }
    }

    /// Ends the phase; returns its outcome, and the requests by node.
    fn end(self) -> (Value, BTreeMap<u64, u64>) {
        self.running.stop();
        let outcome = self.running.outcome().unwrap();
        let rows = std::fs::read_to_string(self.folder.join("nodes.csv")).unwrap();
        let mut nodes = BTreeMap::new();
        for row in rows.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            *nodes.entry(fields[1].parse().unwrap()).or_default() += fields[3].parse::<u64>().unwrap();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
        (outcome, nodes)
    }
}

fn names(nodes: &[&HttpNode]) -> Vec<String> {
    nodes.iter().map(|node| node.host.clone()).collect()
}

fn failures(outcome: &Value) -> u64 {
    let operation = &outcome["operations"][0];
    operation["requests"].as_u64().unwrap() - operation["successes"].as_u64().unwrap()
}

#[test]
fn a_node_that_joins_gets_its_share_and_no_other_connection_is_touched() {
    let (a, b, c) = (HttpNode::new(), HttpNode::new(), HttpNode::new());
    let load = Load::start(&[&a, &b], "fixed");
    load.wait_for_equal_shares(&[&a, &b]);
    load.wait_for_connections([&a, &b], [6, 6]);
    load.set_hosts(&[&a, &b, &c]);
    load.wait_for_equal_shares(&[&a, &b, &c]);
    // The moved clients' connections, and one for the check whether the node is reachable.
    load.wait_for_connections([&a, &b, &c], [6, 6, 4 + 1]);
    let (outcome, nodes) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
    assert_eq!(outcome["hosts"], json!(names(&[&a, &b, &c])));
    let answered: Vec<u64> = [&a, &b, &c].iter().map(|node| node.requests()).collect();
    for (number, answered) in answered.into_iter().enumerate() {
        let recorded = nodes[&(number as u64)];
        assert!((recorded..=recorded + 12).contains(&answered), "{recorded} of {answered} requests are recorded");
    }
}

#[test]
fn a_node_that_leaves_gets_nothing_more_and_nothing_fails() {
    let (a, b, c) = (HttpNode::new(), HttpNode::new(), HttpNode::new());
    let load = Load::start(&[&a, &b, &c], "fixed");
    load.wait_for_equal_shares(&[&a, &b, &c]);
    load.set_hosts(&[&a, &c]);
    load.wait_for_equal_shares(&[&a, &c]);
    // The clients of the departed node were divided between the others.
    load.wait_for_connections([&a, &c], [6, 6]);
    let before = b.requests();
    sleep(Duration::from_millis(500));
    assert_eq!(b.requests(), before);
    let (outcome, _) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
    assert_eq!(outcome["hosts"], json!(names(&[&a, &b, &c])), "numbers do not change");
}

#[test]
fn a_node_that_leaves_and_comes_back_has_its_old_number() {
    let (a, b, c) = (HttpNode::new(), HttpNode::new(), HttpNode::new());
    let load = Load::start(&[&a, &b], "fixed");
    load.wait_for_equal_shares(&[&a, &b]);
    load.set_hosts(&[&b, &c]);
    load.wait_for_equal_shares(&[&b, &c]);
    load.set_hosts(&[&b, &a]);
    load.wait_for_equal_shares(&[&a, &b]);
    let (outcome, nodes) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
    assert_eq!(outcome["hosts"], json!(names(&[&a, &b, &c])));
    assert!((nodes[&0]..=nodes[&0] + 12).contains(&a.requests()));
}

#[test]
fn no_client_waits_for_a_joining_node() {
    let (a, mut b) = (HttpNode::new(), HttpNode::stopped());
    let load = Load::start(&[&a], "fixed");
    load.wait_for_equal_shares(&[&a]);
    load.wait_for_connections([&a], [12]);
    load.set_hosts(&[&a, &b]);
    sleep(Duration::from_millis(700));
    assert_eq!(b.connections(), 0);
    b.start();
    load.wait_for_equal_shares(&[&a, &b]);
    assert_eq!(a.connections(), 12, "each client kept its connection until the other node started");
    let (outcome, _) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
}

#[test]
fn clients_of_a_node_that_died_ask_the_others_and_go_home_when_it_is_back() {
    for spread in ["fixed", "round_robin", "all"] {
        let (a, mut b, c) = (HttpNode::new(), HttpNode::new(), HttpNode::new());
        let load = Load::start(&[&a, &b, &c], spread);
        load.wait_for_equal_shares(&[&a, &b, &c]);
        b.stop();
        load.wait_for_equal_shares(&[&a, &c]);
        let before = b.requests();
        b.start();
        load.wait_for_equal_shares(&[&a, &b, &c]);
        assert!(b.requests() > before);
        let (outcome, _) = load.end();
        // Each client may have lost a request, and been refused a connection once.
        assert!((1..=24).contains(&failures(&outcome)), "{outcome}");
        for error in outcome["operations"][0]["errors"].as_array().unwrap() {
            assert_eq!(error["class"], "connect");
        }
    }
}

#[test]
fn round_robin_gives_each_node_equal_requests_from_any_client() {
    let (a, b, c, d) = (HttpNode::new(), HttpNode::new(), HttpNode::new(), HttpNode::new());
    let load = Load::start(&[&a, &b, &c], "round_robin");
    load.wait_for_equal_shares(&[&a, &b, &c]);
    load.wait_for_connections([&a, &b, &c], [12, 12, 12]);
    load.set_hosts(&[&b, &c, &d]);
    load.wait_for_equal_shares(&[&b, &c, &d]);
    let before = a.requests();
    sleep(Duration::from_millis(300));
    assert_eq!(a.requests(), before);
    assert_eq!([&b, &c].map(HttpNode::connections), [12, 12]);
    let (outcome, _) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
}

#[test]
fn with_all_hosts_to_choose_from_a_slow_one_is_asked_less() {
    let (quick, slow) = (HttpNode::new(), HttpNode::slow(100));
    let load = Load::start(&[&quick, &slow], "all");
    while quick.requests() < 500 {
        sleep(Duration::from_millis(10));
    }
    assert!((1..quick.requests() / 2).contains(&slow.requests()), "{} and {}", quick.requests(), slow.requests());
    let (outcome, nodes) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
    assert!(nodes[&0] > nodes[&1], "{nodes:?}");
}

#[test]
fn hosts_that_cannot_be_are_refused_and_the_load_goes_on() {
    let a = HttpNode::new();
    let load = Load::start(&[&a], "fixed");
    for (hosts, cause) in [
        (vec![], "the target has no hosts".to_owned()),
        (vec!["a".to_owned()], "host \"a\" is not of the form name:port".to_owned()),
        (names(&[&a, &a]), format!("host \"{}\" is listed twice", a.host)),
    ] {
        assert_eq!(load.running.set_hosts(&hosts).unwrap_err().message, cause);
    }
    load.wait_for_equal_shares(&[&a]);
    let (outcome, _) = load.end();
    assert_eq!((failures(&outcome), &outcome["hosts"]), (0, &json!([a.host])));
}

#[test]
fn a_host_that_joins_and_refuses_connections_is_named_with_the_reason() {
    let a = HttpNode::new();
    let load = Load::start(&[&a], "fixed");
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    load.running.set_hosts(&[a.host.clone(), refusing.clone()]).unwrap();
    sleep(Duration::from_secs(1));
    let (outcome, _) = load.end();
    assert_eq!(failures(&outcome), 0, "{outcome}");
    let unreachable = outcome["unreachable"].as_array().unwrap();
    assert_eq!((unreachable.len(), &unreachable[0]["host"]), (1, &json!(refusing)));
    assert!(unreachable[0]["why"].as_str().unwrap().contains("refused"), "{outcome}");
}

#[test]
fn an_open_load_goes_to_all_hosts_evenly_with_one_connection_to_each_while_one_is_enough() {
    for (threads, connections) in [(1, None), (2, None), (1, Some(5)), (1, Some(2))] {
        let nodes: Vec<HttpNode> = (0..5).map(|_| HttpNode::new()).collect();
        let hosts: Vec<&HttpNode> = nodes.iter().collect();
        let mut plan = json!({
            "seed": 1, "phase": "p", "threads": threads,
            "target": {"driver": "search", "hosts": names(&hosts), "timeout": 30},
            "operations": {"a": {"request": {"method": "GET", "path": "/"}}},
            "streams": [{
                "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 200}}, "stop": {"requests": 300},
            }],
        });
        if let Some(connections) = connections {
            plan["target"]["connections"] = json!(connections);
        }
        let folder =
            std::env::temp_dir().join(format!("loadframe-open-{}-{threads}-{connections:?}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let running = start::<Search>(serde_json::from_value(plan).unwrap(), &folder).unwrap();
        assert!(running.wait(Duration::from_secs(60)));
        std::fs::remove_dir_all(&folder).unwrap();
        let requests: Vec<u64> = nodes.iter().map(HttpNode::requests).collect();
        assert_eq!(requests.iter().sum::<u64>(), 300);
        // A shared connection moves to another node once its own is eight requests ahead.
        let apart = if connections.is_some() { 20 } else { 2 };
        assert!(requests.iter().all(|count| count.abs_diff(60) <= apart), "{connections:?}: {requests:?}");
    }
}

#[test]
fn an_open_load_leaves_a_node_that_is_down_and_comes_back_evenly() {
    let (a, b, mut c) = (HttpNode::new(), HttpNode::new(), HttpNode::new());
    let stream = json!({"open": {"rate": 500}});
    let load = Load::with(&[&a, &b, &c], "fixed", &stream);
    load.wait_for_equal_shares(&[&a, &b, &c]);
    c.stop();
    load.wait_for_equal_shares(&[&a, &b]);
    c.start();
    load.wait_for_equal_shares(&[&a, &b, &c]);
    load.end();
}
