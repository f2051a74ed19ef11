//! Groups: operations of an open stream that start together.

use super::*;

/// Returns a plan of an open stream that sends two requests of `a` and one of `b` at each arrival.
fn group(rate: f64, max_in_flight: u64, stop: &Value) -> Value {
    plan(json!({
        "name": "s", "mix": [["a", 2], ["b", 1]], "order": "together", "stop": stop,
        "pacing": {"open": {"rate": rate, "arrivals": "poisson", "max_in_flight": max_in_flight}},
    }))
}

/// Returns the due time, ns since the start of the load, and the slot of each recorded request.
fn due(folder: &Folder) -> Vec<(i64, u32)> {
    let bytes = std::fs::read(folder.0.join("samples.bin")).unwrap();
    let sample = |sample: &[u8]| {
        let scheduled = i64::from_le_bytes(sample[..8].try_into().unwrap());
        (scheduled, u32::from_le_bytes(sample[36..40].try_into().unwrap()))
    };
    bytes.chunks_exact(46).map(sample).collect()
}

#[test]
fn requests_of_a_group_are_due_together_on_any_number_of_ranks_and_threads() {
    let mut alone = Vec::new();
    for (ranks, threads) in [(1, 1), (1, 3), (3, 2)] {
        let mut all = Vec::new();
        for rank in 0..ranks {
            let mut plan = group(200.0, 1024, &json!({"requests": 150}));
            (plan["rank"], plan["ranks"], plan["threads"]) = (json!(rank), json!(ranks), json!(threads));
            plan["samples"] = json!(true);
            let (outcome, folder) = run::<Null>(&plan);
            assert_eq!(outcome["streams"][0]["group"], 3);
            all.extend(due(&folder));
        }
        all.sort_unstable();
        assert_eq!(all.len(), 150);
        for members in all.chunks_exact(3) {
            let due = members[0].0;
            assert_eq!(members, [(due, 0), (due, 0), (due, 1)], "two of a and one of b");
        }
        let instants: BTreeSet<i64> = all.iter().map(|(due, _)| *due).collect();
        assert_eq!(instants.len(), 50, "the groups have different due times");
        if alone.is_empty() {
            alone = all;
        } else {
            assert_eq!(all, alone, "{ranks} ranks of {threads} threads");
        }
    }
}

#[test]
fn a_group_that_exceeds_the_maximum_in_flight_is_dropped_as_a_whole() {
    for threads in [1, 2, 4] {
        // Seven clients hold two groups; one client stays idle, and more threads than groups have no clients.
        let mut plan = group(100.0, 7, &json!({"requests": 150}));
        plan["operations"] = json!({"a": {"ms": 300}, "b": {"ms": 300}});
        plan["threads"] = json!(threads);
        let (outcome, _folder) = run::<Slow>(&plan);
        let of = |index: usize, what: &str| outcome["operations"][index][what].as_u64().unwrap();
        let (sent, dropped) = (of(1, "requests"), of(1, "dropped"));
        assert_eq!(sent + dropped, 50, "{threads} threads");
        assert_eq!((of(0, "requests"), of(0, "dropped")), (2 * sent, 2 * dropped), "{threads} threads");
        assert!(sent >= 2 && dropped > 0, "{threads} threads sent {sent} groups");
    }
}

#[test]
fn a_group_that_cannot_be_sent_is_refused() {
    let good = group(10.0, 3, &json!({"requests": 6}));
    let with = |key: &str, value: Value| {
        let mut plan = good.clone();
        plan["streams"][0][key] = value;
        plan
    };
    let closed = json!({"closed": {"clients": 3}});
    let narrow = json!({"open": {"rate": 1, "max_in_flight": 2}});
    for (plan, cause) in [
        (with("pacing", closed), "require a rate"),
        (with("pacing", narrow), "max_in_flight of 2 drops every group of 3 requests: give 3 or more"),
        (with("mix", json!([["a", 0.5]])), "whole numbers"),
        (with("stop", json!({"requests": 7})), "7 requests are not a whole number of groups of 3 requests"),
    ] {
        let folder = Folder::new();
        let error = start::<Null>(serde_json::from_value(plan).unwrap(), &folder.0).err().unwrap();
        assert!(error.to_string().contains(cause), "{error} does not say {cause:?}");
    }
}
