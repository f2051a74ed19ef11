//! Phases on several ranks in one process: any number of ranks and threads sends the same requests.

use std::sync::Mutex;

use loadframe_engine::recording::outcome::RankOutcome;
use loadframe_engine::recording::second::Second;
use loadframe_engine::run::prepare_rank;

use super::erased::Erased;
use super::*;

/// Sent requests: name of the test, operation, number of the request, and number from the counter.
static SENT: Mutex<Vec<(String, String, u64, u64)>> = Mutex::new(Vec::new());

/// A driver that records its requests in [`SENT`].
struct Recording(String);

impl Driver for Recording {
    type Operation = String;
    type Connection = ();

    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self(target.hosts[0].clone()))
    }
    fn map(&self, form: &Value, _: &Context) -> Result<String, PlanError> {
        Ok(form.to_string())
    }
    fn requests(&self, _: &String) -> Option<u64> {
        None
    }
    fn connection(&self, _: u64) {}
    fn hosts(&self) -> Vec<String> {
        vec![self.0.clone()]
    }
    async fn execute(&self, _: &mut (), operation: &String, _: &Context, draw: &Draw, _: Option<&[u32]>) -> Reply {
        SENT.lock().unwrap().push((self.0.clone(), operation.clone(), draw.k, draw.number));
        Reply { documents: 1, ..Reply::new(Instant::now(), Instant::now(), Ok(())) }
    }
}

/// Runs a plan on several ranks, with a recorder for their sums per second. Returns the sorted requests and the
/// outcome.
fn together(plan: &Value, ranks: u64, threads: u64, name: &str) -> (Vec<(String, u64, u64)>, Value) {
    let folder = Folder::new();
    let name = format!("{name}-{ranks}-{threads}:1");
    let plan_of = |rank: u64| {
        let mut plan = plan.clone();
        plan["target"]["hosts"] = json!([name]);
        (plan["rank"], plan["ranks"], plan["threads"]) = (json!(rank), json!(ranks), json!(threads));
        serde_json::from_value(plan).unwrap()
    };
    let prepare = |rank| erased::with::<Recording, _>(|| prepare_rank::<Erased>(plan_of(rank)).unwrap());
    let ready: Vec<_> = (0..ranks).map(prepare).collect();
    let mut recorder = ready[0].recorder(&folder.0, None).unwrap();
    let running: Vec<_> = ready.into_iter().map(|ready| ready.begin(None).unwrap()).collect();
    let mut queues = vec![Vec::new(); ranks as usize];
    loop {
        let over: Vec<bool> = running.iter().map(|running| running.wait(Duration::from_millis(10))).collect();
        for (queue, running) in queues.iter_mut().zip(&running) {
            queue.extend(running.seconds());
        }
        while queues.iter().any(|queue| !queue.is_empty())
            && queues.iter().zip(&over).all(|(queue, over)| *over || !queue.is_empty())
        {
            let mut sum: Option<Second> = None;
            for queue in queues.iter_mut().filter(|queue| !queue.is_empty()) {
                let second = Second::from_bytes(&queue.remove(0)).unwrap();
                match &mut sum {
                    None => sum = Some(second),
                    Some(sum) => sum.add(second).unwrap(),
                }
            }
            recorder.second(&sum.unwrap().to_bytes()).unwrap();
            running.iter().for_each(|running| running.apply(&recorder.directives()).unwrap());
        }
        if over.iter().all(|over| *over) && queues.iter().all(Vec::is_empty) {
            break;
        }
    }
    let part = |running: &Running| serde_json::from_value::<RankOutcome>(running.outcome().unwrap()).unwrap();
    let outcome = recorder.finish(running.iter().map(part).collect()).unwrap();
    assert_eq!((&outcome["failed"], &outcome["hosts"]), (&json!(null), &json!([name])));
    let sent = SENT.lock().unwrap();
    let mut ours: Vec<_> =
        sent.iter().filter(|sent| sent.0 == name).map(|sent| (sent.1.clone(), sent.2, sent.3)).collect();
    ours.sort();
    (ours, outcome)
}

#[test]
fn any_number_of_ranks_and_threads_sends_the_same_set_of_requests() {
    let forms = json!({
        "a": {"insert": {"id": "u${new}"}}, "b": {"read": {"id": 1}}, "c": {"insert": {"id": "v${other}"}},
    });
    let closed = json!({"closed": {"clients": 9}});
    let open = json!({"open": {"rate": 3000, "arrivals": "poisson"}});
    let step = |operation: &str| json!({"operation": operation});
    for (name, stream) in [
        ("mix", json!({"mix": [["a", 0.05], ["b", 0.9], ["c", 0.05]], "pacing": closed, "stop": {"requests": 20_001}})),
        ("one", json!({"mix": [["a", 1]], "pacing": closed, "stop": {"requests": 5003}})),
        ("both", json!({"mix": [["a", 1], ["a", 2]], "pacing": closed, "stop": {"requests": 5003}})),
        ("poisson", json!({"mix": [["a", 0.5], ["b", 0.5]], "pacing": open, "stop": {"duration": 0.4}})),
        (
            "group",
            json!({"mix": [["a", 2], ["b", 1]], "order": "together", "pacing": open, "stop": {"requests": 1503}}),
        ),
        ("walk", json!({"journey": [step("a"), step("b"), step("a")], "pacing": closed, "stop": {"requests": 3003}})),
    ] {
        let mut stream = stream;
        stream["name"] = json!("s");
        let mut plan = plan(stream);
        plan["variables"] = json!({"new": {"counter": {}}, "other": {"counter": {}}});
        plan["operations"] = forms.clone();
        let (alone, outcome) = together(&plan, 1, 8, name);
        let counted = |outcome: &Value| {
            let operations = outcome["operations"].as_array().unwrap().iter();
            operations.map(|o| (o["requests"].as_u64().unwrap(), o["documents"].as_u64().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(counted(&outcome).iter().map(|(requests, _)| requests).sum::<u64>(), alone.len() as u64);
        for counter in ["new", "other"] {
            let named = alone.iter().filter(|(operation, ..)| operation.contains(counter));
            let mut numbers: Vec<u64> = named.map(|(_, _, number)| *number).collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{name}: numbers without gaps");
        }
        for (ranks, threads) in [(8, 1), (3, 2)] {
            let (sent, stats) = together(&plan, ranks, threads, name);
            assert!(sent == alone, "{name}: {ranks} ranks of {threads} threads sent other requests");
            assert_eq!(counted(&stats), counted(&outcome), "{name}");
        }
    }
}

#[test]
fn more_ranks_than_clients_leave_some_without_work_and_end_together() {
    let mut plan = plan(json!({
        "name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 2, "think_time": 0.05}}, "stop": {"requests": 9},
    }));
    plan["streams"].as_array_mut().unwrap().push(json!({
        "name": "t", "mix": [["b", 1]], "pacing": {"open": {"rate": 100}}, "stop": "ended",
    }));
    plan["ends_with"] = json!(["s"]);
    let (_, outcome) = together(&plan, 5, 1, "few");
    assert_eq!(outcome["operations"][0]["requests"], 9);
    assert!(outcome["operations"][1]["requests"].as_u64().unwrap() >= 20, "{}", outcome["operations"][1]);
    assert_eq!(outcome["by_rank"].as_array().unwrap().len(), 5);
}
