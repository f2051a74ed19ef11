//! Load after a pause, a restart and a cut link, for each driver on its null server: the load resumes with the server.

use std::thread::sleep;

use loadframe_drivers::couchbase::Couchbase;
use loadframe_drivers::cql::Cql;
use loadframe_drivers::http::Http;
use loadframe_drivers::mongodb::Mongo;
use loadframe_drivers::postgresql::Postgres;
use loadframe_drivers::redis::Redis;
use loadframe_drivers::search::Search;
use loadframe_null_server::NullServer;

use super::records::rows;
use super::*;

/// Timeout of a request, in seconds.
const TIMEOUT: f64 = 1.0;
/// Duration of the fault: one request of each client fails.
const AWAY: Duration = Duration::from_millis(1_500);
/// Time limit of any wait. Far above the usual time, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fault: its name, how to start it, and how to end it.
type Fault = (&'static str, fn(&NullServer), fn(&NullServer));

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let due = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < due, "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn target(driver: &str, server: &NullServer, operation: &Value, clients: u64, stop: Value) -> Value {
    json!({
        "seed": 1, "phase": "p", "threads": 2, "drain": 1.0,
        "target": {"driver": driver, "hosts": [server.address().to_string()], "timeout": TIMEOUT},
        "operations": {"a": operation},
        // Think times leave the processor to the server.
        "streams": [{
            "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": clients, "think_time": 1.0}}, "stop": stop,
        }],
    })
}

/// Applies each fault to a server of the driver's protocol while 1, 100 and 500 clients send `operation`.
fn recovers<D: Driver>(driver: &str, operation: Value) {
    let faults: [Fault; 3] = [
        ("a pause", NullServer::pause, NullServer::resume),
        ("a restart", NullServer::kill, NullServer::restart),
        ("a cut", NullServer::cut, NullServer::resume),
    ];
    let server = NullServer::start(driver).unwrap();
    let loads = [1, 100, 500].map(|clients| {
        let folder = Folder::new();
        let running = begin::<D>(&target(driver, &server, &operation, clients, json!({"duration": 600})), &folder);
        (clients, running, folder)
    });
    let successes = |running: &Running| {
        let progress = running.progress();
        progress.requests - progress.errors
    };
    for (clients, running, _folder) in &loads {
        wait(&format!("{driver}, {clients} clients: nothing succeeds"), || successes(running) >= *clients);
    }
    for (fault, begin_fault, end_fault) in &faults {
        begin_fault(&server);
        sleep(AWAY);
        end_fault(&server);
        // The reference: a client that did not experience the fault.
        wait(&format!("{driver}: the server is not back after {fault}"), || {
            let (other, _folder) = run::<D>(&target(driver, &server, &operation, 1, json!({"requests": 1})));
            other["operations"][0]["successes"] == 1
        });
        let before = loads.each_ref().map(|(_, running, _)| successes(running));
        for ((clients, running, _folder), before) in loads.iter().zip(before) {
            wait(&format!("{driver}, {clients} clients: the load does not recover after {fault}"), || {
                successes(running) >= before + 2 * clients
            });
        }
    }
    for (clients, running, folder) in &loads {
        running.stop();
        assert!(running.wait(PATIENCE));
        let outcome = running.outcome().unwrap();
        let reconnects = outcome["operations"][0]["reconnects"].as_u64().unwrap();
        // The CQL driver checks nodes after a failed request. With a single client that may be too late to see them
        // down.
        assert!(reconnects > 0 || (driver == "cql" && *clients == 1), "{driver}: {reconnects} reconnects");
        let in_seconds: u64 = rows(folder).iter().map(|row| row["reconnects"].parse::<u64>().unwrap()).sum();
        assert_eq!(in_seconds, reconnects, "{driver}");
        let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
        let setups = log.total("p/a/setup", 0.0, f64::INFINITY).unwrap();
        // For CQL, the sessions of the threads that have a client.
        let first = if driver == "cql" { 2.min(*clients) } else { *clients };
        assert!(setups.len() >= first, "{driver}: {} setups of {clients} clients", setups.len());
    }
}

fn read() -> Value {
    json!({"read": {"collection": "nothing", "id": "key"}})
}

#[test]
fn http_recovers() {
    recovers::<Http>("http", json!({"http": {"method": "GET", "path": "/"}}));
}

#[test]
fn search_recovers() {
    recovers::<Search>(
        "search",
        json!({"search": {"collection": "c", "body": {"query": {"match_all": {}}}, "size": 1}}),
    );
}

#[test]
fn redis_recovers() {
    recovers::<Redis>("redis", json!({"command": ["GET", "key"]}));
}

#[test]
fn mongodb_recovers() {
    recovers::<Mongo>("mongodb", read());
}

#[test]
fn postgresql_recovers() {
    recovers::<Postgres>("postgresql", read());
}

#[test]
fn cql_recovers() {
    recovers::<Cql>("cql", read());
}

#[test]
fn couchbase_recovers() {
    recovers::<Couchbase>("couchbase", read());
}

/// The library's eighth connection attempt comes 12.75 s after the loss, and the next one 9 s later.
const LONG: Duration = Duration::from_millis(13_500);

#[test]
fn cql_opens_another_session_after_a_long_outage() {
    let server = NullServer::start("cql").unwrap();
    let folder = Folder::new();
    let running = begin::<Cql>(&target("cql", &server, &read(), 4, json!({"duration": 600})), &folder);
    let successes = || {
        let progress = running.progress();
        progress.requests - progress.errors
    };
    wait("nothing succeeds", || successes() >= 4);
    server.kill();
    sleep(LONG);
    let before = successes();
    server.restart();
    wait("the load does not recover", || successes() >= before + 8);
    running.stop();
    assert!(running.wait(PATIENCE));
    let outcome = running.outcome().unwrap();
    assert!(outcome["operations"][0]["reconnects"].as_u64().unwrap() > 0);
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let setups = log.total("p/a/setup", 0.0, f64::INFINITY).unwrap();
    assert!(setups.len() >= 3, "one for each of two threads, and one in place of another: {}", setups.len());
}
