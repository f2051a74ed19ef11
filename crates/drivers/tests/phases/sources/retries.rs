//! Rejected batches wait for their retry without delaying others.

use super::*;

/// Waits until a source satisfies a condition.
fn until(running: &Running, what: &str, is_so: impl Fn(&loadframe_engine::ingest::SourceStats) -> bool) {
    let begun = Instant::now();
    loop {
        let stats = &running.progress().sources["ads"];
        if is_so(stats) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {stats:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Plans a listening phase with few events per request.
fn small_batches(operation: Value) -> Value {
    let mut plan = ingesting(json!({"listen": {"address": "127.0.0.1:0"}, "batch": 10}), json!("exhausted"));
    plan["operations"]["take_in"] = operation;
    plan["drain"] = json!(0.2);
    plan
}

#[test]
fn retryable_events_are_resent_and_refused_ones_become_dead_letters() {
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", (0..5_000).map(bid).collect::<String>());
    for (retries, uncounted) in [(0, 0), (2, 0), (0, 60), (2, 60)] {
        let mut plan = ingesting(json!({"files": [path], "batch": 100}), json!("exhausted"));
        plan["operations"]["take_in"] =
            json!({"half_rejected": 5, "unanswered": 2, "uncounted": uncounted, "refused": "\"b77\""});
        plan["streams"][0]["retries"] = json!(retries);
        let (outcome, _folder) = run::<Fussy>(&plan);
        adds_up(&outcome);
        assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (4_999, 0), "{outcome}");
        assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({"refused": 1}));
    }
}

/// The back-off starts again if any attempt of a request stored an event.
#[test]
fn a_batch_of_which_each_request_stores_some_events_does_not_wait_longer_and_longer() {
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", (0..64).map(bid).collect::<String>());
    let mut plan = ingesting(json!({"files": [path], "batch": 64}), json!("exhausted"));
    plan["operations"]["take_in"] = json!({"tires": true});
    plan["streams"][0]["retries"] = json!(1);
    let (outcome, _folder) = run::<Fussy>(&plan);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (64, 0), "{outcome}");
    // Six waits of 0.1 s; waits that double take 5.1 s.
    assert!(outcome["last_done"].as_f64().unwrap() < 4.5, "{outcome}");
}

#[test]
fn a_batch_that_cannot_be_placed_leaves_the_clients_to_fresh_events() {
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&small_batches(json!({"rejected": "stuck"})), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bid(1).replace("b1", "stuck").as_bytes()).unwrap();
    until(&running, "the first line", |stats| stats.accepted == 1);
    // These are 200 requests: too many for clients that pause after each failure of the stuck batch.
    for number in 0..2_000 {
        stream.write_all(bid(number).as_bytes()).unwrap();
    }
    until(&running, "fresh events", |stats| stats.indexed == 2_000);
    drop(stream);
    running.stop();
    let outcome = ended(&running);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (2_000, 1), "{outcome}");
}

#[test]
fn a_lone_event_is_sent_while_another_batch_hangs() {
    let (folder, holds) = (Folder::new(), Folder::new());
    let hold = file(&holds, "hold", "");
    let plan = small_batches(json!({"hold": hold}));
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bid(0).replace("b0", "hang").as_bytes()).unwrap();
    until(&running, "the batch that hangs", |stats| stats.accepted == 1 && stats.waiting == 0);
    // Each of the three clients is woken at least once.
    for number in 1..=8 {
        stream.write_all(bid(number).as_bytes()).unwrap();
        until(&running, "a lone event", |stats| stats.indexed == number);
    }
    std::fs::remove_file(hold).unwrap();
    until(&running, "the batch that hung", |stats| stats.indexed == 9);
    drop(stream);
    running.stop();
    adds_up(&ended(&running));
}

#[test]
fn refused_access_loses_no_events() {
    let texts = Folder::new();
    let path = file(&texts, "log.ndjson", (0..500).map(bid).collect::<String>());
    let mut plan = ingesting(json!({"files": [path], "batch": 10}), json!("exhausted"));
    plan["operations"]["take_in"] = json!({"denied": 7});
    let (outcome, _folder) = run::<Fussy>(&plan);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (500, 0), "{outcome}");
    assert_eq!(outcome["sources"]["ads"]["dead_letters"], json!({}));
}

#[test]
fn a_refused_event_is_acknowledged_once_its_whole_line_is_kept() {
    let letters = Folder::new();
    let line = bid(1).replace("\"b1\"", &format!("\"{}\"", "x".repeat(6_000)));
    let named = |path: PathBuf| {
        let source = json!({"listen": {"address": "127.0.0.1:0"}, "acknowledge": true, "dead_letters": path});
        let mut plan = ingesting(source, json!("exhausted"));
        plan["operations"]["take_in"] = json!({"refused": "xxx"});
        plan["drain"] = json!(0.2);
        plan
    };
    let path = letters.0.join("letters.ndjson");
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&named(path.clone()), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut heard = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut heard).unwrap();
    assert_eq!(heard, "{\"acknowledged\": 1}\n");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(kept["line"], line.trim_end());
    drop(stream);
    adds_up(&settled(&running, 1));

    // If the dead letter cannot be written, the line is left over and not acknowledged.
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&named(letters.0.join("nowhere").join("letters.ndjson")), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    stream.write_all(b"not JSON\n").unwrap();
    until(&running, "the failed writing", |stats| !stats.trouble.is_empty());
    running.stop();
    let outcome = ended(&running);
    adds_up(&outcome);
    assert_eq!(count(&outcome, "left_over"), 1, "{outcome}");
    let mut heard = String::new();
    BufReader::new(stream).read_line(&mut heard).unwrap();
    assert_eq!(heard, "");
}
