//! Cost of recording a request on one core: `record [REQUESTS]`. Prints one JSON object.
//!
//! Requests have the spacing of a driver with immediate answers, so that seconds end as often as in a run.
//! Finished seconds are discarded; in a run, a thread writes them.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loadframe_engine::driver::Reply;
use loadframe_engine::recording::recorder::{Interval, Recorder, Times};
use serde_json::json;

const APART: Duration = Duration::from_nanos(250);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u32 = std::env::args().nth(1).as_deref().unwrap_or("50000000").parse()?;
    let (finished, intervals) = channel::<Interval>();
    let (recycle, empty) = channel();
    let thrown_away = std::thread::spawn(move || {
        for mut interval in intervals {
            interval.clear();
            drop(recycle.send(interval));
        }
    });
    let start = Instant::now();
    // The maximum number of clients of a worker; all are in flight whenever a second ends.
    let waiting = vec![Some((0, start)); 8];
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, false, finished, empty);

    let began = Instant::now();
    for k in 0..requests {
        let scheduled = start + APART * k;
        // Spread over three decades like response times: a few microseconds to a few milliseconds.
        let took = Duration::from_nanos(2_000 << (k.wrapping_mul(2_654_435_761) >> 29));
        let done = scheduled + took.min(APART * k);
        let times = Times { scheduled, started: scheduled, ends: None, client: 0, trace: None };
        let reply = Reply { bytes_sent: 100, bytes_received: 300, documents: 1, ..Reply::new(scheduled, done, Ok(())) };
        recorder.request(0, times, reply, &waiting);
    }
    let seconds = began.elapsed().as_secs_f64();
    recorder.finish(start + APART * requests, &[]);
    drop(recorder);
    thrown_away.join().map_err(|_| "the thread that throws away panicked")?;
    println!("{}", json!({"requests": requests, "seconds_per_request": seconds / f64::from(requests)}));
    Ok(())
}
