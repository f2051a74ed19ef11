//! Events of a source: logs of generated events, and the results of single lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use loadframe_engine::ingest::{self, FirstEvent, Preview};
use loadframe_engine::pacing::profile::Profile;
use loadframe_engine::pacing::schedule::Stride;
use loadframe_engine::plan::{Level, PlanError};
use loadframe_engine::util::calendar;
use loadframe_engine::workload::event::generate::{GeneratorOptions, generator};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde_json::Map;

/// Write the log of `documents` documents as NDJSON to `path`; return the number of lines.
/// `rate` documents begin per second, from the time `start` (such as `2017-03-01T12:00:00Z`). `seed` determines the
/// events. Raises PlanRefused for an unknown generator, a bad rate or time; OSError if the file cannot be written.
#[pyfunction]
#[pyo3(signature = (path, *, generator, seed, documents, rate, start))]
pub fn generate_events(
    py: Python<'_>,
    path: PathBuf,
    generator: &str,
    seed: u64,
    documents: u64,
    rate: f64,
    start: &str,
) -> PyResult<u64> {
    let wrong = || PlanError::new(format!("{start:?} is not an instant such as 2017-03-01T12:00:00Z"));
    let made = calendar::milliseconds(start).ok_or_else(wrong).and_then(|start| {
        let share = Stride { index: 0, of: 1 };
        let rate = Profile::new(&Level::Constant(rate))?;
        let with = Map::new();
        self::generator(
            generator,
            &GeneratorOptions { seed, rate, documents: Some(documents), start, share, with: &with },
        )
    });
    let mut events = made.map_err(super::refused)?;
    let write = || {
        let mut file = BufWriter::new(File::create(&path)?);
        let (mut line, mut lines) = (Vec::new(), 0);
        while events.next(&mut line).is_some() {
            line.push(b'\n');
            file.write_all(&line)?;
            line.clear();
            lines += 1;
        }
        file.flush()?;
        Ok(lines)
    };
    py.detach(write).map_err(|error: std::io::Error| PyOSError::new_err(format!("{}: {error}", path.display())))
}

/// Return how a source with the fields `events` (JSON of a plan) reads each line: its outcome and its text, in order.
/// The outcome is `event`, `dropped` or `dead letter`. The text is the line after the transformation, empty, or the
/// reason. `longest` is the maximum length of a line in bytes. Raises PlanRefused for fields or steps that cannot be
/// used.
#[pyfunction]
pub fn preview_lines(events: &str, longest: usize, lines: Vec<Vec<u8>>) -> PyResult<Vec<(&'static str, String)>> {
    let events = serde_json::from_str(events).map_err(|e| super::refused(PlanError::new(e.to_string())))?;
    let previews = ingest::preview(&events, longest, &lines).map_err(super::refused)?;
    let outcome = |preview| match preview {
        Preview::Event(line) => ("event", line),
        Preview::Dropped => ("dropped", String::new()),
        Preview::DeadLetter(reason) => ("dead letter", reason),
    };
    Ok(previews.into_iter().map(outcome).collect())
}

/// The search for the first event of the source `source` (JSON of a plan), which its phase reads again. The object
/// keeps a port open until the phase takes it over. Raises PlanRefused for fields that cannot be used.
#[pyclass(name = "FirstEvent", frozen)]
pub struct PyFirstEvent(FirstEvent);

#[pymethods]
impl PyFirstEvent {
    /// Create the search; opens nothing yet.
    #[new]
    fn new(source: &str) -> PyResult<Self> {
        let source = serde_json::from_str(source).map_err(|e| super::refused(PlanError::new(e.to_string())))?;
        FirstEvent::new(source).map(Self).map_err(super::refused)
    }

    /// Wait up to `seconds` until the source has an event.
    /// Raises PlanRefused if the source ends without one, none arrives in time, a file is damaged, or the port cannot
    /// be opened; ValueError for a negative or infinite number.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let patience = Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(e.to_string()))?;
        py.detach(|| self.0.wait(patience)).map_err(super::refused)
    }

    /// End `wait` in another thread soon, with an error.
    fn stop(&self) {
        self.0.stop();
    }
}
