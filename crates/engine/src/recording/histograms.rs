//! Reads histogram logs of any program: exact totals over a range of seconds.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::recording::durations::{add, histogram};

/// A log in memory. Histograms are decoded on request.
pub struct HistogramLog {
    entries: BTreeMap<String, Vec<Entry>>,
}

struct Entry {
    start: f64,
    encoded: String,
}

impl HistogramLog {
    /// Reads a log into memory. Fails if the file cannot be read, or if an entry cannot be parsed.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for (number, entry) in IntervalLogIterator::new(&bytes).enumerate() {
            match entry {
                Ok(LogEntry::Interval(interval)) => {
                    let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
                    let start = interval.start_timestamp().as_secs_f64();
                    entries
                        .entry(tag)
                        .or_default()
                        .push(Entry { start, encoded: interval.encoded_histogram().to_owned() });
                }
                Ok(_) => {}
                Err(_) => return Err(format!("{}: entry {} is not an interval histogram", path.display(), number + 1)),
            }
        }
        Ok(Self { entries })
    }

    /// Returns the tags of the log, sorted.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the sum of a tag's histograms that start in `from..to`, seconds since the run began; empty without any.
    /// It has the unit of the first one; see [`crate::recording::durations::unit`]. Fails if a histogram cannot be
    /// decoded.
    pub fn total(&self, tag: &str, from: f64, to: f64) -> Result<Histogram<u64>, String> {
        let mut sum = None;
        for entry in self.entries.get(tag).into_iter().flatten() {
            // Starts are written with three decimals: allow for half of the last.
            if entry.start >= from - 0.0005 && entry.start < to - 0.0005 {
                include(&mut sum, tag, entry)?;
            }
        }
        Ok(sum.unwrap_or_else(histogram))
    }

    /// Returns each second of a tag, ascending: its start, seconds since the run began, and the sum of its histograms.
    /// Empty for an unknown tag. Fails if a histogram cannot be decoded.
    pub fn seconds(&self, tag: &str) -> Result<Vec<(f64, Histogram<u64>)>, String> {
        let mut seconds: BTreeMap<u64, (f64, Option<Histogram<u64>>)> = BTreeMap::new();
        for entry in self.entries.get(tag).into_iter().flatten() {
            let (_, sum) = seconds.entry((entry.start * 1000.0).round() as u64).or_insert((entry.start, None));
            include(sum, tag, entry)?;
        }
        Ok(seconds.into_values().map(|(start, sum)| (start, sum.unwrap_or_else(histogram))).collect())
    }
}

/// Adds an entry to a sum, which takes the unit of its first entry. Fails if the entry cannot be decoded or added; the
/// error names the tag and the entry's start.
fn include(sum: &mut Option<Histogram<u64>>, tag: &str, entry: &Entry) -> Result<(), String> {
    let histogram = decode(tag, entry)?;
    match sum {
        Some(sum) => add(sum, &histogram).map_err(|e| format!("{tag} at {} s: {e}", entry.start)),
        None => {
            *sum = Some(histogram);
            Ok(())
        }
    }
}

/// Decodes the histogram of an entry; the error names the tag and the entry's start.
fn decode(tag: &str, entry: &Entry) -> Result<Histogram<u64>, String> {
    let fail = |cause: String| format!("{tag} at {} s: {cause}", entry.start);
    let bytes = STANDARD.decode(&entry.encoded).map_err(|e| fail(format!("no base64: {e}")))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| fail(format!("no histogram: {e}")))
}
