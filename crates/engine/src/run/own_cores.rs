//! Cores of spinning workers. Each worker has a separate core, and one core is left for all other threads.

use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::plan::PlanError;

/// Length of a measurement of how busy cores are, and the largest number of them.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: u32 = 10;
/// Share of its time that a core may be busy without its worker.
const BUSY: f64 = 0.1;
/// Remedy for busy cores.
const REMEDY: &str = "stop them, reserve cores (--cores for nodes, taskset for Loadframe), or remove \"spin\"";

/// Returns a core for each of `workers` workers: the least busy that the calling thread may use, least busy first.
/// Blocks at least 0.2 s to measure them. Refuses too few cores (one more than workers is needed), and cores that stay
/// busy for 2 s.
pub fn choose(workers: u64) -> Result<Vec<usize>, PlanError> {
    let unreadable = |error| PlanError::machine(format!("cannot read the cores of a thread: {error}"));
    let allowed = sched_getaffinity(None).map_err(|error| unreadable(std::io::Error::from(error)))?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if allowed.len() as u64 <= workers {
        return Err(PlanError::new(format!(
            "\"spin\" needs one core per worker thread and one for other threads: {workers} threads need {} \
             cores, and this process may use {}; use fewer threads, or remove \"spin\"",
            workers + 1,
            allowed.len()
        )));
    }
    let mut before = times().map_err(unreadable)?;
    for look in 1.. {
        std::thread::sleep(LOOK);
        let after = times().map_err(unreadable)?;
        let mut busy: Vec<(f64, usize)> =
            allowed.iter().map(|core| (busy_share(&before, &after, *core), *core)).collect();
        busy.sort_by(|a, b| a.0.total_cmp(&b.0));
        busy.truncate(workers as usize);
        match busy.last() {
            Some((share, core)) if *share > BUSY && look == LOOKS => {
                let share = share * 100.0;
                return Err(PlanError::new(format!(
                    "\"spin\" needs cores that nothing else uses, and other processes use {share:.0} % of core {core}: \
                     {REMEDY}"
                )));
            }
            Some((share, _)) if *share > BUSY => before = after,
            _ => return Ok(busy.into_iter().map(|(_, core)| core).collect()),
        }
    }
    unreachable!("the last measurement returns")
}

/// Restricts the calling thread to core number `core`; fails if the thread may not use it.
pub fn pin(core: usize) -> std::io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Busy and total time of a core since the system started, in ticks.
type CoreTime = (u64, u64);

/// Reads the times of all cores from `/proc/stat`, by core number; `None` for a core that is offline.
fn times() -> std::io::Result<Vec<Option<CoreTime>>> {
    Ok(parse(&fs::read_to_string("/proc/stat")?))
}

/// Parses `/proc/stat`: the times of all cores, by core number; `None` for a core that is offline.
fn parse(stat: &str) -> Vec<Option<CoreTime>> {
    let mut times = Vec::new();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        let Some(core) = core else { continue };
        // user nice system idle iowait irq softirq steal; the others are parts of user (proc(5)).
        let spent: Vec<u64> = words.take(8).filter_map(|figure| figure.parse().ok()).collect();
        let idle: u64 = spent.iter().skip(3).take(2).sum();
        if times.len() <= core {
            times.resize(core + 1, None);
        }
        let total: u64 = spent.iter().sum();
        times[core] = Some((total - idle, total));
    }
    times
}

/// Returns the share of time that a core was busy between two readings; 1 if it is unknown.
fn busy_share(before: &[Option<CoreTime>], after: &[Option<CoreTime>], core: usize) -> f64 {
    let at = |times: &[Option<CoreTime>]| times.get(core).copied().flatten();
    let (Some(before), Some(after)) = (at(before), at(after)) else { return 1.0 };
    let total = after.1.saturating_sub(before.1);
    if total == 0 { 1.0 } else { after.0.saturating_sub(before.0) as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  30 0 0 70 0 0 0 0 0 0\ncpu0 10 0 0 20 5 0 0 0 0 0\ncpu2 20 0 0 50 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  50 0 0 90 0 0 0 0 0 0\ncpu0 10 0 1 26 8 0 0 0 9 0\ncpu2 25 1 1 51 0 1 1 0 0 0\nintr 9\n";

    #[test]
    fn the_busy_share_of_a_core_excludes_idle_time() {
        let (before, after) = (parse(BEFORE), parse(AFTER));
        let share = |core| busy_share(&before, &after, core);
        assert!((share(0) - 0.1).abs() < 1e-9, "{}", share(0));
        assert!((share(2) - 0.9).abs() < 1e-9, "{}", share(2));
        assert_eq!((share(1), share(9)), (1.0, 1.0), "unknown cores");
        assert_eq!(busy_share(&before, &before, 0), 1.0, "no time has passed");
    }

    #[test]
    fn more_workers_than_cores_are_refused() {
        let error = choose(CpuSet::MAX_CPU as u64).unwrap_err();
        assert!(error.message.starts_with("\"spin\" needs one core per worker thread"), "{error}");
    }

    #[test]
    fn a_pinned_thread_may_use_one_core() {
        std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core)).unwrap();
            pin(last).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert_eq!((now.count(), now.is_set(last)), (1, true));
        })
        .join()
        .unwrap();
    }
}
