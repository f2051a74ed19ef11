//! Records of slow, failed, retried and unfinished requests.

use std::collections::BTreeMap;

use super::*;

/// Returns the rows of a phase's series, by column.
pub fn rows(folder: &Folder) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder.0.join("series.csv")).unwrap();
    let names: Vec<String> = text.lines().next().unwrap().split(',').map(str::to_owned).collect();
    series(folder).into_iter().map(|row| names.iter().cloned().zip(row).collect()).collect()
}

#[test]
fn a_bound_on_requests_in_flight_is_the_same_for_any_number_of_threads() {
    for (most, threads) in [(5, 1), (5, 2), (5, 3), (2, 3), (1, 4)] {
        let mut plan = plan(json!({
            "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 200, "max_in_flight": most}},
            "stop": {"duration": 0.3},
        }));
        plan["operations"]["a"] = json!({"ms": 60_000});
        plan["drain"] = json!(0.1);
        plan["threads"] = json!(threads);
        let (outcome, _folder) = run::<Slow>(&plan);
        let operation = &outcome["operations"][0];
        assert_eq!(operation["in_flight_at_end"], most, "with {threads} threads");
        assert_eq!(operation["dropped"], 60 - most, "with {threads} threads");
    }
}

#[test]
fn idle_seconds_report_unanswered_requests() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 10}}, "stop": {"duration": 1.0},
    }));
    plan["operations"]["a"] = json!({"ms": 60_000});
    plan["threads"] = json!(2);
    plan["drain"] = json!(1.3);
    let (outcome, folder) = run::<Slow>(&plan);
    assert_eq!(outcome["operations"][0]["in_flight_at_end"], 10);
    let rows = rows(&folder);
    let of = |column: &str| -> Vec<f64> { rows.iter().map(|row| row[column].parse().unwrap()).collect() };
    assert_eq!(of("second"), [0.0, 1.0, 2.0], "the drain's last part of a second, too");
    assert_eq!(of("requests"), [0.0; 3]);
    assert_eq!(of("unanswered"), [10.0; 3], "the sum of both threads");
    let oldest = of("oldest_unanswered");
    // Request 0 was due at the start of the phase.
    assert_eq!(oldest[..2], [1.0, 2.0]);
    assert!((2.2..3.5).contains(&oldest[2]), "{oldest:?}");
}

#[test]
fn a_phase_in_which_nothing_is_answered_is_stopped_by_a_bound_on_its_response_times() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"duration": 20.0},
    }));
    plan["operations"]["a"] = json!({"ms": 60_000});
    plan["stop_when"] = json!([{"metric": "response_p99", "above": 0.5}]);
    let (outcome, _folder) = run::<Slow>(&plan);
    assert_eq!(outcome["stopped_by"]["metric"], "response_p99");
    assert!(outcome["measured"].as_f64().unwrap() < 10.0);
}

#[test]
fn failures_have_response_times_of_their_own() {
    let (outcome, folder) = run::<Moody>(&plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 30},
    })));
    assert_eq!(outcome["operations"][0]["successes"], 10);
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let total = |tag: &str| log.total(tag, 0.0, f64::INFINITY).unwrap();
    let (failure, response) = (total("p/a/failure"), total("p/a/response"));
    assert_eq!((failure.len(), response.len()), (20, 10));
    assert!(failure.min() >= 5_000_000, "each took 5 ms: {} ns", failure.min());
    let row = &rows(&folder)[0];
    assert!(row["failure_p50"].parse::<f64>().unwrap() >= 0.005);
}

#[test]
fn each_attempt_leaves_its_words_and_its_host() {
    let (outcome, folder) = run::<Moody>(&plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 10}, "retries": 2,
    })));
    let operation = &outcome["operations"][0];
    assert_eq!((&operation["successes"], &operation["retries"]), (&json!(10), &json!(20)));
    let busy =
        |count: u64| json!({"class": "rejected", "status": null, "message": "busy", "count": count, "measured": true});
    assert_eq!(operation["errors"], json!([busy(0)]), "no request failed in the end");
    let nodes = std::fs::read_to_string(folder.0.join("nodes.csv")).unwrap();
    let served: u64 = nodes.lines().skip(1).map(|row| row.split(',').nth(3).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(served, 30, "every attempt");

    let (outcome, _folder) = run::<Moody>(&plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 30},
    })));
    assert_eq!(outcome["operations"][0]["errors"], json!([busy(20)]), "each failed request counts");
}

/// A driver with a configurable latency and a limited number of requests.
struct Ending(Slow);

impl Driver for Ending {
    type Operation = (Duration, Option<u64>);
    type Connection = ();

    fn new(target: &Target) -> Result<Self, PlanError> {
        Slow::new(target).map(Self)
    }
    fn map(&self, form: &Value, context: &Context) -> Result<Self::Operation, PlanError> {
        Ok((self.0.map(form, context)?, form["requests"].as_u64()))
    }
    fn requests(&self, (_, requests): &Self::Operation) -> Option<u64> {
        *requests
    }
    fn connection(&self, _: u64) {}
    async fn execute(
        &self,
        none: &mut (),
        (slow, _): &Self::Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        self.0.execute(none, slow, context, draw, only).await
    }
}

#[test]
fn a_stream_whose_corpus_ends_early_was_measured_for_as_long_as_it_ran() {
    let pacings = [json!({"closed": {"clients": 2}}), json!({"open": {"rate": 200}})];
    for (pacing, threads) in pacings.iter().flat_map(|pacing| [(pacing, 1), (pacing, 3)]) {
        let mut plan = plan(json!({"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": 1.0}}));
        // 40 requests, two at a time or 5 ms apart, take 0.2 s.
        plan["operations"] = json!({"a": {"ms": 10, "requests": 40}, "b": {"ms": 10}});
        plan["threads"] = json!(threads);
        let ran = |stream: &Value| stream["measured"].as_f64().unwrap();
        let (outcome, _folder) = run::<Ending>(&plan);
        assert_eq!(outcome["operations"][0]["completed"], 40);
        let alone = ran(&outcome["streams"][0]);
        assert!((0.19..0.8).contains(&alone), "{pacing} with {threads} threads: {alone} s");
        assert_eq!(outcome["measured"], outcome["streams"][0]["measured"], "there was nothing else");

        plan["streams"].as_array_mut().unwrap().push(json!({
            "name": "t", "mix": [["b", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"duration": 1.0},
        }));
        let (outcome, _folder) = run::<Ending>(&plan);
        let (s, t) = (&outcome["streams"][0], &outcome["streams"][1]);
        assert!(ran(s) < 0.8, "{pacing} with {threads} threads: {s}");
        assert_eq!((&s["ran_out"], &t["ran_out"]), (&json!(true), &json!(false)));
        assert_eq!((ran(t), outcome["measured"].as_f64().unwrap()), (1.0, 1.0));
    }
}
