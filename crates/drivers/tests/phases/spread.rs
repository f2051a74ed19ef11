//! Requests per node: every load model spreads each operation evenly.

use std::collections::BTreeMap;

use loadframe_engine::driver::Nodes;
use loadframe_engine::workload::event::Batch;

use super::*;

/// A driver for identical nodes. A client stays at one of them, as with a fixed spread, or alternates between them.
struct Alike {
    nodes: u16,
    by_turns: bool,
    /// Number of connections opened.
    opened: &'static AtomicU64,
}

/// The connections of a client, by node, and its current node.
struct Links {
    open: Vec<bool>,
    at: u16,
    keep: bool,
}

struct All(Vec<(u16, u32)>);

impl Nodes for All {
    fn available(&mut self) -> &[(u16, u32)] {
        &self.0
    }
}

impl Alike {
    async fn ask(&self, links: &mut Links, turn: u64, pause: Duration) -> Reply {
        let node = if self.by_turns { (turn % u64::from(self.nodes)) as u16 } else { links.at };
        if !links.keep && !self.by_turns {
            (0..).zip(&mut links.open).filter(|(number, _)| *number != node).for_each(|(_, open)| *open = false);
        }
        if !std::mem::replace(&mut links.open[usize::from(node)], true) {
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        let sent = Instant::now();
        match pause {
            Duration::ZERO => tokio::task::yield_now().await,
            _ => tokio::time::sleep(pause).await,
        }
        Reply { bytes_sent: 1, node, documents: 1, ..Reply::new(sent, Instant::now(), Ok(())) }
    }
}

impl Driver for Alike {
    type Operation = Option<Duration>;
    type Connection = Links;

    fn new(target: &Target) -> Result<Self, PlanError> {
        let by_turns = target.spread == loadframe_engine::plan::Spread::RoundRobin;
        let opened = Box::leak(Box::new(AtomicU64::new(0)));
        Ok(Self { nodes: target.hosts.len() as u16, by_turns, opened })
    }
    fn map(&self, form: &Value, _: &Context) -> Result<Option<Duration>, PlanError> {
        let pause = Duration::from_millis(form["ms"].as_u64().unwrap_or(0));
        Ok((form["take_in"].is_null()).then_some(pause))
    }
    fn requests(&self, _: &Option<Duration>) -> Option<u64> {
        None
    }
    fn hosts(&self) -> Vec<String> {
        // The list of hosts ends with the number of connections, to show it in the outcome.
        let opened = self.opened.load(Ordering::Relaxed).to_string();
        (0..self.nodes).map(|node| node.to_string()).chain([opened]).collect()
    }
    fn nodes(&self, _: u64, _: u64) -> Option<Box<dyn Nodes>> {
        (!self.by_turns).then(|| Box::new(All((0..self.nodes).map(|node| (node, 1)).collect())) as Box<dyn Nodes>)
    }
    fn turn_to(&self, links: &mut Links, node: u16, keep: bool) {
        (links.at, links.keep) = (node, keep);
    }
    fn connection(&self, client: u64) -> Links {
        let at = (client % u64::from(self.nodes)) as u16;
        Links { open: vec![false; usize::from(self.nodes)], at, keep: false }
    }
    fn ingests(&self, operation: &Option<Duration>) -> bool {
        operation.is_none()
    }
    async fn ingest(
        &self,
        links: &mut Links,
        _: &Option<Duration>,
        _: &Context,
        _: &Batch,
        _: Option<&[u32]>,
    ) -> Reply {
        self.ask(links, 0, Duration::ZERO).await
    }
    async fn execute(
        &self,
        links: &mut Links,
        operation: &Option<Duration>,
        _: &Context,
        draw: &Draw,
        _: Option<&[u32]>,
    ) -> Reply {
        self.ask(links, draw.turn, operation.unwrap_or_default()).await
    }
    async fn show(
        &self,
        links: &mut Links,
        form: &Option<Duration>,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        (self.execute(links, form, context, draw, None).await, Exchange::default())
    }
}

/// Runs a phase on `nodes` nodes and `ranks` ranks; returns the requests by operation and node, and the connections.
fn requests(plan: &Value, nodes: usize, ranks: u64) -> (BTreeMap<String, Vec<u64>>, u64) {
    let (mut counts, mut opened) = (BTreeMap::<String, Vec<u64>>::new(), 0);
    for rank in 0..ranks {
        let mut plan = plan.clone();
        plan["target"]["hosts"] = json!((0..nodes).map(|node| node.to_string()).collect::<Vec<_>>());
        (plan["rank"], plan["ranks"]) = (json!(rank), json!(ranks));
        let (outcome, folder) = run::<Alike>(&plan);
        opened += outcome["hosts"][nodes].as_str().unwrap().parse::<u64>().unwrap();
        let text = std::fs::read_to_string(folder.0.join("nodes.csv")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let of = counts.entry(fields[0].to_owned()).or_insert_with(|| vec![0; nodes]);
            of[fields[1].parse::<usize>().unwrap()] += fields[3].parse::<u64>().unwrap();
        }
    }
    (counts, opened)
}

/// Returns the largest difference between the requests of two nodes.
fn unevenness(counts: &[u64]) -> u64 {
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

fn total(counts: &BTreeMap<String, Vec<u64>>) -> Vec<u64> {
    let sum = |node: usize| counts.values().map(|of| of[node]).sum();
    (0..counts.values().next().unwrap().len()).map(sum).collect()
}

#[test]
fn an_open_load_goes_to_each_node_equally_often_at_every_rate_and_rank_count() {
    for nodes in 1..=7 {
        for (ranks, threads) in [(1, 1), (1, 3), (3, 1), (2, 2)] {
            for (rate, milliseconds) in [(500, 0), (500, 12), (20_000, 1)] {
                let count = 12 * 2 * 7 * 5;
                let mut plan = plan(json!({
                    "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": rate}}, "stop": {"requests": count},
                }));
                if rate == 500 {
                    plan["streams"][0]["stop"] = json!({"requests": 12 * 7});
                }
                plan["operations"]["a"]["ms"] = json!(milliseconds);
                plan["threads"] = json!(threads);
                let (counts, _) = requests(&plan, nodes, ranks);
                let case =
                    format!("{nodes} nodes, {ranks} x {threads} workers, {rate}/s, {milliseconds} ms: {counts:?}");
                assert!(unevenness(&counts["a"]) <= ranks * threads, "{case}");
            }
        }
    }
}

#[test]
fn few_clients_of_an_open_load_go_round_the_nodes() {
    for most in [1, 2, 3] {
        let plan = plan(json!({
            "name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 2000, "max_in_flight": most}},
            "stop": {"requests": 500},
        }));
        let (counts, opened) = requests(&plan, 5, 1);
        assert!(unevenness(&counts["a"]) <= 1, "{counts:?}");
        assert!(opened <= 5 * most, "{opened} connections");
    }
}

#[test]
fn sessions_that_arrive_take_each_step_to_each_node() {
    for (nodes, spread) in [(2, "fixed"), (3, "fixed"), (5, "fixed"), (2, "round_robin"), (3, "round_robin")] {
        for threads in [1, 2] {
            let mut plan = plan(json!({
                "name": "s", "pacing": {"open": {"rate": 1000}}, "stop": {"requests": 3 * 120},
                "journey": [{"operation": "a"}, {"operation": "b"}, {"operation": "c"}],
            }));
            plan["operations"]["c"] = json!({});
            plan["target"]["spread"] = json!(spread);
            plan["threads"] = json!(threads);
            let (counts, _) = requests(&plan, nodes, 1);
            assert_eq!(counts.len(), 3);
            assert!(counts.values().all(|of| unevenness(of) <= threads), "{nodes} nodes, {spread}: {counts:?}");
        }
    }
}

#[test]
fn users_with_few_clients_ask_all_nodes_for_each_operation() {
    let steps = json!([{"ask": {"operation": "a"}}, {"ask": {"operation": "b"}}]);
    for nodes in [1, 2, 3, 5, 7] {
        for (clients, threads, think) in
            [(1, 1, 0.0), (2, 1, 0.0), (4, 2, 0.0), (8, 1, 0.0), (8, 2, 0.002), (20, 1, 0.002)]
        {
            let mut plan = plan(json!({
                "name": "s", "steps": steps, "stop": {"journeys": 60},
                "pacing": {"users": {"users": 20, "clients": clients, "think_time": think}},
            }));
            plan["threads"] = json!(threads);
            let (counts, opened) = requests(&plan, nodes, 1);
            let case = format!("{clients} clients, {nodes} nodes, {threads} workers: {counts:?}");
            // A busy client moves only when its node is ahead, because moving costs a connect.
            assert!(counts.values().all(|of| unevenness(of) <= 20 * threads), "{case}");
            let few = clients / threads < nodes as u64;
            assert!(!few || counts.values().all(|of| unevenness(of) <= threads), "{case}");
            assert!(opened <= 2400 / 8 + clients * nodes as u64, "{opened} connections: {case}");
        }
    }
}

#[test]
fn batches_of_events_go_to_each_node_equally_often() {
    for (nodes, workers, threads) in [(3, 1, 1), (3, 2, 1), (5, 8, 2), (4, 4, 4)] {
        let folder = Folder::new();
        let lines: String = (0..600)
            .map(|n| format!("{{\"type\": \"bid\", \"id\": \"b{n}\", \"time\": \"2017-03-01T12:00:00Z\"}}\n"))
            .collect();
        std::fs::write(folder.0.join("events"), lines).unwrap();
        let mut plan = plan(json!({
            "name": "s", "mix": [["take_in", 1]], "pacing": {"source": {"source": "ads", "workers": workers}},
            "stop": "exhausted",
        }));
        plan["operations"] = json!({"take_in": {"take_in": {}}});
        plan["sources"] = json!({"ads": {
            "files": [folder.0.join("events")], "batch": 10, "flush": 0.02,
            "events": {"type": "/type", "kinds": {"bid": {"id": "/id", "time": "/time"}}},
        }});
        plan["threads"] = json!(threads);
        let (counts, opened) = requests(&plan, nodes, 1);
        assert!(unevenness(&counts["take_in"]) <= threads, "{nodes} nodes, {workers} workers: {counts:?}");
        assert!(opened <= workers * nodes as u64, "{opened} connections");
    }
}

#[test]
fn a_round_over_the_nodes_takes_each_operation_to_each_node() {
    for nodes in 1..=7_usize {
        for steps in 1..=7_u64 {
            for (ranks, threads, clients) in [(1, 1, 1), (1, 2, 4), (2, 1, 2)] {
                let workers = ranks * threads;
                let names: Vec<String> = (0..steps).map(|step| format!("step{step}")).collect();
                let journey: Vec<Value> = names.iter().map(|name| json!({"operation": name})).collect();
                let journeys = nodes as u64 * 2 * workers;
                let mut plan = plan(json!({
                    "name": "s", "pacing": {"closed": {"clients": clients}}, "stop": {"requests": journeys * steps},
                    "journey": journey,
                }));
                plan["operations"] =
                    names.iter().map(|name| (name.clone(), json!({}))).collect::<serde_json::Map<_, _>>().into();
                plan["target"]["spread"] = json!("round_robin");
                plan["threads"] = json!(threads);
                let (counts, _) = requests(&plan, nodes, ranks);
                let even = vec![2 * workers; nodes];
                assert_eq!(counts.len() as u64, steps);
                assert!(
                    counts.values().all(|of| *of == even),
                    "{nodes} nodes, {steps} steps, {workers} workers: {counts:?}"
                );
            }
        }
    }
}

#[test]
fn operations_that_alternate_go_to_each_node_equally_often() {
    for nodes in 1..=7_usize {
        for operations in 2..=7_u64 {
            for spread in ["round_robin", "fixed"] {
                let names: Vec<String> = (0..operations).map(|step| format!("o{step}")).collect();
                let mut plan = plan(json!({
                    "name": "s", "mix": names.iter().map(|name| json!([name, 1])).collect::<Vec<_>>(),
                    "pacing": {"closed": {"clients": 1}}, "order": "permuted",
                    "stop": {"requests": nodes as u64 * operations * 3},
                }));
                if spread == "fixed" {
                    plan["streams"][0]["pacing"] = json!({"open": {"rate": 20_000}});
                    plan["streams"][0]["order"] = json!("drawn");
                }
                plan["operations"] =
                    names.iter().map(|name| (name.clone(), json!({}))).collect::<serde_json::Map<_, _>>().into();
                plan["target"]["spread"] = json!(spread);
                let (counts, _) = requests(&plan, nodes, 1);
                assert!(counts.values().all(|of| unevenness(of) <= 1), "{spread}, {nodes} nodes: {counts:?}");
                assert!(unevenness(&total(&counts)) <= operations, "{spread}, {nodes} nodes: {counts:?}");
            }
        }
    }
}
