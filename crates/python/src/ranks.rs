//! Data exchanged between ranks, independent of transport: sums of seconds and outcomes, and rank 0's record.

use std::sync::Mutex;

use loadframe_engine::ranks::{RankRecorder, Refusal};
use loadframe_engine::recording::outcome::RankOutcome;
use loadframe_engine::recording::second::Second;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Return the sum of ranks' seconds, each as from `Handle.seconds`.
/// Raises ValueError for none, and unless all are the same second of the same plan.
#[pyfunction]
pub fn add<'py>(py: Python<'py>, seconds: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let sum = py.detach(|| {
        let mut sum: Option<Second> = None;
        for bytes in &seconds {
            let second = Second::from_bytes(bytes)?;
            match &mut sum {
                None => sum = Some(second),
                Some(sum) => sum.add(second)?,
            }
        }
        Ok(sum.ok_or("a sum has at least one second")?.to_bytes())
    });
    sum.map(|sum| PyBytes::new(py, &sum)).map_err(|error: String| PyValueError::new_err(error))
}

/// Return the number of a second in the phase, from 0. Raises ValueError if it cannot be parsed.
#[pyfunction]
pub fn second_number(second: &[u8]) -> PyResult<u64> {
    Second::from_bytes(second).map(|second| second.second).map_err(PyValueError::new_err)
}

/// Return the sum of ranks' outcomes, each as from `Handle.outcome`.
/// Raises ValueError for none, and unless all are of the same phase.
#[pyfunction]
pub fn add_outcomes(py: Python<'_>, parts: Vec<String>) -> PyResult<String> {
    let sum = py.detach(|| {
        let mut sum: Option<RankOutcome> = None;
        for part in &parts {
            let part = read(part)?;
            match &mut sum {
                None => sum = Some(part),
                Some(sum) => sum.add(part)?,
            }
        }
        serde_json::to_string(&sum.ok_or("a sum has at least one part")?).map_err(|error| error.to_string())
    });
    sum.map_err(PyValueError::new_err)
}

/// Parses one rank's outcome; fails for other JSON.
fn read(part: &str) -> Result<RankOutcome, String> {
    serde_json::from_str(part).map_err(|error| format!("this is not a part of an outcome: {error}"))
}

/// Rank 0's record of a phase with several ranks.
#[pyclass(name = "RankRecorder", frozen)]
pub struct PyRankRecorder(Mutex<RankRecorder>);

impl PyRankRecorder {
    /// Wraps a recorder.
    pub fn new(recorder: RankRecorder) -> Self {
        Self(Mutex::new(recorder))
    }

    /// Calls `act` with the recorder, locked, and returns its result.
    fn with<T>(&self, act: impl FnOnce(&mut RankRecorder) -> T) -> T {
        act(&mut self.0.lock().expect("no thread panics while it holds the lock"))
    }
}

#[pymethods]
impl PyRankRecorder {
    /// Return the start of the load, in seconds after the start of the run.
    #[getter]
    fn offset(&self) -> f64 {
        self.with(|recorder| recorder.offset().as_secs_f64())
    }

    /// Set the end of the warm-up (`measured_from`) and of the phase (`until`); None leaves one unchanged.
    /// Both are in whole seconds after the start of the load. The warm-up is at most the planned one.
    #[pyo3(signature = (measured_from=None, until=None))]
    fn adjust(&self, measured_from: Option<u64>, until: Option<u64>) {
        self.with(|recorder| recorder.adjust(measured_from, until));
    }

    /// Record the next second, the sum `total` over all ranks still running.
    /// Raises ValueError for a second out of order or of another plan, OSError if the files cannot be written.
    fn second(&self, py: Python<'_>, total: Vec<u8>) -> PyResult<()> {
        py.detach(|| self.with(|recorder| recorder.second(&total))).map_err(refused)
    }

    /// Return the current directives, for `Handle.apply` of each rank.
    fn directives<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.with(|recorder| recorder.directives()))
    }

    /// Return the progress over all ranks; see `Handle.progress`.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        crate::figures(py, &self.with(|recorder| recorder.progress()))
    }

    /// Return the measures over all ranks; see `Handle.measures`.
    fn measures(&self) -> crate::PyMeasures {
        crate::PyMeasures(self.with(|recorder| recorder.measures()))
    }

    /// Return whether a condition of the plan that ends the phase was met, so that all ranks must stop.
    fn stopped_by(&self) -> bool {
        self.with(|recorder| recorder.stopped_by())
    }

    /// Write the outcome, combined from the ranks' parts, and return it as JSON text.
    /// Raises ValueError for parts of another phase, OSError if the files cannot be written.
    fn finish(&self, py: Python<'_>, parts: Vec<String>) -> PyResult<String> {
        py.detach(|| {
            let parts = parts.iter().map(|part| read(part)).collect::<Result<_, _>>().map_err(Refusal::Input)?;
            self.with(|recorder| recorder.finish(parts))
        })
        .map(|outcome| outcome.to_string())
        .map_err(refused)
    }
}

/// Converts a refusal to ValueError for bad input, or OSError for files that cannot be written.
fn refused(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Input(words) => PyValueError::new_err(words),
        Refusal::Files(words) => PyOSError::new_err(words),
    }
}
