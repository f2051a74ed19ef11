//! Spilling to disk when memory is full: no event is lost, and its age stays known.

use std::os::unix::fs::symlink;

use super::*;

/// Plans a port with spilling, and a store that leaves the first `unanswered` requests without an answer.
fn spilling(folder: &Folder, spill: u64, unanswered: u64) -> Value {
    let source = json!({
        "listen": {"address": "127.0.0.1:0"}, "batch": 500, "buffer": 100_000, "acknowledge": true,
        "spill": spill, "spill_folder": folder.0,
    });
    let mut plan = ingesting(source, json!("exhausted"));
    plan["operations"]["take_in"] = json!({"unanswered": unanswered});
    plan
}

/// Sends bids; returns how many are acknowledged when the connection ends.
fn send(address: SocketAddr, bids: u64) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    let heard = BufReader::new(stream.try_clone().unwrap());
    for first in (0..bids).step_by(100) {
        let lines: String = (first..first + 100).map(bid).collect();
        stream.write_all(lines.as_bytes()).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let last = heard.lines().last().unwrap().unwrap();
    serde_json::from_str::<Value>(&last).unwrap()["acknowledged"].as_u64().unwrap()
}

/// Sends 50,000 bids to a store that is unavailable until the source reports trouble with `disk`; returns the outcome
/// and the trouble.
fn troubled(disk: &Folder, folder: &Folder) -> (Value, String) {
    let texts = Folder::new();
    let down = file(&texts, "down", "");
    let mut plan = spilling(disk, 1 << 30, 0);
    plan["operations"]["take_in"]["down"] = json!(down);
    let (running, address) = listening::<Fussy>(&plan, folder);
    let sender = thread::spawn(move || send(address, 50_000));
    let begun = Instant::now();
    while running.progress().sources["ads"].trouble.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", running.progress().sources);
        thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(down).unwrap();
    assert_eq!(sender.join().unwrap(), 50_000);
    let outcome = settled(&running, 50_000);
    adds_up(&outcome);
    let trouble = outcome["sources"]["ads"]["trouble"][0].as_str().unwrap().to_owned();
    (outcome, trouble)
}

fn is_empty(folder: &Folder) -> bool {
    std::fs::read_dir(&folder.0).unwrap().next().is_none()
}

#[test]
fn events_beyond_the_memory_limit_are_spilled_and_sent_with_their_age() {
    let (disk, texts, folder) = (Folder::new(), Folder::new(), Folder::new());
    let down = file(&texts, "down", "");
    let mut plan = spilling(&disk, 1 << 30, 0);
    plan["operations"]["take_in"]["down"] = json!(down);
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let sender = thread::spawn(move || send(address, 50_000));
    // The store is unavailable for longer than the sender needs, but the sender does not wait.
    let begun = Instant::now();
    while running.progress().sources["ads"].accepted < 50_000 || begun.elapsed() < Duration::from_millis(500) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", running.progress().sources);
        thread::sleep(Duration::from_millis(5));
    }
    let stats = running.progress().sources["ads"].clone();
    assert!(stats.spilled > 10_000 && stats.waiting >= stats.spilled, "{stats:?}");
    assert!(is_empty(&disk), "its files have no names");
    std::fs::remove_file(down).unwrap();
    assert_eq!(sender.join().unwrap(), 50_000);
    let outcome = settled(&running, 50_000);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (50_000, 0), "{outcome}");
    assert!(count(&outcome, "most_bytes") < 400_000, "memory stays bounded while it is read back: {outcome}");
    assert_eq!(count(&outcome, "spilled"), 0);
    assert!(count(&outcome, "spilled_events") > 10_000, "{outcome}");
    let (bytes, most) = (count(&outcome, "spilled_bytes"), count(&outcome, "most_spilled_bytes"));
    assert!(most > 1_000_000 && most <= bytes, "{outcome}");
    // Most events wait for the store's first answer, which comes after more than half a second.
    let log = HistogramLog::read(&folder.0.join("histograms.hlog")).unwrap();
    let ages = log.total("p/take_in.event/response", 0.0, f64::INFINITY).unwrap();
    assert_eq!(ages.len(), 50_000);
    assert!(
        ages.value_at_quantile(0.5) > 100_000_000,
        "half of the events waited for {} ns",
        ages.value_at_quantile(0.5)
    );
}

#[test]
fn senders_wait_when_memory_and_disk_are_full_and_space_on_disk_is_used_again() {
    let (disk, folder) = (Folder::new(), Folder::new());
    let (running, address) = listening::<Fussy>(&spilling(&disk, 300_000, 6), &folder);
    assert_eq!(send(address, 50_000), 50_000);
    let outcome = settled(&running, 50_000);
    adds_up(&outcome);
    assert_eq!(count(&outcome, "indexed"), 50_000);
    assert!(count(&outcome, "most_spilled_bytes") <= 300_000, "{outcome}");
    assert!(count(&outcome, "most_bytes") < 500_000, "{outcome}");
    assert_eq!(outcome["sources"]["ads"]["trouble"], json!([]));
}

#[test]
fn a_full_disk_is_named_and_makes_senders_wait_and_nothing_is_lost() {
    let (disk, folder) = (Folder::new(), Folder::new());
    for number in 0..100 {
        symlink("/dev/full", disk.0.join(format!("spill-ads.{number}"))).unwrap();
    }
    let (outcome, trouble) = troubled(&disk, &folder);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "spilled_events")), (50_000, 0), "{outcome}");
    assert!(count(&outcome, "most_bytes") < 500_000, "{outcome}");
    assert!(trouble.contains("No space left on device") && trouble.contains("senders wait"), "{trouble}");
}

/// A file system in memory with a size in MB; `None` if this process may not mount one.
struct Small(Folder);

impl Small {
    fn new(megabytes: u64) -> Option<Self> {
        let folder = Folder::new();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(&folder.0);
        mount.output().is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_keeps_room_for_the_record_of_the_run() {
    let Some(small) = Small::new(66) else {
        eprintln!("not tested: this process may not mount a file system");
        return;
    };
    let folder = &small.0;
    let (outcome, trouble) = troubled(folder, folder);
    assert_eq!(count(&outcome, "indexed"), 50_000, "{outcome}");
    assert!((1..50_000).contains(&count(&outcome, "spilled_events")), "{outcome}");
    assert!(trouble.contains("64 MB of the disk are reserved for the recording"), "{trouble}");
    assert!(folder.0.join("histograms.hlog").exists());
}

#[test]
fn events_on_disk_are_left_over_when_the_phase_is_stopped() {
    let (disk, folder) = (Folder::new(), Folder::new());
    let mut plan = spilling(&disk, 1 << 30, u64::MAX);
    plan["sources"]["ads"]["acknowledge"] = json!(false);
    let (running, address) = listening::<Fussy>(&plan, &folder);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all((0..20_000).map(bid).collect::<String>().as_bytes()).unwrap();
    let begun = Instant::now();
    while running.progress().sources["ads"].accepted < 20_000 && begun.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(5));
    }
    running.stop();
    let outcome = ended(&running);
    adds_up(&outcome);
    assert_eq!((count(&outcome, "indexed"), count(&outcome, "left_over")), (0, 20_000), "{outcome}");
}

#[test]
fn generators_cannot_be_spilled() {
    let folder = Folder::new();
    let made = json!({"generate": {"generator": "adbids", "rate": 1}, "spill": 1000});
    let plan = serde_json::from_value(ingesting(made, json!("exhausted"))).unwrap();
    let refused = start::<Null>(plan, &folder.0).err().unwrap().message;
    assert!(refused.contains("generators wait"), "{refused}");
}
