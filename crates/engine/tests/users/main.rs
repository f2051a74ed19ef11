//! Journeys of users: order and times of their requests, and their records.

mod toy;

use serde_json::{Value, json};
use toy::{plan, refused, run, run_on_ranks};

fn ask(operation: &str) -> Value {
    json!({"ask": {"operation": operation}})
}

fn users(users: u64, clients: u64, journeys: u64, steps: Value) -> Value {
    json!({"pacing": {"users": {"users": users, "clients": clients}}, "stop": {"journeys": journeys}, "steps": steps})
}

#[test]
fn loops_and_choices_are_walked_alike_by_any_number_of_threads_and_clients() {
    let steps = json!([
        ask("a"),
        {"repeat": {"times": 3, "steps": [ask("b"), {"repeat": {"times": 2, "steps": [ask("c")]}}]}},
        {"choose": [{"weight": 3, "steps": [ask("d")]}, {"weight": 1, "steps": [ask("e"), ask("e")]}, {"weight": 1}]},
        {"think": {"uniform": [0.0, 0.002]}},
        ask("f"),
    ]);
    let say = json!({"say": "${die} ${round} ${who}"});
    let operations = json!({"a": say, "b": say, "c": say, "d": say, "e": say, "f": say});
    let mut sets = Vec::new();
    for (threads, clients) in [(1, 1), (1, 9), (2, 5), (7, 40), (7, 3)] {
        let mut plan = plan(&operations, users(40, clients, 5, steps.clone()));
        plan["threads"] = json!(threads);
        plan["variables"] = json!({
            "die": {"uniform": [1, 1_000_000]}, "round": {"sequential": {}, "per": "iteration"},
            "who": {"sequential": {"from": 0}, "per": "user"},
        });
        let run = run(&plan);
        let counts = ["a", "b", "c", "f"].map(|name| run.figure(name, "successes"));
        assert_eq!(counts, [200, 600, 1200, 200], "{threads} threads");
        let (d, e) = (run.figure("d", "successes"), run.figure("e", "successes"));
        assert!((90..150).contains(&d) && (20..120).contains(&e) && e % 2 == 0, "{d} and {e}");
        assert_eq!(run.asked.len() as u64, 2200 + d + e, "all sent requests are recorded");
        let rounds: std::collections::BTreeSet<u64> = run.asked.iter().map(|(asked, _)| asked.iteration).collect();
        assert_eq!(rounds, (0..200).collect(), "journeys are numbered without gaps");
        sets.push(run.set());
    }
    let ks: std::collections::BTreeSet<u64> = sets[0].iter().map(|asked| asked.k).collect();
    assert_eq!(ks.len(), sets[0].len(), "no two requests draw the same");
    assert!(sets.iter().all(|set| *set == sets[0]));
}

#[test]
fn steps_are_timed_together_beside_their_requests() {
    let post = json!({"timed": {"name": "post", "steps": [ask("write"), ask("sum")]}});
    let steps = json!([{"repeat": {"times": 3, "steps": [
        {"think": 0.01},
        {"timed": {"name": "whole", "steps": [post, {"think": 0.05}, {"timed": {"name": "look", "steps": [ask("sum")]}}]}},
        {"think": 0.02},
    ]}}]);
    let operations = json!({"write": {"say": "w", "ms": 20}, "sum": {"say": "${who}", "ms": 10, "refuses": "1"}});
    for threads in [1, 3] {
        let mut plan = plan(&operations, users(4, 2, 2, steps.clone()));
        plan["threads"] = json!(threads);
        plan["variables"] = json!({"who": {"sequential": {"from": 0}, "per": "user"}});
        let run = run(&plan);
        let counts = ["write", "sum", "post", "whole", "look"].map(|name| run.figure(name, "requests"));
        assert_eq!(counts, [24, 48, 24, 24, 24]);
        // The groups of user 1 fail because one of their requests does.
        let good = ["write", "sum", "post", "whole", "look"].map(|name| run.figure(name, "successes"));
        assert_eq!(good, [24, 36, 18, 18, 18]);
        let several = run.outcome["operations"].as_array().unwrap().iter().filter(|row| row["of_several"] == true);
        assert_eq!(
            several.map(|row| row["operation"].as_str().unwrap()).collect::<Vec<_>>(),
            ["whole", "post", "look"]
        );
        // A group takes at least its think time and its answer's delay, and at most the run's duration.
        let least = |name: &str| run.response(name).0;
        assert!(least("post") >= 0.03 && least("whole") >= 0.09 && least("look") >= 0.01);
        assert!(run.response("whole").1 <= run.took);
    }
    let deep = json!([{"timed": {"name": "x", "steps": [
        {"timed": {"name": "y", "steps": [{"timed": {"name": "z", "steps": [ask("sum")]}}]}}]}}]);
    let operations = json!({"sum": {"say": ""}});
    assert!(refused(&plan(&operations, users(1, 1, 1, deep))).contains("\"z\" is timed within two other groups"));
    let taken = json!([{"timed": {"name": "sum", "steps": [ask("sum")]}}]);
    assert!(refused(&plan(&operations, users(1, 1, 1, taken))).contains("\"sum\" is also the name of an operation"));
}

#[test]
fn the_time_of_steps_ends_with_the_last_answer() {
    let thinking = |operation: &str, seconds: f64| json!({"ask": {"operation": operation, "think_time": seconds}});
    let steps = json!([
        {"timed": {"name": "both", "steps": [
            thinking("a", 0.05), {"timed": {"name": "last", "steps": [thinking("b", 2.0)]}},
        ]}},
        // No request failed: the group is empty.
        {"timed": {"name": "none", "steps": [{"when": {"test": {"failed": []}, "steps": [ask("a")]}}]}},
    ]);
    let run = run(&plan(&json!({"a": {"say": ""}, "b": {"say": ""}}), users(3, 3, 1, steps)));
    assert_eq!(["a", "b", "both", "last", "none"].map(|name| run.figure(name, "successes")), [3; 5]);
    // The pause between the requests counts, and the think time after the last one does not.
    assert!(run.response("both").0 >= 0.05 && run.response("both").1 < 2.0, "{:?}", run.response("both"));
    assert!(run.response("last").1 < 2.0, "{:?}", run.response("last"));
    assert!(run.response("none").1 < 2.0 && run.took >= 2.0, "{:?}", run.response("none"));
}

#[test]
fn timed_steps_that_a_user_gives_up_after_a_failure_have_failed() {
    let operations = json!({
        "pay": {"say": "${who}", "refuses": "1"}, "done": {"say": ""}, "use": {"say": "${total}"},
        "get": {"say": "", "keep": "total", "as": "5"},
    });
    let with = |steps: Value| {
        let mut plan = plan(&operations, users(4, 2, 2, steps));
        plan["variables"] = json!({"who": {"sequential": {"from": 0}, "per": "user"}, "total": {"captured": {}}});
        run(&plan)
    };
    let leaves = json!({"when": {"test": {"failed": []}, "steps": ["leave"]}});
    let later = json!({"timed": {"name": "later", "steps": [ask("done")]}});
    let run = with(json!([
        {"timed": {"name": "first", "steps": [ask("done")]}},
        {"timed": {"name": "order", "steps": [{"timed": {"name": "payment", "steps": [ask("pay"), leaves]}}, later]}},
    ]));
    let figures = |name: &str| (run.figure(name, "requests"), run.figure(name, "successes"));
    assert_eq!((figures("first"), figures("later")), ((8, 8), (6, 6)));
    assert_eq!((figures("order"), figures("payment")), ((8, 6), (8, 6)), "user 1 leaves both in both journeys");

    // No user has a total: each ends its journeys inside the group.
    let missing = json!({"ask": {"operation": "use", "missing": "leave"}});
    let run = with(json!([{"timed": {"name": "order", "steps": [ask("done"), missing, ask("pay")]}}, ask("get")]));
    let figures = |name: &str| (run.figure(name, "requests"), run.figure(name, "successes"));
    assert_eq!((figures("order"), figures("use"), figures("pay")), ((8, 0), (8, 0), (0, 0)));
}

#[test]
fn a_shared_clock_waits_for_the_slowest_user() {
    let hour = 3_600_000;
    let steps = json!([
        {"repeat": {"times": 4, "steps": [
            ask("post"), "together", ask("read"),
            {"choose": [{"weight": 1, "steps": [{"pause": 3600}]}, {"weight": 1, "steps": [{"pause": 7200}]}]},
        ]}},
    ]);
    let operations = json!({"post": {"say": "${now}"}, "read": {"say": "${now}"}});
    let mut sets = Vec::new();
    for threads in [1, 2, 7] {
        let mut stream = users(21, 14, 2, steps.clone());
        stream["clock"] = json!({"from": "2018-01-01"});
        let mut plan = plan(&operations, stream);
        plan["threads"] = json!(threads);
        plan["variables"] = json!({"now": {"instant": {"format": "epoch_millis"}}});
        let run = run(&plan);
        assert_eq!([run.figure("post", "successes"), run.figure("read", "successes")], [168, 168]);
        // All requests of an earlier simulated time must have been answered before the first one of a later
        // time. All posts of a time must have been sent before the first read.
        let mut log: Vec<_> = run.asked.iter().map(|(asked, sent)| (*sent, asked)).collect();
        log.sort_by_key(|(sent, _)| *sent);
        let order: Vec<(i64, bool)> =
            log.iter().map(|(_, asked)| (asked.text.parse().unwrap(), asked.operation == "read")).collect();
        assert!(order.is_sorted(), "{threads} threads: {order:?}");
        assert_eq!(order[0].0, 1_514_764_800_000);
        assert!(order.iter().all(|(now, _)| (now - order[0].0) % hour == 0));
        sets.push(run.set());
    }
    assert!(sets.iter().all(|set| *set == sets[0]));
}

#[test]
fn users_wait_at_a_meeting_for_the_last_one() {
    // Half of the users think before they arrive, which wakes the dispatcher. Nothing separates the two
    // meetings.
    let late = json!({"think": 0.002});
    let steps = json!([{"repeat": {"times": 6, "steps": [
        ask("post"), {"choose": [{"weight": 1, "steps": [late]}, {"weight": 1, "steps": []}]}, ask("more"),
        "together", "together", ask("read"), {"pause": 3600},
    ]}}]);
    let operations = ["post", "more", "read"].map(|name| (name.to_string(), json!({"say": "${now}"})));
    for threads in [1, 3] {
        let mut stream = users(20, 8, 1, steps.clone());
        stream["clock"] = json!({"from": "2018-01-01"});
        let mut plan = plan(&json!(operations.iter().cloned().collect::<serde_json::Map<_, _>>()), stream);
        plan["threads"] = json!(threads);
        plan["variables"] = json!({"now": {"instant": {"format": "epoch_millis"}}});
        let run = run(&plan);
        assert_eq!(["post", "more", "read"].map(|name| run.figure(name, "successes")), [120; 3]);
        let mut log: Vec<_> = run.asked.iter().map(|(asked, sent)| (*sent, asked)).collect();
        log.sort_by_key(|(sent, _)| *sent);
        let order: Vec<(&str, bool)> =
            log.iter().map(|(_, asked)| (asked.text.as_str(), asked.operation == "read")).collect();
        assert!(order.is_sorted(), "{threads} threads: {order:?}");
    }
}

#[test]
fn a_clock_that_is_shared_over_ranks_waits_for_the_slowest_user_of_all() {
    let steps = json!([{"repeat": {"times": 2, "steps": [ask("post"), "together", ask("read"), {"pause": 3600}]}}]);
    let operations = json!({"post": {"say": "${now}", "ms": 3}, "read": {"say": "${now}"}});
    let mut stream = users(9, 7, 1, steps);
    stream["clock"] = json!({"from": "2018-01-01"});
    let mut plan = plan(&operations, stream);
    plan["variables"] = json!({"now": {"instant": {"format": "epoch_millis"}}});
    let alone = run(&plan).set();
    assert_eq!(alone.len(), 36);
    assert!(
        refused(&json!({"ranks": 2, "rank": 1, "threads": 2}).as_object().unwrap().iter().fold(
            plan.clone(),
            |mut plan, (key, value)| {
                plan[key] = value.clone();
                plan
            }
        ))
        .contains("ranks that communicate")
    );
    plan["threads"] = json!(2);
    let run = run_on_ranks(&plan, 3);
    let mut log: Vec<_> = run.asked.iter().map(|(asked, sent)| (*sent, asked)).collect();
    log.sort_by_key(|(sent, _)| *sent);
    let order: Vec<(i64, bool)> =
        log.iter().map(|(_, asked)| (asked.text.parse().unwrap(), asked.operation == "read")).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(run.set(), alone);
}

#[test]
fn pauses_of_a_clock_with_a_scale_take_their_share_of_real_time() {
    let mut stream = users(3, 2, 1, json!([{"repeat": {"times": 4, "steps": [ask("a"), {"pause": 3600}]}}, ask("a")]));
    stream["clock"] = json!({"from": "2018-01-01T20:00:00", "scale": 36_000.0});
    let mut plan = plan(&json!({"a": {"say": "${now}"}}), stream);
    plan["variables"] = json!({"now": {"instant": {"format": "%d %H"}}});
    let run = run(&plan);
    assert_eq!(run.said(2), ["01 20", "01 21", "01 22", "01 23", "02 00"]);
    assert!(run.took >= 0.4, "four hours at 36,000 times the speed took {} s", run.took);
}

#[test]
fn requests_in_loops_carry_the_loop_counters() {
    let operations = json!({"a": {"say": "${week}/${hour}"}, "b": {"say": "${week} ${next}"}});
    let steps = json!([{"repeat": {"times": 2, "count": "week", "steps": [
        {"repeat": {"times": 3, "count": "hour", "steps": [ask("a")]}}, ask("b"),
    ]}}]);
    let mut plan = plan(&operations, users(5, 2, 2, steps));
    plan["variables"] = json!({
        "week": {"loop": {"from": 1}}, "hour": {"loop": {}}, "next": {"linear": {"of": "week", "plus": 1}},
    });
    let journey = ["1/0", "1/1", "1/2", "1 2", "2/0", "2/1", "2/2", "2 3"];
    assert_eq!(run(&plan).said(4), [journey, journey].concat());
    let mut stream = json!({"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}, "mix": [["a", 1]]});
    stream["name"] = json!("s");
    plan["streams"] = json!([stream]);
    assert!(refused(&plan).contains("counts a loop: it requires users"), "{}", refused(&plan));
}

#[test]
fn conditions_use_the_users_memory_and_simulated_hour() {
    let operations = json!({
        "day": {"say": "day ${now}"}, "night": {"say": "night ${now}"},
        "count": {"say": "count", "keep": "total", "as": "${step}"}, "end": {"say": "end ${total}"},
    });
    let hours = json!({"when": {"test": {"hours": [8, 20]}, "steps": [ask("day")], "otherwise": [ask("night")]}});
    let steps = json!([
        {"repeat": {"times": 4, "steps": [hours, {"pause": 21_600}]}},
        {"repeat": {"times": 100, "count": "step", "until": {"value": {"of": "total", "at_least": 3}}, "steps": [
            ask("count"),
        ]}},
        ask("end"),
    ]);
    let mut stream = users(3, 2, 1, steps);
    stream["clock"] = json!({"from": "2018-01-01T02:00:00"});
    let mut plan = plan(&operations, stream);
    plan["variables"] =
        json!({"now": {"instant": {"format": "%H"}}, "total": {"captured": {}}, "step": {"loop": {"from": 0}}});
    let said = ["night 02", "day 08", "day 14", "night 20", "count", "count", "count", "count", "end 3"];
    assert_eq!(run(&plan).said(2), said);
}

#[test]
fn users_are_the_same_for_any_number_of_ranks() {
    let operations = json!({"a": {"say": "${die} ${round} ${pass}"}, "b": {"say": "${die} ${who} ${now}"}});
    let steps = json!([
        {"repeat": {"times": 3, "count": "pass", "steps": [
            {"ask": {"operation": "a", "think_time": {"exponential": 0.001}}},
            {"choose": [{"weight": 1, "steps": [ask("b")]}, {"weight": 1}]},
            {"pause": 3600},
        ]}},
    ]);
    let mut sets = Vec::new();
    for (ranks, threads) in [(1, 1), (1, 3), (2, 2), (3, 3)] {
        let mut stream = users(31, 12, 2, steps.clone());
        stream["clock"] = json!({"from": "2018-01-01", "scale": 1e9});
        stream["pacing"]["users"]["think_time"] = json!({"uniform": [0.0, 0.002]});
        let mut plan = plan(&operations, stream);
        plan["threads"] = json!(threads);
        plan["ranks"] = json!(ranks);
        plan["variables"] = json!({
            "die": {"uniform": [1, 1_000_000]}, "round": {"sequential": {}, "per": "iteration"},
            "who": {"sequential": {}, "per": "user"}, "pass": {"loop": {}}, "now": {"instant": {"format": "epoch_millis"}},
        });
        // Run the ranks one after the other, without communication.
        let parts = (0..ranks).map(|rank| {
            plan["rank"] = json!(rank);
            run(&plan).set()
        });
        let mut set: Vec<_> = parts.collect::<Vec<_>>().concat();
        set.sort();
        assert_eq!(set.iter().filter(|asked| asked.operation == "a").count(), 31 * 2 * 3, "{ranks} ranks");
        sets.push(set);
    }
    assert!(sets.iter().all(|set| *set == sets[0]));
}

#[test]
fn a_user_who_is_late_by_a_clock_with_a_scale_does_not_wait_and_loses_nothing() {
    // An hour passes in 10 ms, but each request takes 40 ms: the user is late from the first pause on.
    let steps = json!([{"repeat": {"times": 5, "steps": [ask("a"), {"pause": 3600}]}}]);
    let mut stream = users(1, 1, 1, steps);
    stream["clock"] = json!({"from": "2018-01-01", "scale": 360_000.0});
    let mut plan = plan(&json!({"a": {"say": "${now}", "ms": 40}}), stream);
    plan["variables"] = json!({"now": {"instant": {"format": "%H"}}});
    let run = run(&plan);
    assert_eq!(run.said(0), ["00", "01", "02", "03", "04"]);
    let sent: Vec<_> = run.asked.iter().map(|(_, sent)| *sent).collect();
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= std::time::Duration::from_millis(40)));
}

#[test]
fn memory_belongs_to_the_user_and_not_to_its_client() {
    let operations = json!({
        "login": {"say": "login", "keep": "token", "as": "token-${who}"}, "use": {"say": "${token}"},
    });
    let steps = json!([ask("login"), {"think": 0.001}, ask("use"), ask("use")]);
    let mut plan = plan(&operations, users(50, 2, 2, steps));
    plan["threads"] = json!(2);
    plan["variables"] = json!({"token": {"captured": {}}, "who": {"sequential": {}, "per": "user"}});
    let run = run(&plan);
    for user in 0..50 {
        let token = format!("token-{user}");
        assert_eq!(run.said(user), ["login", &token, &token, "login", &token, &token]);
    }
    let clients: std::collections::BTreeSet<u64> = run.asked.iter().map(|(asked, _)| asked.client).collect();
    assert_eq!(clients.len(), 2);
}

#[test]
fn a_step_handles_missing_values_and_conditions_see_them() {
    let operations = json!({
        "login": {"say": "login", "keep": "total", "as": "${who}"},
        "use": {"say": "total ${total}"}, "high": {"say": "high"}, "low": {"say": "low"},
    });
    let variables = json!({"total": {"captured": {}}, "who": {"sequential": {}, "per": "user"}});
    let with = |steps: Value| {
        let mut plan = plan(&operations, users(10, 3, 1, steps));
        plan["variables"] = variables.clone();
        run(&plan)
    };
    let use_it = |missing: &str| json!({"ask": {"operation": "use", "missing": missing}});
    let failed = with(json!([use_it("fail"), ask("low")]));
    assert_eq!((failed.figure("use", "requests"), failed.figure("use", "successes")), (10, 0));
    assert_eq!(failed.figure("low", "successes"), 10);
    let skipped = with(json!([use_it("skip"), ask("low")]));
    assert_eq!((skipped.figure("use", "requests"), skipped.figure("low", "successes")), (0, 10));
    let left = with(json!([use_it("leave"), ask("low")]));
    assert_eq!((left.figure("use", "requests"), left.figure("low", "requests")), (10, 0));
    let asked = with(json!([
        {"when": {"test": {"known": "total"}, "otherwise": [ask("login")]}},
        use_it("fail"),
        {"when": {"test": {"value": {"of": "total", "at_least": 7}}, "steps": [ask("high")], "otherwise": [ask("low")]}},
    ]));
    assert_eq!(asked.said(6), ["login", "total 6", "low"]);
    assert_eq!(asked.said(7), ["login", "total 7", "high"]);
    assert_eq!(asked.figure("high", "successes"), 3);
}

#[test]
fn a_token_that_was_refused_is_renewed() {
    let operations = json!({
        "login": {"say": "login", "keep": "token", "as": "old"}, "renew": {"say": "renew", "keep": "token", "as": "new"},
        "use": {"say": "${token}", "refuses": "old"},
    });
    let steps = json!([
        ask("login"), ask("use"),
        {"when": {"test": {"failed": ["client"]}, "steps": [ask("renew"), ask("use")]}},
        {"when": {"test": {"failed": []}, "steps": [ask("login")]}},
    ]);
    let mut plan = plan(&operations, users(4, 4, 1, steps));
    plan["variables"] = json!({"token": {"captured": {}}});
    let run = run(&plan);
    assert_eq!(run.said(3), ["login", "old", "renew", "new"]);
    assert_eq!((run.figure("use", "requests"), run.figure("use", "successes")), (8, 4));
}

#[test]
fn waiting_for_a_client_counts_in_the_response_time_to_the_end() {
    let operations = json!({"a": {"say": "", "ms": 50}});
    let mut stream = users(10, 1, 1, json!([ask("a")]));
    let run_all = run(&plan(&operations, stream.clone()));
    let row = &run_all.outcome["operations"][0];
    assert_eq!(row["successes"], 10);
    assert!(run_all.took >= 0.5, "one client, ten users, 50 ms each");
    // All requests are unanswered at the end: one waits for the store, and the others for the only client.
    stream["stop"] = json!({"duration": 0.12});
    let mut cut = plan(&json!({"a": {"say": "", "ms": 60_000}}), stream);
    cut["drain"] = json!(0.1);
    let run = run(&cut);
    assert_eq!((run.figure("a", "requests"), run.figure("a", "in_flight_at_end")), (0, 10));
}

#[test]
fn users_begin_one_after_the_other_and_think_between_journeys() {
    let mut stream = users(8, 8, 3, json!([ask("a")]));
    stream["pacing"]["users"]["over"] = json!(0.4);
    stream["pacing"]["users"]["think_time"] = json!(0.1);
    let run = run(&plan(&json!({"a": {"say": ""}}), stream));
    assert_eq!(run.figure("a", "successes"), 24);
    // Users start on schedule at the earliest, and think between journeys.
    for (user, journey) in (0..8).flat_map(|user| (0..3).map(move |journey| (user, journey))) {
        let sent = run.asked.iter().filter(|(asked, _)| asked.user == user).nth(journey).unwrap().1;
        let least = 0.05 * user as f64 + 0.1 * journey as f64;
        assert!((sent - run.began).as_secs_f64() >= least, "journey {journey} of user {user}");
    }
    assert!(run.took > 0.55, "the last begins after 0.35 s and thinks twice: {}", run.took);
}

#[test]
fn a_journey_that_cannot_be_walked_is_refused() {
    let operations = json!({"a": {"say": "${count}"}, "b": {"say": ""}, "p": {"say": "${pass}"}});
    let with = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan(&operations, users(1, 1, 1, json!([ask("b")])));
        plan["variables"] = json!({"count": {"sequential": {}}, "total": {"captured": {}}, "pass": {"loop": {}}});
        change(&mut plan["streams"][0]);
        refused(&plan)
    };
    let steps = |steps: Value| with(&|stream| stream["steps"] = steps.clone());
    for (error, cause) in [
        (steps(json!([{"think": 1}])), "sends no request"),
        (steps(json!([])), "exactly one of mix, journey and steps"),
        (steps(json!([ask("c")])), "unknown operation \"c\""),
        (steps(json!([ask("a")])), "\"count\" counts the requests"),
        (steps(json!([ask("b"), {"pause": 5}])), "requires a simulated clock"),
        (steps(json!([ask("b"), "together"])), "requires a shared clock"),
        (steps(json!([{"repeat": {"times": 0, "steps": [ask("b")]}}])), "0 times"),
        (steps(json!([{"repeat": {"steps": [ask("b")]}}])), "missing field `times`"),
        (steps(json!([{"repeat": {"times": 2, "count": "total", "steps": [ask("b")]}}])), "\"total\" counts no loop"),
        (
            steps(json!([{"repeat": {"times": 2, "count": "pass", "steps": [ask("b")]}}, ask("p")])),
            "does not stand in one",
        ),
        (
            steps(json!([{"repeat": {"times": 2, "count": "pass", "steps": [
            {"repeat": {"times": 2, "count": "pass", "steps": [ask("p")]}}]}}])),
            "the same variable",
        ),
        (steps(json!([{"choose": [{"weight": 0, "steps": [ask("b")]}]}])), "weights above 0"),
        (steps(json!([ask("b"), {"when": {"test": {"known": "count"}}}])), "is not captured"),
        (steps(json!([ask("b"), {"when": {"test": {"failed": ["clent"]}}}])), "\"client\""),
        (with(&|stream| stream["clock"] = json!({"from": "2018-01-01"})), "never advances the simulated clock"),
        (with(&|stream| stream["stop"] = json!({"requests": 10})), "vary in their number of requests"),
        (with(&|stream| stream["stop"] = json!({"journeys": 0})), "0 journeys"),
        (with(&|stream| stream["pacing"] = json!({"users": {"users": 0, "clients": 1}})), "0 users"),
        (with(&|stream| stream["pacing"] = json!({"closed": {"clients": 1}})), "journeys requires users"),
    ] {
        assert!(error.contains(cause), "{error:?} does not say {cause:?}");
    }
}

#[test]
fn a_hundred_thousand_users_take_little_memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let steps = json!([{"ask": {"operation": "a", "think_time": {"exponential": 0.3}}}]);
    let mut stream = users(100_000, 16, 1, steps);
    stream["pacing"]["users"]["over"] = json!(0.5);
    let before = resident();
    let run = run(&plan(&json!({"a": {"quiet": true}}), stream));
    // Measure the current size, not the peak: the process mostly keeps freed memory.
    let per_user = resident().saturating_sub(before) / 100_000;
    assert_eq!(run.figure("a", "successes"), 100_000);
    assert!(size_of::<loadframe_engine::workload::journey::user::User>() <= 120);
    assert!(per_user < 1000, "{per_user} bytes a user");
}

#[test]
fn writes_are_polled_for_until_visible_or_the_time_limit() {
    let operations = json!({
        "write": {"say": "${n}", "refuses": "3"}, "seen": {"say": "${n}", "blind": 2}, "never": {"say": "${n}", "blind": 999},
    });
    let fixed = json!({
        "pacing": {"closed": {"clients": 2}}, "stop": {"requests": 15},
        "journey": [{"operation": "write"}, {"operation": "seen"}, {"operation": "never"}],
    });
    let ways = users(2, 2, 5, json!([ask("write"), ask("seen"), ask("never")]));
    for (stream, first) in [(fixed, 5), (ways, 10)] {
        let mut plan = plan(&operations, stream);
        plan["variables"] = json!({"n": {"sequential": {}, "per": "iteration"}});
        plan["visible"] = json!({
            "seen": {"every": 0.001, "within": 100}, "never": {"every": 0.01, "within": 0.05},
        });
        let run = run(&plan);
        assert_eq!((run.figure("write", "requests"), run.figure("write", "successes")), (first, first - 1));
        // Failed writes are not polled for. The third poll succeeds and is the answer.
        let written = first - 1;
        assert_eq!((run.figure("seen", "requests"), run.figure("seen", "successes")), (written, written));
        assert_eq!(run.figure("seen", "retries"), 2 * written);
        assert_eq!((run.figure("never", "requests"), run.figure("never", "successes")), (written, 0));
        let rows = run.outcome["operations"].as_array().unwrap();
        let errors = |name: &str| rows.iter().find(|row| row["operation"] == name).unwrap()["errors"].clone();
        assert_eq!(errors("seen"), json!([]));
        let given_up = errors("never");
        for error in given_up.as_array().unwrap() {
            assert_eq!(error["class"], "unseen");
            assert!(error["message"].as_str().unwrap().starts_with("not visible after 0.05 s and "), "{error}");
        }
        assert_ne!(given_up, json!([]));
        let sent = run.asked.iter().filter(|(asked, _)| asked.operation != "write").count() as u64;
        assert_eq!(sent, 2 * written + run.figure("seen", "retries") + run.figure("never", "retries"));
    }
}

#[test]
fn records_that_a_stream_did_not_insert_before_its_end_are_not_read_after_it() {
    let operations = json!({"write": {"say": "${new}", "ms": 5}, "read": {"say": "${old}", "ms": 1}});
    let mut plan = plan(&operations, json!({}));
    let stream = |name: &str, clients: u64, seconds: f64| {
        json!({
            "name": name, "mix": [[name, 1]], "pacing": {"closed": {"clients": clients}}, "stop": {"duration": seconds},
        })
    };
    // One thread has two of the three clients, and takes twice as many numbers as the other.
    plan["streams"] = json!([stream("write", 3, 0.5), stream("read", 1, 1.0)]);
    plan["threads"] = json!(2);
    plan["variables"] = json!({"new": {"counter": {"from": 1}}, "old": {"latest": {"items": 1, "inserted": "new"}}});
    let run = run(&plan);
    let said = |operation: &str| {
        let asked = run.asked.iter().filter(|(asked, _)| asked.operation == operation);
        asked.map(|(asked, _)| asked.text.as_str()).collect::<std::collections::BTreeSet<&str>>()
    };
    let (inserted, read) = (said("write"), said("read"));
    assert!(inserted.len() > 20 && read.len() > 5, "{} inserted, {} read", inserted.len(), read.len());
    let missing: Vec<_> = read.iter().filter(|number| **number != "0" && !inserted.contains(*number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_step_after_a_skipped_check_is_due_after_the_check() {
    let operations = json!({
        "write": {"say": "${n}", "refuses": "0"}, "seen": {"say": "${n}"}, "after": {"say": "${n}"},
    });
    let stream = json!({
        "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 3},
        "journey": [{"operation": "write", "think_time": 2.0}, {"operation": "seen"}, {"operation": "after"}],
    });
    let mut plan = plan(&operations, stream);
    plan["variables"] = json!({"n": {"sequential": {}, "per": "iteration"}});
    plan["visible"] = json!({"seen": {"every": 0.001, "within": 100}});
    let run = run(&plan);
    assert_eq!(["write", "seen", "after"].map(|name| run.figure(name, "requests")), [1, 0, 1]);
    // The pause before the check is not part of the response time of the step after it.
    assert!(run.took >= 2.0 && run.response("after").1 < 2.0, "{:?}", run.response("after"));
}

#[test]
fn journeys_of_users_start_at_the_pacing() {
    let stream = |journeys: u64| {
        json!({
            "pacing": {"users": {"users": 6, "clients": 3, "pacing": 0.4, "over": 0.3}}, "stop": {"journeys": journeys},
            "steps": [ask("a"), {"think": {"uniform": [0.0, 0.1]}}, ask("b")],
        })
    };
    let operations = json!({"a": {"say": "", "ms": 5}, "b": {"say": "", "ms": 5}});
    for threads in [1, 2] {
        let mut plan = plan(&operations, stream(4));
        plan["threads"] = json!(threads);
        let run = run(&plan);
        assert_eq!(run.figure("a", "successes"), 24);
        for user in 0..6 {
            let starts = run.asked.iter().filter(|(asked, _)| asked.user == user && asked.operation == "a");
            let mut starts: Vec<_> = starts.map(|(_, sent)| *sent).collect();
            starts.sort();
            // Late sending never accumulates: the schedule is that of the first start.
            let took = (*starts.last().unwrap() - starts[0]).as_secs_f64();
            assert!(took > 1.0, "user {user}: {took} s");
        }
        // A journey takes 0.1 s; a busy machine can stop a few for longer than the pacing.
        let overruns = run.outcome["streams"][0]["overruns"].as_u64().unwrap();
        assert!(overruns < 12, "{}", run.outcome["streams"]);
        assert!(run.took >= 1.2);
    }
    let mut slow = operations;
    slow["b"]["ms"] = json!(600);
    let run = run(&plan(&slow, stream(2)));
    let stream = &run.outcome["streams"][0];
    assert_eq!((&stream["iterations"], &stream["overruns"]), (&json!(12), &json!(12)));
}
