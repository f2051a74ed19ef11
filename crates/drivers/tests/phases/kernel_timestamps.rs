//! The generator's overhead by the kernel's timestamps, and service times corrected for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::{JoinHandle, sleep, spawn};

use loadframe_drivers::couchbase::Couchbase;
use loadframe_drivers::http::Http;
use loadframe_drivers::mongodb::Mongo;
use loadframe_drivers::postgresql::Postgres;
use loadframe_drivers::redis::Redis;
use loadframe_drivers::search::Search;
use loadframe_engine::reactor;
use loadframe_engine::run::validate;
use loadframe_null_server::NullServer;

use super::erased::Erased;
use super::*;

/// Time after which the server answers.
const DELAY: Duration = Duration::from_millis(5);
/// Time for which the worker is busy again and again, far longer.
const BUSY: Duration = Duration::from_millis(60);

/// A driver over HTTP, with an operation that keeps the worker from reading answers.
struct Late(Http);

impl Driver for Late {
    /// `None` for the operation that keeps the worker busy.
    type Operation = Option<<Http as Driver>::Operation>;
    type Connection = <Http as Driver>::Connection;

    fn new(target: &Target) -> Result<Self, PlanError> {
        Http::new(target).map(Self)
    }
    fn has_kernel_timestamps(&self) -> bool {
        true
    }
    fn map(&self, form: &Value, context: &Context) -> Result<Self::Operation, PlanError> {
        if form.get("http").is_some() { self.0.map(form, context).map(Some) } else { Ok(None) }
    }
    fn requests(&self, _: &Self::Operation) -> Option<u64> {
        None
    }
    fn connection(&self, client: u64) -> Self::Connection {
        self.0.connection(client)
    }
    async fn execute(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        match operation {
            Some(operation) => self.0.execute(connection, operation, context, draw, only).await,
            None => {
                let sent = Instant::now();
                sleep(BUSY);
                reactor::yield_now().await;
                Reply::new(sent, Instant::now(), Ok(()))
            }
        }
    }
}

/// Starts a server of one connection that answers each request after [`DELAY`].
fn slow_server() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut space, mut read) = ([0; 4096], Vec::new());
        while let Ok(count @ 1..) = stream.read(&mut space) {
            read.extend_from_slice(&space[..count]);
            if read.ends_with(b"\r\n\r\n") {
                read.clear();
                sleep(DELAY);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        }
    };
    (address, spawn(serve))
}

/// Recorded times of an operation, ns.
struct Recorded {
    count: u64,
    mean: f64,
    least: u64,
    median: u64,
}

/// Returns the times of a measure of the operation `a`.
fn times(folder: &Folder, measure: &str) -> Recorded {
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let times = log.total(&format!("p/a/{measure}"), 0.0, f64::INFINITY).unwrap();
    let (least, median) = (times.min(), times.value_at_quantile(0.5));
    Recorded { count: times.len(), mean: times.mean(), least, median }
}

#[test]
fn a_busy_worker_delays_the_service_time_but_not_the_corrected_one() {
    let (address, server) = slow_server();
    let closed = json!({"closed": {"clients": 1}});
    let plan = json!({
        "seed": 1, "phase": "p", "kernel_timestamps": true, "ends_with": ["asks"],
        "target": {"driver": "http", "hosts": [address.to_string()]},
        "operations": {"a": {"http": {"method": "GET", "path": "/"}}, "b": {"busy": true}},
        "streams": [
            {"name": "asks", "mix": [["a", 1]], "pacing": closed, "stop": {"requests": 10}},
            {"name": "works", "mix": [["b", 1]], "pacing": closed, "stop": "ended"},
        ],
    });
    let (outcome, folder) = run::<Late>(&plan);
    server.join().unwrap();
    let asked = &outcome["operations"][0];
    assert_eq!((&asked["successes"], &asked["kernel_timestamps"]["without"]), (&json!(10), &json!(0)), "{outcome}");
    let [service, overhead, corrected] = ["service", "overhead", "corrected"].map(|name| times(&folder, name));
    assert_eq!((service.count, overhead.count, corrected.count), (10, 10, 10));
    let sum = overhead.mean + corrected.mean;
    assert!((sum / service.mean - 1.0).abs() < 0.01, "{sum} of {}", service.mean);
    // Recorded values have three digits.
    assert!(corrected.least as f64 >= 0.99 * DELAY.as_nanos() as f64, "an answer took {} ns", corrected.least);
    let [service, overhead, corrected] = [service, overhead, corrected].map(|times| times.median);
    assert!(2 * corrected < service && service < 2 * overhead, "{service} ns: {overhead} and {corrected} ns");
}

/// Runs a phase with this target and operation on the driver `D`; returns its outcome and folder.
fn read<D: Driver>(target: Value, operation: Value, on: bool) -> (Value, Folder) {
    run::<D>(&json!({
        "seed": 1, "phase": "p", "kernel_timestamps": on, "target": target, "operations": {"a": operation},
        "streams": [{"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 3}}, "stop": {"requests": 300}}],
    }))
}

/// Checks that requests to the null server of a driver have timestamps if they are on, and only then.
fn stamps<D: Driver>(driver: &str, operation: &Value) {
    let server = NullServer::start(driver).unwrap();
    for on in [false, true] {
        let target = json!({"driver": driver, "hosts": [server.address().to_string()]});
        let (outcome, folder) = read::<D>(target, operation.clone(), on);
        let counts = if on { json!({"without": 0, "receive_only": 0}) } else { Value::Null };
        assert_eq!(outcome["operations"][0]["successes"], 300, "{driver}: {outcome}");
        assert_eq!(outcome["operations"][0]["kernel_timestamps"], counts, "{driver}");
        let recorded = ["overhead", "corrected"].map(|name| times(&folder, name).count);
        assert_eq!(recorded, [if on { 300 } else { 0 }; 2], "{driver}");
        if on {
            let [service, overhead] = ["service", "overhead"].map(|name| times(&folder, name).mean);
            assert!(0.0 < overhead && overhead < service, "{driver}: {overhead} of {service} ns");
        }
    }
}

#[test]
fn requests_of_each_driver_on_connections_of_the_engine_have_timestamps() {
    let document = json!({"read": {"collection": "nothing", "id": "key"}});
    stamps::<Http>("http", &json!({"http": {"method": "GET", "path": "/"}}));
    stamps::<Search>(
        "search",
        &json!({"search": {"collection": "c", "body": {"query": {"match_all": {}}}, "size": 1}}),
    );
    stamps::<Redis>("redis", &json!({"command": ["GET", "key"]}));
    stamps::<Mongo>("mongodb", &document);
    stamps::<Couchbase>("couchbase", &document);
    stamps::<Postgres>("postgresql", &document);
}

#[test]
fn drivers_without_connections_of_the_engine_refuse_timestamps() {
    let refused = |target: Value, operation: Value| {
        let plan = json!({
            "seed": 1, "phase": "p", "kernel_timestamps": true, "target": target, "operations": {"a": operation},
            "streams": [{"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}}],
        });
        let plan = serde_json::from_value(plan).unwrap();
        erased::with::<loadframe_drivers::any::AnyDriver, _>(|| validate::<Erased>(plan, false)).err().unwrap().message
    };
    let cql = json!({"driver": "cql", "hosts": ["127.0.0.1:1"]});
    let several = json!({"driver": "several", "targets": {"store": {"driver": "null"}, "app": cql}});
    for (name, target) in [("null", json!({"driver": "null"})), ("cql", cql), ("several", several)] {
        let message = refused(target, json!({}));
        assert!(
            message.contains(&format!("which the driver {name:?} does not use: remove \"kernel_timestamps\"")),
            "{message}"
        );
    }
}
