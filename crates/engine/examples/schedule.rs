//! Cost of finding a generator's own requests among all: `schedule`. Prints one JSON object per number of
//! generators, with the CPU seconds of a Poisson arrival, and of an insert's number in a mix with 5 %
//! inserts.

use std::hint::black_box;

use loadframe_engine::pacing::profile::Profile;
use loadframe_engine::pacing::schedule::{Due, Stride};
use loadframe_engine::plan::{Arrivals, Level};
use loadframe_engine::workload::numbering::Numbering;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Requests of one generator.
const OWN: usize = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for generators in [1u64, 10, 100, 1000, 10_000, 100_000] {
        let share = Stride { index: generators / 2, of: generators };
        // A thousand requests a second per generator.
        let rate = Profile::new(&Level::Constant(1000.0 * generators as f64)).map_err(|error| error.message)?;
        let began = cpu();
        let last = Due::new(rate, Arrivals::Poisson, share, 1, 2).take(OWN).last();
        let arrival = (cpu() - began) / OWN as f64;
        let mut numbering = Numbering::drawn(vec![0.05], 1, 2);
        let began = cpu();
        for n in (share.index..).step_by(share.of as usize).take(OWN) {
            black_box(numbering.at(n));
        }
        let number = (cpu() - began) / OWN as f64;
        let due = last.map(|(_, due)| due.as_secs_f64());
        println!("{}", json!({"generators": generators, "arrival": arrival, "number": number, "last_due": due}));
    }
    Ok(())
}

/// Returns the CPU time of this thread, s.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
