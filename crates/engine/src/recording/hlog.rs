//! Writes `histograms.hlog`, an HdrHistogram log (version 1.3), in nanoseconds. Tags:
//! `PHASE/OPERATION/response`, `.../service`, `.../failure`, `.../setup`, `.../abandoned`, `.../overhead` and
//! `.../corrected`, with the suffix `/warmup` for the warm-up; `generator/lateness`, `generator/lag`.

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

/// A histogram log, one entry per tag and second.
pub struct Log {
    file: LineWriter<File>,
    offset: Duration,
    serializer: V2DeflateSerializer,
    builder: IntervalLogWriterBuilder,
    line: Vec<u8>,
}

impl Log {
    /// Creates the log at `path`, replacing an older one, and writes its header. `offset`: start of the load after the
    /// run's start. `began`: the run's start by the wall clock. Fails if the file cannot be written.
    pub fn create(path: &Path, offset: Duration, began: SystemTime) -> io::Result<Self> {
        let mut file = LineWriter::new(File::create(path)?);
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.with_max_value_divisor(1e6);
        IntervalLogWriterBuilder::new()
            .add_comment("Values are nanoseconds; seconds are since the run began; Interval_Max is milliseconds")
            .with_start_time(began)
            .with_base_time(began)
            .with_max_value_divisor(1e6)
            .begin_log_with(&mut file, &mut serializer)?;
        Ok(Self { file, offset, serializer, builder, line: Vec::new() })
    }

    /// Appends the histogram of second number `second` of the phase. Fails for an invalid tag, such as one with a
    /// space, and if the file cannot be written.
    pub fn write(&mut self, tag: &str, second: u64, histogram: &Histogram<u64>) -> io::Result<()> {
        let tag = Tag::new(tag).ok_or_else(|| io::Error::other(format!("{tag:?} is not a valid tag")))?;
        let start = self.offset + Duration::from_secs(second);
        self.line.clear();
        // The log writer borrows its output, so it lives for one line only. Its header is dropped.
        self.builder
            .begin_log_with(&mut self.line, &mut self.serializer)?
            .write_histogram(histogram, start, Duration::from_secs(1), Some(tag))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        let header = self.line.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.file.write_all(&self.line[header..])
    }

    /// Flushes the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
