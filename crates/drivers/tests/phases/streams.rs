//! Streams with their own ends, and phases that end with one of their streams.

use super::*;

fn two(leader: Value, follower: Value) -> Value {
    let mut plan = plan(json!({"name": "leader", "mix": [["a", 1]]}));
    plan["streams"] = json!([{"name": "leader", "mix": [["a", 1]]}, {"name": "follower", "mix": [["b", 1]]}]);
    for (stream, said) in plan["streams"].as_array_mut().unwrap().iter_mut().zip([leader, follower]) {
        for (key, value) in said.as_object().unwrap() {
            stream[key] = value.clone();
        }
    }
    plan["ends_with"] = json!(["leader"]);
    plan
}

fn of<'a>(outcome: &'a Value, list: &str, name: &str, stream: &str) -> &'a Value {
    outcome[list].as_array().unwrap().iter().find(|entry| entry[name] == stream).unwrap()
}

#[test]
fn streams_continue_until_the_ending_stream_has_sent_its_last_request() {
    for threads in [1, 3] {
        for pacing in [json!({"closed": {"clients": 2}}), json!({"open": {"rate": 200}})] {
            // 10 requests of 50 ms by one client take half a second.
            let leader = json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 10}});
            let mut plan = two(leader, json!({"pacing": pacing, "stop": "ended"}));
            plan["operations"] = json!({"a": {"ms": 50}, "b": {"ms": 5}});
            plan["threads"] = json!(threads);
            let (outcome, _folder) = run::<Slow>(&plan);
            assert_eq!(of(&outcome, "operations", "stream", "leader")["successes"], 10);
            let measured = |stream: &str| of(&outcome, "streams", "name", stream)["measured"].as_f64().unwrap();
            assert!((0.5..1.5).contains(&measured("leader")), "{outcome}");
            let apart = measured("follower") - measured("leader");
            assert!((0.0..0.1).contains(&apart), "the follower is measured {apart} s longer");
            let requests = of(&outcome, "operations", "stream", "follower")["requests"].as_u64().unwrap();
            assert!(requests >= 40, "{requests} requests of the follower on {threads} threads");
            let last = outcome["last_done"].as_f64().unwrap();
            assert!(last < measured("leader") + 0.1, "nothing is sent behind the end: {last}");
        }
    }
}

#[test]
fn who_sleeps_when_the_phase_ends_is_woken_and_who_waits_is_waited_for() {
    let leader = json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 2}});
    let follower = json!({"pacing": {"closed": {"clients": 1, "think_time": 30}}, "stop": "ended"});
    let begun = Instant::now();
    let mut plan = two(leader, follower);
    plan["operations"] = json!({"a": {"ms": 20}, "b": {"ms": 300}});
    let (outcome, _folder) = run::<Slow>(&plan);
    assert!(begun.elapsed() < Duration::from_secs(10), "it slept for {:?}", begun.elapsed());
    let follower = of(&outcome, "operations", "stream", "follower");
    assert_eq!((&follower["requests"], &follower["in_flight_at_end"]), (&json!(1), &json!(0)));
    // Its answer came after the end of the window, so it does not count in the throughput.
    assert_eq!(follower["completed"], 0);
}

#[test]
fn the_clock_of_the_stream_that_ends_the_phase_is_that_of_all() {
    let leader = json!({"pacing": {"open": {"rate": 20}}, "stop": {"duration": 0.3}});
    let follower = json!({"pacing": {"closed": {"clients": 1}}, "stop": "ended"});
    let (outcome, _folder) = run::<Null>(&two(leader, follower));
    for stream in ["leader", "follower"] {
        assert_eq!(of(&outcome, "streams", "name", stream)["measured"], 0.3);
    }
}

#[test]
fn the_first_stream_to_end_ends_the_phase_if_any_may() {
    let few = json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 3}});
    let many = json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1_000_000_000_u64}});
    let mut plan = two(many, few);
    plan["ends_with"] = json!(["leader", "follower"]);
    let (outcome, _folder) = run::<Slow>(&plan);
    assert_eq!(of(&outcome, "operations", "stream", "follower")["successes"], 3);
}

#[test]
fn streams_with_ends_of_their_own_end_when_they_say() {
    let mut plan = two(
        json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 5}}),
        json!({"pacing": {"open": {"rate": 100}}, "stop": {"duration": 0.4}}),
    );
    plan["ends_with"] = json!([]);
    let (outcome, _folder) = run::<Null>(&plan);
    assert_eq!(of(&outcome, "operations", "stream", "leader")["successes"], 5);
    assert_eq!(of(&outcome, "operations", "stream", "follower")["requests"], 40);
    assert_eq!(of(&outcome, "streams", "name", "follower")["measured"], 0.4);
}

#[test]
fn a_phase_that_no_stream_ends_is_refused() {
    let folder = Folder::new();
    let refused = |plan: &Value| {
        start::<Null>(serde_json::from_value(plan.clone()).unwrap(), &folder.0).err().unwrap().to_string()
    };
    let closed = json!({"closed": {"clients": 1}});
    let ended = json!({"pacing": closed, "stop": "ended"});
    let some = json!({"pacing": closed, "stop": {"requests": 1}});
    let mut plan = two(some.clone(), ended.clone());
    plan["ends_with"] = json!(["leadr"]);
    assert!(refused(&plan).contains("unknown stream \"leadr\""));
    plan["ends_with"] = json!([]);
    assert!(refused(&plan).contains("no stream ends the phase"));
    assert!(refused(&two(ended.clone(), some.clone())).contains("which ends with the phase"));
    let mut plan = two(some, ended);
    plan["ranks"] = json!(2);
    assert!(refused(&plan).contains("its 1 clients are too few for 2 generators"));
}
