//! Streams that ingest the events of a source: no event is lost, and each is counted once.

mod faults;
mod lines;
mod retries;
mod spill;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use loadframe_engine::workload::event::Batch;

use super::*;

/// A driver that accepts events, except as its operation specifies.
struct Fussy;

/// Behaviour of the driver.
struct Manner {
    /// Pause of each request.
    pause: Duration,
    /// Number of first requests that reject half of their events.
    half_rejected: AtomicU64,
    /// Whether every second request has all of its events rejected, and the others half of them.
    tires: bool,
    requests: AtomicU64,
    /// Number of first requests that cannot connect.
    unanswered: AtomicU64,
    /// Number of first requests refused for missing rights.
    denied: AtomicU64,
    /// Number of first answers without a count of the stored events.
    uncounted: AtomicU64,
    /// Events with this text in their line are refused permanently.
    refused: String,
    /// Events with this text in their line are rejected each time.
    rejected: String,
    /// While this file exists, a batch with `hang` in it gets no answer.
    hold: PathBuf,
    /// While this file exists, requests cannot connect.
    down: PathBuf,
}

impl Driver for Fussy {
    type Operation = Manner;
    type Connection = ();

    fn new(_: &Target) -> Result<Self, PlanError> {
        Ok(Self)
    }
    fn map(&self, form: &Value, _: &Context) -> Result<Manner, PlanError> {
        Ok(Manner {
            pause: Duration::from_millis(form["ms"].as_u64().unwrap_or(0)),
            half_rejected: AtomicU64::new(form["half_rejected"].as_u64().unwrap_or(0)),
            tires: form["tires"].as_bool().unwrap_or(false),
            requests: AtomicU64::new(0),
            unanswered: AtomicU64::new(form["unanswered"].as_u64().unwrap_or(0)),
            denied: AtomicU64::new(form["denied"].as_u64().unwrap_or(0)),
            uncounted: AtomicU64::new(form["uncounted"].as_u64().unwrap_or(0)),
            refused: form["refused"].as_str().unwrap_or("\0").to_owned(),
            rejected: form["rejected"].as_str().unwrap_or("\0").to_owned(),
            hold: form["hold"].as_str().unwrap_or("/nothing/is/here").into(),
            down: form["down"].as_str().unwrap_or("/nothing/is/here").into(),
        })
    }
    fn requests(&self, _: &Manner) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    fn ingests(&self, _: &Manner) -> bool {
        true
    }
    async fn execute(&self, (): &mut (), _: &Manner, _: &Context, _: &Draw, _: Option<&[u32]>) -> Reply {
        unreachable!("its operations take in events")
    }
    async fn ingest(&self, (): &mut (), manner: &Manner, _: &Context, batch: &Batch, only: Option<&[u32]>) -> Reply {
        let sent = Instant::now();
        tokio::time::sleep(manner.pause).await;
        while memchr::memmem::find(&batch.bytes, b"hang").is_some() && manner.hold.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let one_less = |left: &AtomicU64| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        };
        let reply = |class: Option<ErrorClass>| {
            let outcome = class.map_or(Ok(()), |class| Err(Failure::new(class, "requested by the test")));
            Reply { bytes_sent: 1, ..Reply::new(sent, Instant::now(), outcome) }
        };
        if manner.down.exists() || one_less(&manner.unanswered) {
            return reply(Some(ErrorClass::Connect));
        }
        if one_less(&manner.denied) {
            return reply(Some(ErrorClass::Client));
        }
        let carried: Vec<u32> = only.map_or_else(|| (0..batch.events.len() as u32).collect(), <[u32]>::to_vec);
        let has = |place: &u32, text: &str| {
            let line = batch.line(&batch.events[*place as usize]);
            memchr::memmem::find(line, text.as_bytes()).is_some()
        };
        let is_refused = |place: &u32| has(place, &manner.refused);
        let places = |wanted: &dyn Fn(usize, &u32) -> bool| -> Vec<u32> {
            carried.iter().enumerate().filter(|(at, place)| wanted(*at, place)).map(|(at, _)| at as u32).collect()
        };
        let refused = places(&|_, place| is_refused(place));
        let half = one_less(&manner.half_rejected) || manner.tires;
        let all = manner.tires && manner.requests.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let is_rejected = |at: usize, place: &u32| all || half && at % 2 == 1 || has(place, &manner.rejected);
        let rejected = places(&|at, place| is_rejected(at, place) && !is_refused(place));
        let stored = (carried.len() - refused.len() - rejected.len()) as u64;
        let documents = if one_less(&manner.uncounted) { 0 } else { stored };
        let class = (documents < carried.len() as u64).then_some(ErrorClass::Item);
        Reply { documents, rejected, refused, ..reply(class) }
    }
    fn looks_for(&self, _: &Manner) -> Result<(), PlanError> {
        Ok(())
    }
    /// Finds no event.
    async fn look_for(&self, (): &mut (), manner: &Manner, _: &Context, batch: &Batch) -> (Reply, Vec<bool>) {
        let sent = Instant::now();
        tokio::time::sleep(manner.pause).await;
        (Reply::new(sent, Instant::now(), Ok(())), vec![false; batch.events.len()])
    }
    async fn show(&self, (): &mut (), _: &Manner, _: &Context, _: &Draw) -> (Reply, Exchange) {
        unreachable!("no test shows it")
    }
}

fn events() -> Value {
    json!({"type": "/type", "kinds": {
        "bid": {"id": "/id", "time": "/time"}, "win": {"id": "/bid_id", "time": "/bid_time"},
    }})
}

fn ingesting(source: Value, stop: Value) -> Value {
    let mut plan = plan(json!({
        "name": "s", "mix": [["take_in", 1]], "pacing": {"source": {"source": "ads", "workers": 3}}, "stop": stop,
    }));
    plan["operations"] = json!({"take_in": {"take_in": {}}});
    plan["sources"] = json!({"ads": source});
    plan["sources"]["ads"]["events"] = events();
    plan["sources"]["ads"]["flush"] = json!(0.02);
    plan
}

fn bid(number: u64) -> String {
    format!("{{\"type\": \"bid\", \"id\": \"b{number}\", \"time\": \"2017-03-01T12:00:00.{:03}Z\"}}\n", number % 1000)
}

fn file(folder: &Folder, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn count(outcome: &Value, key: &str) -> u64 {
    outcome["sources"]["ads"][key].as_u64().unwrap()
}

/// Checks the invariants of all sources.
fn adds_up(outcome: &Value) {
    let letters = outcome["sources"]["ads"]["dead_letters"].as_object().unwrap();
    let dead = |refused: bool| -> u64 {
        letters.iter().filter(|(reason, _)| (*reason == "refused") == refused).map(|(_, n)| n.as_u64().unwrap()).sum()
    };
    let read = count(outcome, "accepted") + count(outcome, "dropped") + dead(false);
    assert_eq!(count(outcome, "lines"), read, "{outcome}");
    let ends = count(outcome, "indexed") + dead(true) + count(outcome, "left_over");
    assert_eq!(count(outcome, "accepted"), ends, "{outcome}");
}

#[test]
fn each_line_of_files_is_an_event_or_a_dead_letter_with_its_reason() {
    let texts = Folder::new();
    let first: String = (0..10_000).map(bid).collect();
    let odd = [
        "{\"type\": \"win\", \"bid_id\": \"b1\", \"bid_time\": 1488369600000}\n",
        "\n",
        "not JSON\n",
        "[1, 2]\n",
        "{\"id\": \"b1\", \"time\": 5}\n",
        "{\"type\": \"sale\", \"id\": \"b1\", \"time\": 5}\n",
        "{\"type\": \"bid\", \"time\": 5}\n",
        "{\"type\": \"bid\", \"id\": \"\", \"time\": 5}\n",
        "{\"type\": \"bid\", \"id\": \"b1\"}\n",
        "{\"type\": \"bid\", \"id\": \"b1\", \"time\": \"yesterday\"}\n",
        "{\"type\": \"bid\", \"id\": \"last\", \"time\": 5}",
    ];
    let paths = [file(&texts, "first.ndjson", first), file(&texts, "odd.ndjson", odd.concat())];
    for threads in [1, 2, 3] {
        let letters = texts.0.join(format!("letters-{threads}.ndjson"));
        let mut plan = ingesting(json!({"files": paths, "dead_letters": letters}), json!("exhausted"));
        plan["threads"] = json!(threads);
        let (outcome, folder) = run::<Null>(&plan);
        adds_up(&outcome);
        let source = &outcome["sources"]["ads"];
        assert_eq!((&source["accepted"], &source["left_over"]), (&json!(10_002), &json!(0)), "{source}");
        let reasons = json!({
            "not a JSON object": 2, "no type": 1, "unknown type": 1, "no id": 2, "no time": 1, "unreadable time": 1,
        });
        assert_eq!(source["dead_letters"], reasons);
        let kept = std::fs::read_to_string(letters).unwrap();
        let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(kept.len(), 8);
        assert_eq!(kept[0]["line"], "not JSON");
        assert!(kept[0]["source"].as_str().unwrap().ends_with("odd.ndjson:3"), "{}", kept[0]);
        // Each event has its own response time, in addition to its request's.
        let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
        assert_eq!(log.total("p/take_in.event/response", 0.0, f64::INFINITY).unwrap().len(), 10_002);
        let documents = outcome["operations"][0]["documents"].as_u64().unwrap();
        assert_eq!(documents, 10_002);
    }
}

#[test]
fn ranks_that_share_a_file_count_each_byte_once() {
    let texts = Folder::new();
    let text: String = (0..1_000).map(bid).collect();
    let path = file(&texts, "log.ndjson", &text);
    let mut plan = ingesting(json!({"files": [path]}), json!("exhausted"));
    plan["ranks"] = json!(2);
    let mut bytes = 0;
    for rank in 0..2 {
        plan["rank"] = json!(rank);
        let (outcome, _folder) = run::<Null>(&plan);
        assert_eq!(count(&outcome, "lines"), 500);
        bytes += count(&outcome, "bytes");
    }
    assert_eq!(bytes, text.len() as u64);
}

#[test]
fn undelivered_events_are_left_over() {
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", (0..500).map(bid).collect::<String>());
    let mut plan = ingesting(json!({"files": [path]}), json!({"duration": 0.3}));
    plan["operations"]["take_in"] = json!({"unanswered": 1_000_000});
    plan["drain"] = json!(0.2);
    let (outcome, _folder) = run::<Fussy>(&plan);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (0, 500), "{outcome}");
}

/// Starts a phase with a listening source; returns it and the address.
fn listening<D: Driver>(plan: &Value, folder: &Folder) -> (Running, SocketAddr) {
    let running = begin::<D>(plan, folder);
    let address = running.progress().sources["ads"].address.clone().expect("it listens at once");
    (running, address.parse().unwrap())
}

/// Ends a phase once this many lines have been processed, because a port does not end.
fn settled(running: &Running, lines: u64) -> Value {
    let begun = Instant::now();
    loop {
        let stats = &running.progress().sources["ads"];
        if stats.indexed + stats.dead() == lines {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{lines} lines are waited for: {stats:?}");
        thread::sleep(Duration::from_millis(10));
    }
    running.stop();
    ended(running)
}

fn ended(running: &Running) -> Value {
    assert!(running.wait(Duration::from_secs(60)));
    running.outcome().unwrap()
}

#[test]
fn senders_by_tcp_may_be_many_and_go_away_in_the_middle_of_a_line() {
    let mut plan = ingesting(json!({"listen": {"address": "127.0.0.1:0"}, "batch": 64}), json!("exhausted"));
    plan["threads"] = json!(2);
    let folder = Folder::new();
    let (running, address) = listening::<Null>(&plan, &folder);
    let senders: Vec<_> = (0..8)
        .map(|sender| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for number in 0..1_000 {
                    // Sends a line in two pieces.
                    let line = bid(sender * 1_000 + number);
                    let (one, other) = line.split_at(7);
                    stream.write_all(one.as_bytes()).unwrap();
                    stream.write_all(other.as_bytes()).unwrap();
                }
                stream.write_all(&bid(0).as_bytes()[..20]).unwrap();
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let outcome = settled(&running, 8_008);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "connections")), (8_000, 8), "{outcome}");
    assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"cut off": 8}));
}

#[test]
fn lines_that_no_sender_should_send_are_dead_letters() {
    let letters = Folder::new();
    let source = json!({
        "listen": {"address": "127.0.0.1:0"}, "longest_line": 1000,
        "dead_letters": letters.0.join("letters.ndjson"),
    });
    let folder = Folder::new();
    let (running, address) = listening::<Null>(&ingesting(source, json!("exhausted")), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&vec![b'x'; 10 << 20]).unwrap();
    stream.write_all(b"\n\xff\xfe\x00\x80 junk\n\r\n").unwrap();
    stream.write_all(bid(7).replace('\n', "\r\n").as_bytes()).unwrap();
    drop(stream);
    let outcome = settled(&running, 3);
    adds_up(&outcome);
    assert_eq!(count(&outcome, "indexed"), 1);
    assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"too long": 1, "not a JSON object": 1}));
    let kept = std::fs::read_to_string(letters.0.join("letters.ndjson")).unwrap();
    assert!(kept.len() < 20_000, "{} bytes are kept of a line of 10 MB", kept.len());
}

#[test]
fn senders_wait_while_the_store_is_slow_and_memory_stays_bounded() {
    let source = json!({"listen": {"address": "127.0.0.1:0"}, "batch": 500, "buffer": 100_000});
    let mut plan = ingesting(source, json!("exhausted"));
    plan["operations"]["take_in"] = json!({"ms": 5});
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    for number in 0..50_000 {
        stream.write_all(bid(number).as_bytes()).unwrap();
    }
    drop(stream);
    let outcome = settled(&running, 50_000);
    adds_up(&outcome);
    assert_eq!(count(&outcome, "indexed"), 50_000);
    // One or two reads of 64 KiB may add to the limit.
    assert!(count(&outcome, "most_bytes") < 400_000, "{outcome}");
}

#[test]
fn acknowledgements_never_exceed_the_stored_lines() {
    let source = json!({"listen": {"address": "127.0.0.1:0"}, "batch": 50, "acknowledge": true});
    let mut plan = ingesting(source, json!("exhausted"));
    plan["operations"]["take_in"] = json!({"half_rejected": 3, "unanswered": 1});
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    let heard = BufReader::new(stream.try_clone().unwrap());
    for number in 0..1_000 {
        stream.write_all(bid(number).as_bytes()).unwrap();
    }
    stream.write_all(b"not JSON\n").unwrap();
    let (mut stats, mut before) = (0, 0);
    for line in heard.lines() {
        let said: Value = serde_json::from_str(&line.unwrap()).unwrap();
        stats = said["acknowledged"].as_u64().unwrap();
        assert!(stats > before && stats <= 1_001, "{stats} after {before}");
        before = stats;
        if stats == 1_001 {
            break;
        }
    }
    assert_eq!(stats, 1_001);
    drop(stream);
    let outcome = settled(&running, 1_001);
    adds_up(&outcome);
    assert_eq!(count(&outcome, "indexed"), 1_000);
}

#[test]
fn a_log_is_replayed_in_its_order_though_its_clock_runs_backwards() {
    let texts = Folder::new();
    let line = |id: &str, at: i64| format!("{{\"type\": \"bid\", \"id\": \"{id}\", \"time\": {at}}}\n");
    let text = [line("a", 5_000), line("b", 5_200), line("c", 1_000), line("d", 1_300)].concat();
    let path = file(&texts, "log.ndjson", text);
    let source = json!({"files": [path], "replay": {"time": "/time", "speed": 10.0}});
    let (outcome, _folder) = run::<Null>(&ingesting(source, json!("exhausted")));
    adds_up(&outcome);
    assert_eq!(count(&outcome, "indexed"), 4);
}

#[test]
fn a_generator_gives_the_same_number_of_events_to_any_number_of_threads() {
    let made = json!({"generate": {"generator": "adbids", "rate": 20_000, "documents": 3_000}});
    let mut lines = BTreeSet::new();
    for threads in [1, 3] {
        let mut plan = ingesting(made.clone(), json!("exhausted"));
        plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
        plan["threads"] = json!(threads);
        let (outcome, _folder) = run::<Null>(&plan);
        adds_up(&outcome);
        lines.insert((count(&outcome, "lines"), count(&outcome, "indexed")));
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (lines, indexed) = lines.pop_first().unwrap();
    assert_eq!(lines, indexed);
    assert!(lines > 3_000, "a tenth of the bids is won: {lines}");
}

#[test]
fn a_generator_that_is_not_paced_makes_events_as_fast_as_they_are_taken() {
    // At their rate the events would take most of an hour.
    let made = json!({"generate": {"generator": "adbids", "rate": 1, "documents": 3_000, "paced": false}});
    let mut plan = ingesting(made, json!("exhausted"));
    plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
    plan["sources"]["ads"]["buffer"] = json!(50_000);
    let (outcome, _folder) = run::<Null>(&plan);
    adds_up(&outcome);
    assert!(count(&outcome, "indexed") > 3_000);
    assert_eq!(outcome["sources"]["ads"]["offered"], Value::Null, "no event has a due time");
    assert!(count(&outcome, "most_bytes") < 200_000, "it waits for room: {}", outcome["sources"]["ads"]);
}

#[test]
fn an_idle_port_is_closed_at_the_end_or_on_stop() {
    for stop in [json!({"duration": 0.2}), json!("exhausted")] {
        let plan = ingesting(json!({"listen": {"address": "127.0.0.1:0"}}), stop.clone());
        let folder = Folder::new();
        let (running, address) = listening::<Null>(&plan, &folder);
        let _silent = TcpStream::connect(address).unwrap();
        if stop == "exhausted" {
            running.stop();
        }
        let outcome = ended(&running);
        assert_eq!(count(&outcome, "lines"), 0);
    }
}

#[test]
fn a_port_is_closed_when_nothing_has_come_for_so_long() {
    let source = json!({"listen": {"address": "127.0.0.1:0"}, "idle": 0.2});
    let (outcome, _folder) = run::<Null>(&ingesting(source, json!({"duration": 3600})));
    assert_eq!(count(&outcome, "lines"), 0);
    assert_eq!(outcome["streams"][0]["ran_out"], true, "{outcome}");
}

#[test]
fn each_kind_of_event_goes_to_the_operation_of_its_route() {
    let texts = Folder::new();
    let win = |number: u64| format!("{{\"type\": \"win\", \"bid_id\": \"b{number}\", \"bid_time\": {number}}}\n");
    let lines = (0..3_000).map(|number| if number % 3 == 0 { win(number) } else { bid(number) });
    let path = file(&texts, "log.ndjson", lines.collect::<String>());
    for retries in [0, 2] {
        let mut plan = ingesting(json!({"files": [path], "batch": 100}), json!("exhausted"));
        plan["operations"] = json!({
            "bids": {"half_rejected": 5, "unanswered": 2, "refused": "\"b77\""},
            "wins": {"half_rejected": 7, "unanswered": 1},
        });
        plan["streams"][0]["mix"] = json!([["bids", 1], ["wins", 1]]);
        plan["streams"][0]["retries"] = json!(retries);
        plan["streams"][0]["pacing"]["source"]["routes"] = json!({"bid": "bids", "win": "wins"});
        let (outcome, _folder) = run::<Fussy>(&plan);
        adds_up(&outcome);
        assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (2_999, 0), "{outcome}");
        let documents = |name: &str| {
            let operations = outcome["operations"].as_array().unwrap();
            let operation = operations.iter().find(|operation| operation["operation"] == name).unwrap();
            operation["documents"].as_u64().unwrap()
        };
        assert_eq!((documents("bids"), documents("wins")), (1_999, 1_000), "{outcome}");
        assert_eq!(outcome["sources"]["ads"]["kinds"], json!({"bid": 1_999, "win": 1_000}));
    }
}

#[test]
fn probes_of_each_route_are_found_by_its_own_queries() {
    let generated = json!({"generate": {"generator": "adbids", "rate": 5_000, "documents": 5_000}});
    let mut plan = ingesting(generated, json!("exhausted"));
    plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
    plan["operations"] = json!({"bids": {"take_in": {}}, "results": {"take_in": {}}});
    let visible = json!({"every": 0.001, "within": 60.0, "sample": 0.001});
    plan["visible"] = json!({"bids": visible, "results": visible});
    plan["streams"][0]["mix"] = json!([["bids", 1], ["results", 1]]);
    let routes = json!({"bid": "bids", "win": "results", "click": "results"});
    plan["streams"][0]["pacing"]["source"]["routes"] = routes;
    let (outcome, folder) = run::<Null>(&plan);
    adds_up(&outcome);
    let counts = &outcome["sources"]["ads"]["looked_for"];
    assert_eq!(counts["sampled"], counts["seen"], "{counts}");
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let seen = |name: &str| log.total(&format!("p/{name}.visible/response"), 0.0, f64::INFINITY).map_or(0, |h| h.len());
    assert_eq!(json!(seen("bids") + seen("results")), counts["seen"]);
    assert!(seen("bids") > 0 && seen("results") > 0, "{counts}");
}

#[test]
fn the_queries_of_one_route_do_not_delay_those_of_the_next() {
    let generated = json!({"generate": {"generator": "adbids", "rate": 5_000, "documents": 5_000}});
    let mut plan = ingesting(generated, json!("exhausted"));
    plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
    plan["operations"] = json!({"bids": {"ms": 200}, "results": {"ms": 200}});
    let visible = json!({"every": 0.02, "within": 2.0, "sample": 0.001});
    plan["visible"] = json!({"bids": visible, "results": visible});
    plan["streams"][0]["mix"] = json!([["bids", 1], ["results", 1]]);
    let routes = json!({"bid": "bids", "win": "results", "click": "results"});
    plan["streams"][0]["pacing"]["source"]["routes"] = routes;
    let (_outcome, folder) = run::<Fussy>(&plan);
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let [bids, results] = ["bids", "results"].map(|name| {
        let looks = log.total(&format!("p/{name}.look/response"), 0.0, f64::INFINITY).unwrap();
        assert!(!looks.is_empty());
        looks.value_at_quantile(0.5) as f64
    });
    assert!(results < 1.6 * bids, "the second query has the time of the first: {results} ns, {bids} ns");
}

#[test]
fn queries_after_the_chosen_end_of_the_window_do_not_count_in_it() {
    let generated = json!({"generate": {"generator": "adbids", "rate": 100}});
    let mut plan = ingesting(generated, json!({"duration": 600}));
    plan["visible"] = json!({"take_in": {"every": 0.05, "within": 3.0, "sample": 0.1}});
    plan["adjustable"] = json!(true);
    let folder = Folder::new();
    let running = begin::<Fussy>(&plan, &folder);
    running.adjust(None, Some(2)).unwrap();
    assert!(running.wait(Duration::from_secs(60)));
    let outcome = running.outcome().unwrap();
    assert_eq!(outcome["measured"], 2.0);
    let counts = &outcome["sources"]["ads"]["looked_for"];
    assert_eq!(counts["sampled"], counts["unseen"], "{counts}");
    // No event is found, so the queries go on for three seconds after the end.
    let parts = outcome["parts"].as_array().unwrap();
    let look = parts.iter().find(|part| part["part"] == "look").unwrap();
    assert!(look["completed"].as_u64().unwrap() < look["successes"].as_u64().unwrap(), "{look}");
}

#[test]
fn impossible_sources_are_refused_before_reading() {
    let said = |plan: &Value| {
        let folder = Folder::new();
        let plan = serde_json::from_value(plan.clone()).unwrap();
        start::<Null>(plan, &folder.0).err().expect("it is refused").message
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(said(&ingesting(json!({"listen": {"address": address}}), json!("exhausted"))).contains(&address));
    assert!(said(&ingesting(json!({"files": ["/nowhere/at/all"]}), json!("exhausted"))).contains("/nowhere/at/all"));
    let mut plan = ingesting(json!({"files": ["/nowhere/at/all"]}), json!("exhausted"));
    (plan["ranks"], plan["threads"]) = (json!(2), json!(4));
    assert!(
        said(&plan).contains("3 workers are too few for 2 ranks with 4 threads: give 5, so that every rank has one")
    );
    let mut plan = ingesting(json!({"listen": {"address": "127.0.0.1:0"}}), json!("exhausted"));
    plan["operations"]["take_in"] = json!({"something": "else"});
    assert!(said(&plan).contains("does not ingest events"));
    plan["operations"]["take_in"] = json!({"take_in": {}});
    plan["streams"][0]["pacing"]["source"]["routes"] = json!({"bid": "take_in"});
    assert!(said(&plan).contains("each kind of event"));
    plan["streams"][0]["pacing"]["source"]["routes"] = json!({"bid": "take_in", "win": "other"});
    assert!(said(&plan).contains("not in its mix"));
    plan["streams"][0]["pacing"] = json!({"closed": {"clients": 1}});
    assert!(said(&plan).contains("lacks a source"));
}

#[test]
fn a_generator_without_an_end_is_ended_by_the_clock() {
    let made = json!({"generate": {"generator": "adbids", "rate": 2_000}});
    let mut plan = ingesting(made, json!({"duration": 0.5}));
    plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
    plan["operations"]["take_in"] = json!({"ms": 30});
    for threads in [1, 2] {
        plan["threads"] = json!(threads);
        let (outcome, _folder) = run::<Fussy>(&plan);
        adds_up(&outcome);
        assert_eq!(count(&outcome, "left_over"), 0);
        assert!(count(&outcome, "indexed") > 0);
    }
}
