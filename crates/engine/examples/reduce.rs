//! Cost of adding up one second of many ranks, and their outcomes: `reduce [RANKS] [OPERATIONS]`. Prints one
//! JSON object.
//!
//! The engine's recorder records each rank's second: 1,000 requests of each operation, with response times
//! over three decades. All ranks are added in a binomial tree, one merge after the other. With a core per
//! rank, a level of the tree takes the time of its slowest merge. Times are CPU time.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loadframe_engine::driver::Reply;
use loadframe_engine::plan::Plan;
use loadframe_engine::ranks::RankRecorder;
use loadframe_engine::recording::collector::{Link, Sink, collect};
use loadframe_engine::recording::outcome::{Clock, RankOutcome, RankShare, Watch};
use loadframe_engine::recording::recorder::{Interval, Recorder, Times};
use loadframe_engine::recording::second::{Second, State};
use loadframe_engine::recording::slot::Slot;
use loadframe_engine::recording::stream_end::StreamEnd;
use loadframe_engine::recording::worker_stats::{WorkerRow, Workers};
use loadframe_engine::util::draw::Draw;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const REQUESTS: u64 = 1000;
const HOSTS: usize = 64;

struct OfRank<'a> {
    rank: u64,
    plan: &'a Plan,
    hosts: &'a [String],
    watch: Watch,
    seconds: Vec<Second>,
}

impl Sink for OfRank<'_> {
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> std::io::Result<()> {
        self.watch.second(sum, &rows, (Duration::ZERO, None));
        let state = State { over: vec![false], counters: vec![(0, 0)], clocks: Vec::new() };
        self.seconds.push(Second::of(self.plan.fingerprint(), self.rank, sum, Workers::of(rows), self.hosts, state));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place, otherwise: &str| std::env::args().nth(place).unwrap_or(otherwise.into()).parse::<u64>();
    let (ranks, operations) = (argument(1, "10000")?, argument(2, "8")? as usize);
    let slots: Vec<Slot> = (0..operations)
        .map(|n| Slot { stream: "s".into(), operation: format!("operation-{n}"), part: None, of_several: false })
        .collect();
    let plan = plan(ranks)?;
    let hosts: Vec<String> = (0..HOSTS).map(|n| format!("node{n:03}.cluster:9200")).collect();

    let folder = std::env::temp_dir().join(format!("loadframe-reduce-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    // Measure this first, while the process is as small as rank 0: freed memory would count.
    let outcome = end(&folder, &plan, &slots, ranks)?;
    // Encoding, which each rank does once a second.
    let mut encoding = Vec::new();
    let mut level: Vec<Vec<u8>> = Vec::new();
    for rank in 0..ranks {
        let second = second(rank, operations, &plan, &hosts)?;
        let began = cpu();
        level.push(second.to_bytes());
        encoding.push(cpu() - began);
    }
    let mut levels = Vec::new();
    while level.len() > 1 {
        let (mut slowest, mut total, mut merges) = (0.0_f64, 0.0, 0u32);
        let mut next = Vec::new();
        for pair in level.chunks(2) {
            let [one, two] = pair else {
                next.push(pair[0].clone());
                continue;
            };
            let began = cpu();
            let mut sum = Second::from_bytes(one)?;
            sum.add(Second::from_bytes(two)?)?;
            next.push(sum.to_bytes());
            let took = cpu() - began;
            (slowest, total, merges) = (slowest.max(took), total + took, merges + 1);
        }
        let sent = level.iter().map(Vec::len).max().unwrap_or_default();
        levels.push(json!({"bytes": sent, "slowest": slowest, "mean": total / f64::from(merges.max(1))}));
        level = next;
    }
    let recording = record(&folder, &plan, &slots, &level[0])?;
    std::fs::remove_dir_all(&folder)?;
    println!(
        "{}",
        json!({
            "ranks": ranks, "operations": operations, "requests": ranks * operations as u64 * REQUESTS,
            "encoding": encoding.iter().sum::<f64>() / ranks as f64, "levels": levels, "bytes": level[0].len(),
            "recording": recording, "outcome": outcome,
        })
    );
    Ok(())
}

fn plan(ranks: u64) -> Result<Plan, serde_json::Error> {
    serde_json::from_value(json!({
        "seed": 1, "phase": "load", "ranks": ranks, "target": {"driver": "none"}, "operations": {"a": {}},
        "streams": [{"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 8}}, "stop": {"duration": 4}}],
    }))
}

/// Records a second of a rank.
fn second(rank: u64, operations: usize, plan: &Plan, hosts: &[String]) -> std::io::Result<Second> {
    let (finished, intervals) = channel();
    let (recycle, empty) = channel();
    let start = Instant::now();
    let mut recorder = Recorder::new(0, operations, start, || Duration::ZERO, false, finished, empty);
    let all = REQUESTS * operations as u64;
    for k in 0..all {
        let draw = Draw::new(1, rank, k);
        let scheduled = start + Duration::from_nanos(k * 900_000_000 / all);
        let took = Duration::from_micros((200.0 * 1000f64.powf(draw.unit(1))) as u64);
        let times = Times { scheduled, started: scheduled, ends: None, client: 0, trace: None };
        let node = (draw.bits(2) % hosts.len() as u64) as u16;
        let reply = Reply {
            node,
            bytes_sent: 100,
            bytes_received: 300,
            documents: 1,
            ..Reply::new(scheduled, scheduled + took, Ok(()))
        };
        recorder.request((k % operations as u64) as usize, times, reply, &[]);
    }
    recorder.finish(start + Duration::from_millis(999), &[]);
    drop(recorder);
    let mut sink = OfRank { rank, plan, hosts, watch: Watch::new(plan), seconds: Vec::new() };
    collect(rank, vec![Link { intervals, empty: recycle }], &mut sink)?;
    Ok(sink.seconds.remove(0))
}

/// Returns the time that rank 0 needs to write the sum, s.
fn record(folder: &Path, plan: &Plan, slots: &[Slot], sum: &[u8]) -> Result<f64, Box<dyn std::error::Error>> {
    let mut recorder = RankRecorder::create(folder, plan, slots, plan.fingerprint(), None).map_err(|e| e.message)?;
    let began = cpu();
    recorder.second(sum).map_err(|refusal| format!("{refusal:?}"))?;
    Ok(cpu() - began)
}

/// Measures the end of a phase, in which rank 0 adds its children's outcomes.
fn end(folder: &Path, plan: &Plan, slots: &[Slot], ranks: u64) -> Result<Value, Box<dyn std::error::Error>> {
    let mut recorder = RankRecorder::create(folder, plan, slots, plan.fingerprint(), None).map_err(|e| e.message)?;
    // Rank 0's children in a binomial tree are the roots of trees of 1, 2, 4, ... ranks.
    let mut children = vec![vec![0]];
    let mut first = 1;
    while first < ranks {
        children.push((first..ranks.min(2 * first)).collect::<Vec<u64>>());
        first *= 2;
    }
    let texts = children.iter().map(|ranks| parts(plan, slots.len(), ranks)).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = texts.iter().map(String::len).sum();
    std::fs::write("/proc/self/clear_refs", "5").ok();
    let before = memory("VmRSS:");
    let began = cpu();
    let mut read = Vec::new();
    for text in &texts {
        read.push(serde_json::from_str::<RankOutcome>(text)?);
    }
    let outcome = recorder.finish(read).map_err(|refusal| format!("{refusal:?}"))?.to_string();
    let seconds = cpu() - began;
    let memory = memory("VmHWM:").saturating_sub(before) + bytes as u64;
    Ok(json!({"bytes": bytes, "seconds": seconds, "text": outcome.len(), "memory": memory}))
}

/// Returns the serialized sum of some ranks' outcomes, with digits as in a real one.
fn parts(plan: &Plan, slots: usize, ranks: &[u64]) -> serde_json::Result<String> {
    let duration = Duration::from_secs(4);
    let mut watched = Watch::new(plan).watched();
    (watched.cpu_seconds, watched.waited_seconds, watched.wall_seconds) = (1.234_567, 0.012_345, 4.012_345);
    (watched.cpu_share, watched.cpu_share_peak) = (Some(0.312_345), Some(0.412_345));
    (watched.waited_share, watched.away_share) = (Some(0.001_234), Some(0.012_345));
    let share = |&rank: &u64| RankShare {
        rank,
        began_late: 0.000_123_4,
        requests: 40_000,
        successes: 40_000,
        documents: 40_000,
        dropped: 0,
        errors: 0,
        in_flight_at_end: 8,
        last_done: 4.001_234,
        ended: 4.012_345,
        watched: watched.clone(),
        clock: Clock { uncertainty: 1.2e-7, drift: -3.4e-7 },
        unreachable: Vec::new(),
        failed: None,
    };
    serde_json::to_string(&RankOutcome {
        plan: plan.fingerprint(),
        failed: None,
        stopped: false,
        counts: vec![Default::default(); slots],
        in_flight: vec![(8, duration); slots],
        streams: vec![StreamEnd { last_done: duration, ..StreamEnd::NOTHING }],
        ended: duration,
        warmup: Duration::ZERO,
        over: None,
        clock: (1.2e-7, -3.4e-7),
        hosts: Default::default(),
        unreachable: Default::default(),
        set_aside: Default::default(),
        sources: Default::default(),
        by_rank: ranks.iter().map(share).collect(),
    })
}

/// Returns a memory value of this process, bytes.
fn memory(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Returns the CPU time of this thread, s.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
