//! Documents generated per second on one core: `generate [GENERATOR [DOCUMENTS]]`. Prints one JSON object.

use std::collections::BTreeMap;
use std::time::Instant;

use loadframe_engine::workload::corpus::Corpora;
use serde_json::json;

const BATCH: u64 = 5000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let generator = arguments.next().unwrap_or_else(|| "nyc_taxi_trip".to_owned());
    let documents: u64 = arguments.next().as_deref().unwrap_or("2000000").parse()?;
    let form = json!({"generate": generator, "documents": documents});
    let corpus = Corpora::open(&BTreeMap::from([(generator.clone(), form)]), 1)?.get(&generator)?;

    let mut batch = Vec::new();
    let mut bytes = 0;
    let started = Instant::now();
    for first in (0..documents).step_by(BATCH as usize) {
        batch.clear();
        corpus.append(first, BATCH, b"{\"index\":{}}\n", &mut batch);
        bytes += batch.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    let result = json!({
        "generator": generator,
        "documents": documents,
        "seconds": seconds,
        "documents_per_second": documents as f64 / seconds,
        "bytes_per_second": bytes as f64 / seconds,
    });
    println!("{result}");
    Ok(())
}
