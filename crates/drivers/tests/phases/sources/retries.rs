//! Batches that the store does not take now: they wait by themselves, and hold up nobody else.

use super::*;

/// Waits until a source satisfies a condition.
fn until(running: &Running, what: &str, is_so: impl Fn(&loadframe_engine::source::Told) -> bool) {
    let begun = Instant::now();
    loop {
        let told = &running.progress().sources["ads"];
        if is_so(told) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {told:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A phase that listens, whose requests carry few events.
fn small_batches(operation: Value) -> Value {
    let mut plan = taking_in(json!({"listen": {"address": "127.0.0.1:0"}, "batch": 10}), json!("exhausted"));
    plan["operations"]["take_in"] = operation;
    plan["drain"] = json!(0.2);
    plan
}

#[test]
fn a_batch_that_cannot_be_placed_leaves_the_clients_to_fresh_events() {
    let folder = Folder::new();
    let (running, address) = listening::<Fussy>(&small_batches(json!({"rejected": "stuck"})), &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bid(1).replace("b1", "stuck").as_bytes()).unwrap();
    until(&running, "the first line", |told| told.accepted == 1);
    // These are 200 requests: too many for clients that pause after each failure of the stuck batch.
    for number in 0..2_000 {
        stream.write_all(bid(number).as_bytes()).unwrap();
    }
    until(&running, "fresh events", |told| told.indexed == 2_000);
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
    until(&running, "the batch that hangs", |told| told.accepted == 1 && told.waiting == 0);
    // Each of the three clients has its turn to be woken.
    for number in 1..=8 {
        stream.write_all(bid(number).as_bytes()).unwrap();
        until(&running, "a lone event", |told| told.indexed == number);
    }
    std::fs::remove_file(hold).unwrap();
    until(&running, "the batch that hung", |told| told.indexed == 9);
    drop(stream);
    running.stop();
    adds_up(&ended(&running));
}
