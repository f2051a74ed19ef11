//! How fast a file of documents is indexed: `offsets FILE`. Prints one JSON object; the second of two passes counts, so
//! that the file comes from the page cache.

use std::collections::BTreeMap;
use std::time::Instant;

use loadframe_engine::corpus::Corpora;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: offsets FILE")?;
    let bytes = std::fs::metadata(&file)?.len();
    let forms = BTreeMap::from([("c".to_owned(), json!({"files": [file]}))]);
    let mut seconds = 0.0;
    let mut documents = 0;
    for _ in 0..2 {
        let started = Instant::now();
        documents = Corpora::open(&forms, 1)?.get("c")?.documents();
        seconds = started.elapsed().as_secs_f64();
    }
    println!("{}", json!({"documents": documents, "seconds": seconds, "bytes_per_second": bytes as f64 / seconds}));
    Ok(())
}
