//! Feeds one set of requests, with synthetic times, through the recorders of one process or of several ranks.
//! The files must be equal byte for byte.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::driver::{ErrorClass, Failure, NO_NODE, Reply};
use crate::recording::collector::{Link, Sink, collect};
use crate::recording::outcome::{Watch, measured};
use crate::recording::recorder::{DeadlineCounts, Recorder, Times};
use crate::recording::sample;
use crate::recording::second::State;
use crate::recording::stream_end::StreamEnd;
use crate::recording::worker_stats::WorkerRow;
use crate::util::draw::Draw;

const HOSTS: [&str; 3] = ["a:1", "b:1", "c:1"];
const REQUESTS: u64 = 20_000;

struct Folder(PathBuf);

impl Folder {
    /// Creates a temporary folder, which is deleted when dropped.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loadframe-rank-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the lines of a file, without comments and entries of event-loop lag, which differ between runs.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap();
        // Event-loop lag has an entry for each worker, and the header has the start time.
        let kept = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("Tag=generator/lag"));
        kept.map(str::to_owned).collect()
    }

    /// Returns the samples without their rank, in byte order.
    fn samples(&self) -> Vec<[u8; sample::BYTES]> {
        let bytes = std::fs::read(self.0.join("samples.bin")).unwrap();
        let mut samples: Vec<[u8; sample::BYTES]> = bytes.as_chunks().0.to_vec();
        samples.iter_mut().for_each(|sample| sample[32..36].fill(0));
        samples.sort_unstable();
        samples
    }
}

impl Drop for Folder {
    /// Deletes the folder.
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a plan for these numbers of ranks and threads per rank.
fn plan(ranks: u64, threads: u64) -> Plan {
    serde_json::from_value(json!({
        "seed": 1, "phase": "load", "ranks": ranks, "threads": threads, "warmup": 1.5,
        "target": {"driver": "none", "hosts": HOSTS},
        "operations": {"read": {}, "scan": {}},
        "streams": [{"name": "s", "mix": [["read", 1], ["scan", 1]], "pacing": {"closed": {"clients": 8}},
            "stop": {"duration": 4}}],
        "stop_when": [{"metric": "error_share", "above": 0.9}], "samples": true,
    }))
    .unwrap()
}

/// Returns the slots of the plan: two operations, and a part of the second.
fn slots() -> Vec<Slot> {
    let slot =
        |operation: &str, part| Slot { stream: "s".into(), operation: operation.into(), part, of_several: false };
    vec![slot("read", None), slot("scan", None), slot("scan", Some("page"))]
}

/// Returns request `k`: its slot, times and reply.
fn request(k: u64, start: Instant, hosts: &[&str]) -> (usize, Times, Reply) {
    let draw = |salt| Draw::new(3, 1, k).bits(salt);
    let scheduled = start + Duration::from_micros(k * 4_000_000 / REQUESTS);
    let started = scheduled + Duration::from_micros(draw(1) % 300);
    let done = started + Duration::from_micros(20 + (draw(2) % (1 << (draw(3) % 20))));
    let outcome = match draw(4) % 50 {
        class @ 0..7 => Err(Failure::new(ErrorClass::ALL[class as usize], format!("request {k}"))),
        _ => Ok(()),
    };
    let host = HOSTS[(draw(5) % 3) as usize];
    let node = match outcome {
        Err(Failure { class: ErrorClass::Connect, .. }) => NO_NODE,
        _ => hosts.iter().position(|known| *known == host).unwrap() as u16,
    };
    let reply = Reply {
        node,
        documents: draw(6) % 5,
        bytes_sent: draw(7) % 1000,
        bytes_received: draw(8) % 1000,
        ..Reply::new(started, done, outcome)
    };
    let ends = Some(start + Duration::from_millis(5500));
    ((draw(9) % 2) as usize, Times { scheduled, started, ends, client: k % 8, trace: None }, reply)
}

/// Sends the seconds of one process to `sink`. `hosts` are in the order in which the process found them.
fn process(rank: u64, ranks: u64, threads: u64, start: Instant, hosts: &[&str], sink: &mut impl Sink) {
    let mut links = Vec::new();
    for thread in 0..threads {
        let (finished, intervals) = channel();
        let (recycle, empty) = channel();
        links.push(Link { intervals, empty: recycle });
        let warmup = Duration::from_millis(1500);
        let mut recorder = Recorder::new(thread as usize, 3, start, move || warmup, true, finished, empty)
            .with_deadlines(vec![Duration::from_secs(1)]);
        let (index, of) = (rank * threads + thread, ranks * threads);
        let mut all: Vec<_> = (index..REQUESTS).step_by(of as usize).map(|k| request(k, start, hosts)).collect();
        // An unanswered request is in flight at the end of each second.
        let stuck = (index == 0).then(|| (1, start + Duration::from_millis(100)));
        all.sort_by_key(|(_, _, reply)| reply.done);
        for (slot, times, reply) in all {
            recorder.request(slot, times, reply, &[stuck]);
        }
        recorder.finish(start + Duration::from_millis(5200), &[stuck]);
    }
    collect(rank, links, sink).unwrap();
}

struct Written {
    files: Files,
    tally: Tally,
    deadlines: Vec<DeadlineCounts>,
}

impl Sink for Written {
    /// Writes a second to the files, and adds it to the totals and to the counts by deadline.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> std::io::Result<()> {
        self.files.second(self.tally.slots(), sum, &Workers::of(rows))?;
        self.tally.second(sum);
        add_deadlines(&mut self.deadlines, sum);
        Ok(())
    }
}

/// Adds the counts by deadline of all cells of a second.
fn add_deadlines(sums: &mut Vec<DeadlineCounts>, second: &Interval) {
    second.used_cells().for_each(|(_, _, cell)| DeadlineCounts::add_all(sums, &cell.deadlines));
}

struct Kept {
    rank: u64,
    fingerprint: u64,
    hosts: Vec<String>,
    seconds: Vec<Vec<u8>>,
    tally: Tally,
    watch: Watch,
}

impl Sink for Kept {
    /// Adds a second to the totals, and keeps it in serialized form.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> std::io::Result<()> {
        self.watch.second(sum, &rows, (Duration::ZERO, None));
        self.tally.second(sum);
        let state = State { over: vec![false], counters: vec![(10 + self.rank, 0)], clocks: Vec::new() };
        let second = Second::of(self.fingerprint, self.rank, sum, Workers::of(rows), &self.hosts, state);
        self.seconds.push(second.to_bytes());
        Ok(())
    }
}

/// Records all requests by one process into `folder`.
fn alone(folder: &Folder, threads: u64, start: Instant) -> Written {
    let plan = plan(1, threads);
    let start_time = StartTime::new(&plan, None).unwrap();
    let files = Files::create(&folder.0, &plan, &slots(), start_time.offset, start_time.began(), false).unwrap();
    let tally = Tally::new(&plan, slots(), Shown::default());
    let mut written = Written { files, tally, deadlines: Vec::new() };
    process(0, 1, threads, start, &HOSTS, &mut written);
    written.files.end().unwrap();
    written
}

/// Returns the ranks' outcomes, and the sums of their seconds, added pairwise as in a tree.
fn ranks(ranks: u64, threads: u64, start: Instant) -> (Vec<Vec<u8>>, Vec<RankOutcome>) {
    let plan = plan(ranks, threads);
    let mut levels = Vec::new();
    let mut parts = Vec::new();
    for rank in 0..ranks {
        // Give the ranks different orders of hosts; there are three.
        let mut hosts = HOSTS.to_vec();
        hosts.rotate_left(rank as usize % 3);
        let names = hosts.iter().map(|host| (*host).to_owned()).collect();
        let (fingerprint, watch) = (plan.fingerprint(), Watch::new(&plan));
        let tally = Tally::of_a_share(&plan, slots(), Shown::default());
        let mut kept = Kept { rank, fingerprint, hosts: names, seconds: Vec::new(), tally, watch };
        process(rank, ranks, threads, start, &hosts, &mut kept);
        parts.push(part(&plan, &kept));
        levels.push(kept.seconds);
    }
    while levels.len() > 1 {
        levels = levels.chunks(2).map(sums).collect();
    }
    (levels.remove(0), parts)
}

/// Returns the sums of two ranks' seconds, serialized.
fn sums(pair: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let most = pair.iter().map(Vec::len).max().unwrap();
    let sum = |second: usize| {
        let mut there = pair.iter().filter_map(|seconds| seconds.get(second));
        let mut sum = Second::from_bytes(there.next().unwrap()).unwrap();
        there.for_each(|other| sum.add(Second::from_bytes(other).unwrap()).unwrap());
        sum.to_bytes()
    };
    (0..most).map(sum).collect()
}

/// Returns the outcome of a rank.
fn part(plan: &Plan, kept: &Kept) -> RankOutcome {
    let counts = measured(&slots(), &kept.tally.totals.counts);
    let share = json!({
        "rank": kept.rank, "began_late": 0.0, "requests": counts.requests, "successes": counts.successes,
        "documents": counts.documents, "dropped": 0, "errors": 0, "in_flight_at_end": 0, "last_done": 5.0, "ended": 5.2,
        "clock": {"uncertainty": 1e-6, "drift": 0.0}, "unreachable": [], "failed": null,
        "cpu_seconds": 0.0, "waited_seconds": 0.0, "wall_seconds": 0.0, "away_seconds": 0.0, "cpu_share": null,
        "cpu_share_peak": null, "waited_share": null, "away_share": null, "lateness_p99": null, "lateness_max": null,
        "lag_p99": null, "lag_max": null,
    });
    RankOutcome {
        plan: plan.fingerprint(),
        failed: None,
        stopped: false,
        counts: kept.tally.totals.counts.clone(),
        in_flight: vec![(0, Duration::ZERO), (u64::from(kept.rank == 0), Duration::from_secs(5)), (0, Duration::ZERO)],
        streams: vec![StreamEnd { last_done: Duration::from_secs(5), ran_out: false, ..StreamEnd::NOTHING }],
        ended: Duration::from_millis(5200),
        warmup: plan.warmup,
        over: None,
        clock: (1e-6, 0.0),
        hosts: kept.hosts.iter().cloned().collect(),
        unreachable: BTreeMap::new(),
        set_aside: BTreeMap::new(),
        sources: BTreeMap::new(),
        by_rank: vec![serde_json::from_value(share).unwrap()],
    }
}

/// Creates rank 0's recorder of the plan in `folder`.
fn recorder(folder: &Folder, ranks: u64, threads: u64) -> RankRecorder {
    let plan = plan(ranks, threads);
    RankRecorder::create(&folder.0, &plan, &slots(), plan.fingerprint(), None).unwrap()
}

/// The files of several ranks equal the files of one process with the same requests.
#[test]
fn the_record_of_ranks_is_that_of_one_process_which_did_all_requests() {
    let start = Instant::now();
    let one = Folder::new("one");
    let Written { tally, deadlines, .. } = alone(&one, 8, start);
    let counted: u64 = deadlines.iter().map(|counts| counts.met + counts.missed).sum();
    assert_eq!(counted, REQUESTS + 1, "and the request without an answer");
    assert!(deadlines.iter().all(|counts| counts.met > 0 && counts.missed > 0), "{deadlines:?}");
    for (count, threads) in [(8, 1), (3, 2), (1, 4), (13, 1)] {
        let folder = Folder::new(&format!("{count}-{threads}"));
        let mut recorder = recorder(&folder, count, threads);
        let (seconds, parts) = ranks(count, threads, start);
        let mut by_deadline = Vec::new();
        for second in &seconds {
            recorder.second(second).unwrap();
            add_deadlines(&mut by_deadline, &recorder.sum);
        }
        assert_eq!(by_deadline, deadlines);
        let outcome = recorder.finish(parts).unwrap();
        for name in ["series.csv", "nodes.csv", "histograms.hlog"] {
            assert_eq!(folder.lines(name), one.lines(name), "{name} of {count} ranks");
        }
        assert!(folder.lines("histograms.hlog").len() > 30);
        assert_eq!(folder.samples(), one.samples(), "samples of {count} ranks");
        assert_eq!(folder.samples().len() as u64, REQUESTS);
        assert_eq!(recorder.tally.totals.counts, tally.totals.counts);
        assert_eq!(recorder.measures().read(), tally.measures.read());
        assert_eq!((outcome["failed"].clone(), outcome["hosts"].clone()), (json!(null), json!(HOSTS)));
        let requests: u64 =
            outcome["operations"].as_array().unwrap().iter().map(|o| o["requests"].as_u64().unwrap()).sum();
        let by_rank: u64 = outcome["by_rank"].as_array().unwrap().iter().map(|r| r["requests"].as_u64().unwrap()).sum();
        assert_eq!((requests, outcome["by_rank"].as_array().unwrap().len() as u64), (by_rank, count));
        let shown = (recorder.progress().requests, recorder.progress().errors, recorder.progress().documents);
        assert_eq!(shown.0, REQUESTS);
        assert!(shown.1 > 0 && shown.2 > 0);
        let most = folder.lines("generator.csv").len();
        assert!(most <= 1 + 8 * seconds.len(), "{most} rows of the generator in {} seconds", seconds.len());
    }
}

#[test]
fn the_sum_of_a_second_does_not_depend_on_the_order_of_its_parts() {
    let start = Instant::now();
    let plan = plan(5, 1);
    let second = |rank: u64| {
        let (fingerprint, watch) = (plan.fingerprint(), Watch::new(&plan));
        let tally = Tally::of_a_share(&plan, slots(), Shown::default());
        let hosts = HOSTS.map(str::to_owned).to_vec();
        let mut kept = Kept { rank, fingerprint, hosts, seconds: Vec::new(), tally, watch };
        process(rank, 5, 1, start, &HOSTS, &mut kept);
        Second::from_bytes(&kept.seconds[2]).unwrap()
    };
    let parts: Vec<Second> = (0..5).map(second).collect();
    let sum = |order: &[usize]| {
        let mut sum = parts[order[0]].clone();
        order[1..].iter().for_each(|rank| sum.add(parts[*rank].clone()).unwrap());
        sum
    };
    let expected = sum(&[0, 1, 2, 3, 4]);
    assert_eq!(sum(&[4, 2, 0, 1, 3]), expected);
    let (mut left, right) = (sum(&[3, 1]), sum(&[4, 0, 2]));
    left.add(right).unwrap();
    assert_eq!(left.to_bytes(), expected.to_bytes());
    assert_eq!(Second::from_bytes(&expected.to_bytes()).unwrap(), expected);
    assert_eq!(expected.state, State { over: vec![false], counters: vec![(10, 0)], clocks: Vec::new() });
}

#[test]
fn seconds_and_outcomes_of_other_plans_are_refused() {
    let start = Instant::now();
    let folder = Folder::new("refused");
    let mut recorder = recorder(&folder, 2, 1);
    let (seconds, mut parts) = ranks(2, 1, start);
    let input = |result: Result<(), Refusal>| match result {
        Err(Refusal::Input(words)) => words,
        other => panic!("{other:?}"),
    };
    assert_eq!(input(recorder.second(&seconds[1])), "received second 1, expected 0");
    assert!(input(recorder.second(&seconds[0][..20])).starts_with("cannot parse a second"));
    let (foreign, _) = ranks(3, 1, start);
    assert!(input(recorder.second(&foreign[0])).contains("of another plan"));
    let mut sum = Second::from_bytes(&seconds[0]).unwrap();
    assert!(sum.add(Second::from_bytes(&foreign[0]).unwrap()).unwrap_err().contains("different plans"));
    let later = Second::from_bytes(&seconds[1]).unwrap();
    assert_eq!(sum.add(later).unwrap_err(), "second 1 cannot be added to second 0");
    for second in &seconds {
        recorder.second(second).unwrap();
    }
    parts.remove(0);
    let outcome = recorder.finish(parts).unwrap();
    assert_eq!(outcome["failed"], "1 of 2 ranks did not report an outcome: rank 0");
}

#[test]
fn a_second_that_was_lost_on_the_way_is_noticed() {
    let start = Instant::now();
    let folder = Folder::new("lost");
    let mut recorder = recorder(&folder, 2, 1);
    let (seconds, parts) = ranks(2, 1, start);
    for second in &seconds[..3] {
        recorder.second(second).unwrap();
    }
    let outcome = recorder.finish(parts).unwrap();
    let failed = outcome["failed"].as_str().unwrap();
    assert!(
        failed.starts_with("the ranks' totals differ from the sum of their seconds: 20000 requests and "),
        "{failed}"
    );
}

/// Directives have the settled counts over all ranks.
#[test]
fn directives_contain_facts_of_the_whole() {
    let start = Instant::now();
    let folder = Folder::new("directives");
    let mut recorder = recorder(&folder, 2, 1);
    let (seconds, _) = ranks(2, 1, start);
    recorder.second(&seconds[0]).unwrap();
    let directives = Directives::from_bytes(&recorder.directives()).unwrap();
    assert_eq!(directives, Directives { stop: false, over: false, settled: vec![10], clocks: Vec::new() });
    assert!(Directives::from_bytes(b"").is_err());
}
