//! Speed of indexing a file of documents: `offsets FILE`. Prints one JSON object. Reads the file first, so
//! that it is in the page cache. Delete an existing index before.

use std::collections::BTreeMap;
use std::time::Instant;

use loadframe_engine::workload::corpus::Corpora;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: offsets FILE")?;
    let bytes = std::fs::metadata(&file)?.len();
    let forms = BTreeMap::from([("c".to_owned(), json!({"files": [file]}))]);
    if std::path::Path::new(&format!("{file}.offsets")).exists() {
        return Err(format!("{file} has an index; remove {file}.offsets").into());
    }
    std::io::copy(&mut std::fs::File::open(&file)?, &mut std::io::sink())?;
    let started = Instant::now();
    let documents = Corpora::open(&forms, 1)?.get("c")?.documents();
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", json!({"documents": documents, "seconds": seconds, "bytes_per_second": bytes as f64 / seconds}));
    Ok(())
}
