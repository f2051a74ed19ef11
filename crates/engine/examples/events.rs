//! Events generated per second on one core: `events [GENERATOR [DOCUMENTS]]`. Prints one JSON object.

use std::time::Instant;

use loadframe_engine::event::generate::{Order, generator};
use loadframe_engine::plan::Level;
use loadframe_engine::profile::Profile;
use loadframe_engine::schedule::Share;
use serde_json::{Map, json};

/// As many bytes as a source hands on at once.
const BUFFER: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "adbids".to_owned());
    let documents: u64 = arguments.next().as_deref().unwrap_or("2000000").parse()?;
    let rate = Profile::new(&Level::Constant(10_000.0))?;
    let share = Share { index: 0, of: 1 };
    let order = Order { seed: 1, rate, documents: Some(documents), start: 0, share, with: &Map::new() };
    let mut generator = generator(&name, &order)?;

    let mut out = Vec::with_capacity(2 * BUFFER);
    let (mut events, mut bytes) = (0u64, 0);
    let started = Instant::now();
    while generator.next(&mut out).is_some() {
        out.push(b'\n');
        events += 1;
        if out.len() > BUFFER {
            bytes += out.len();
            out.clear();
        }
    }
    bytes += out.len();
    let seconds = started.elapsed().as_secs_f64();
    let result = json!({
        "generator": name,
        "documents": documents,
        "events": events,
        "seconds": seconds,
        "events_per_second": events as f64 / seconds,
        "bytes_per_second": bytes as f64 / seconds,
    });
    println!("{result}");
    Ok(())
}
