//! Faults around a stream do not corrupt its counts.

use std::sync::Mutex;

use super::*;

#[test]
fn events_that_come_twice_without_their_bid_or_in_the_wrong_order_of_time_are_counted_each() {
    let folder = Folder::new();
    let source = json!({"listen": {"address": "127.0.0.1:0"}, "batch": 7});
    let (running, address) = listening::<Null>(&ingesting(source, json!("exhausted")), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    for number in (0..500).rev() {
        // The sender's timestamps run backwards, each bid is sent twice, and the wins refer to missing bids.
        stream.write_all(bid(number).repeat(2).as_bytes()).unwrap();
        let win = format!("{{\"type\": \"win\", \"bid_id\": \"w{number}\", \"bid_time\": {number}}}\n");
        stream.write_all(win.as_bytes()).unwrap();
    }
    drop(stream);
    let outcome = settled(&running, 1_500);
    adds_up(&outcome);
    assert_eq!(outcome["sources"]["ads"]["kinds"], json!({"bid": 1000, "win": 500}));
}

#[test]
fn dead_letters_that_cannot_be_written_are_counted_and_the_file_is_named() {
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", format!("junk\n{}more junk\n", bid(1)));
    for letters in ["/nowhere/at/all.ndjson", "/dev/full"] {
        let source = json!({"files": [path], "dead_letters": letters});
        let (outcome, _folder) = run::<Null>(&ingesting(source, json!("exhausted")));
        adds_up(&outcome);
        assert_eq!((count(&outcome, "lines"), count(&outcome, "indexed")), (3, 1));
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"not a JSON object": 2}));
        let trouble = outcome["sources"]["ads"]["trouble"][0].as_str().unwrap();
        assert!(trouble.contains("cannot write dead letters") && trouble.contains(letters), "{trouble}");
    }
}

/// A store with one node, which has left the address in the plan.
struct Moved(Mutex<Vec<String>>);

impl Driver for Moved {
    type Operation = ();
    type Connection = ();

    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self(Mutex::new(target.hosts.clone())))
    }
    fn map(&self, _: &Value, _: &Context) -> Result<(), PlanError> {
        Ok(())
    }
    fn requests(&self, (): &()) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    fn ingests(&self, (): &()) -> bool {
        true
    }
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        *self.0.lock().unwrap() = hosts.to_vec();
        Ok(())
    }
    async fn execute(&self, (): &mut (), (): &(), _: &Context, _: &Draw, _: Option<&[u32]>) -> Reply {
        unreachable!("its operations take in events")
    }
    async fn ingest(&self, (): &mut (), (): &(), _: &Context, batch: &Batch, _: Option<&[u32]>) -> Reply {
        let now = Instant::now();
        if *self.0.lock().unwrap() == ["new:1"] {
            return Reply { bytes_sent: 1, documents: batch.events.len() as u64, ..Reply::new(now, now, Ok(())) };
        }
        Reply::new(now, now, Err(Failure::new(ErrorClass::Connect, "nobody is there")))
    }
    async fn show(&self, (): &mut (), (): &(), _: &Context, _: &Draw) -> (Reply, Exchange) {
        unreachable!("no test shows it")
    }
}

#[test]
fn events_that_waited_for_a_store_go_to_its_new_nodes() {
    let (folder, disk) = (Folder::new(), Folder::new());
    let source = json!({
        "listen": {"address": "127.0.0.1:0"}, "batch": 100, "buffer": 50_000, "spill": 10_000_000,
        "spill_folder": disk.0,
    });
    let mut plan = ingesting(source, json!("exhausted"));
    plan["target"]["hosts"] = json!(["old:1", "old:2"]);
    let (running, address) = listening::<Moved>(&plan, &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all((0..10_000).map(bid).collect::<String>().as_bytes()).unwrap();
    drop(stream);
    let begun = Instant::now();
    while running.progress().sources["ads"].accepted < 10_000 && begun.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(5));
    }
    let stats = running.progress().sources["ads"].clone();
    assert!(stats.indexed == 0 && stats.spilled > 0, "{stats:?}");
    running.set_hosts(&["new:1".into()]).unwrap();
    let outcome = settled(&running, 10_000);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (10_000, 0), "{outcome}");
}

#[test]
fn a_closed_phase_sends_only_accepted_events_and_ends() {
    let folder = Folder::new();
    let mut plan = ingesting(json!({"listen": {"address": "127.0.0.1:0"}, "batch": 50}), json!({"duration": 3600}));
    plan["operations"]["take_in"] = json!({"ms": 20, "unanswered": 5});
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let sender = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // Until the port stops accepting lines.
        (0..).take_while(|number| stream.write_all(bid(*number).as_bytes()).is_ok()).count()
    });
    let begun = Instant::now();
    while running.progress().sources["ads"].accepted < 2_000 && begun.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(5));
    }
    running.close();
    let outcome = ended(&running);
    adds_up(&outcome);
    assert!(count(&outcome, "indexed") >= 2_000 && count(&outcome, "left_over") == 0, "{outcome}");
    assert_eq!(outcome["interrupted"], false, "that is how it should end");
    assert!(outcome["measured"].as_f64().unwrap() < 60.0, "rates are over the time that it lasted: {outcome}");
    sender.join().unwrap();
}

#[test]
fn a_generator_says_how_many_events_were_due_and_how_far_it_came() {
    let offered = |operation: Value, stop: Value, rate: u64| {
        let made = json!({"generate": {"generator": "adbids", "rate": rate, "documents": 2_000}, "buffer": 50_000});
        let mut plan = ingesting(made, stop);
        plan["sources"]["ads"]["events"]["kinds"]["click"] = json!({"id": "/bid_id", "time": "/bid_time"});
        plan["operations"]["take_in"] = operation;
        plan["drain"] = json!(0.1);
        let (outcome, _folder) = run::<Fussy>(&plan);
        let offered = &outcome["sources"]["ads"]["offered"];
        (offered["until"].as_f64().unwrap(), offered["made"].as_f64().unwrap())
    };
    let (until, made) = offered(json!({}), json!({"duration": 0.5}), 1_000);
    assert!((0.5..5.0).contains(&until) && made > 0.9 * until, "{made} of {until}");
    // The store does not answer. The generator waits for room immediately, and never makes the later events.
    let (until, made) = offered(json!({"unanswered": u64::MAX}), json!({"duration": 1.0}), 1_000);
    assert!(until >= 1.0 && made < 0.8 * until, "{made} of {until}");
}
