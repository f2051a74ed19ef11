//! The module `loadframe._engine`: runs plans and records the results. Python code does not run during the
//! load; the module releases the interpreter's lock whenever it waits.

// The drivers' futures are nested deeply, and their layouts are computed recursively.
#![recursion_limit = "256"]

mod authority;
mod events;
mod ranks;
mod signer;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use loadframe_drivers::any::{AnyDriver, DRIVERS};
use loadframe_engine::driver::NO_NODE;
use loadframe_engine::plan::{Plan, PlanError, PlanErrorKind};
use loadframe_engine::recording::durations;
use loadframe_engine::recording::histograms::HistogramLog;
use loadframe_engine::recording::measures::{BOUNDS, SharedMeasures};
use loadframe_engine::recording::tally::Progress;
use loadframe_engine::run::{
    Checked, Prepared, Running, check_operations, prepare_rank, render_operations, start, validate,
};
use loadframe_engine::util::panics;
use loadframe_null_server::NullServer;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use ranks::PyRankRecorder;

create_exception!(_engine, StartFailed, PyException, "This machine cannot run the phase; the message says why.");
create_exception!(_engine, PlanRefused, PyException, "The plan cannot be carried out; the message says why.");
create_exception!(_engine, TargetRefused, PyException, "The target refuses to be used so; the message says why.");

/// A running or finished phase.
#[pyclass(name = "Handle", frozen)]
struct PyHandle(Running);

#[pymethods]
impl PyHandle {
    /// Wait up to `seconds` for the end of the phase; return whether it has ended.
    /// Raises ValueError for a negative or infinite number.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(py.detach(|| self.0.wait(limit)))
    }

    /// End the phase now, without waiting for requests in flight or the end; measurements so far are kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Close all sources of events: their queued events are sent, then the phase ends.
    fn close(&self) {
        self.0.close();
    }

    /// Keep the present number of active clients of closed-loop streams, regardless of later stages.
    fn hold(&self) {
        self.0.hold();
    }

    /// Set the ends of the warm-up (`measured_from`) and of the phase (`until`).
    /// Both are in whole seconds after the start of the load; None and an end that is already set change nothing.
    /// Raises ValueError if that time has passed, or if the plan is not `adjustable`.
    #[pyo3(signature = (measured_from=None, until=None))]
    fn adjust(&self, measured_from: Option<u64>, until: Option<u64>) -> PyResult<()> {
        self.0.adjust(measured_from, until).map_err(PyValueError::new_err)
    }

    /// Return the start of the load, in seconds after the start of the run.
    #[getter]
    fn offset(&self) -> f64 {
        self.0.start_time().offset.as_secs_f64()
    }

    /// Return the start of the load, in seconds of CLOCK_MONOTONIC.
    #[getter]
    fn started(&self) -> f64 {
        self.0.start_time().monotonic
    }

    /// Return the records of this rank's seconds since the last call, in order, and remove them here.
    /// Each is input of `add`. Empty for a phase that `start` began.
    fn seconds<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.seconds().iter().map(|second| PyBytes::new(py, second)).collect()
    }

    /// Apply the directives from `RankRecorder.directives` on this rank. Raises ValueError if they cannot be
    /// parsed.
    fn apply(&self, directives: &[u8]) -> PyResult<()> {
        self.0.apply(directives).map_err(PyValueError::new_err)
    }

    /// Change the target's hosts (`host:port`) while the phase runs.
    /// Within seconds, new hosts get their share of the requests and removed hosts get none. Raises PlanRefused,
    /// without a change, for hosts that cannot be resolved.
    fn set_hosts(&self, py: Python<'_>, hosts: Vec<String>) -> PyResult<()> {
        py.detach(|| self.0.set_hosts(&hosts)).map_err(refused)
    }

    /// Return the progress for display: totals so far and the last second's rates; times in seconds.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        figures(py, &self.0.progress())
    }

    /// Return the measures of this process.
    fn measures(&self) -> PyMeasures {
        PyMeasures(self.0.measures())
    }

    /// Return the latest answers to the operations in the plan's `answers`, and remove them here.
    /// Each is a pair of operation and bytes, and is returned once.
    fn answers<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>)> {
        self.0.answers().into_iter().map(|(name, answer)| (name, PyBytes::new(py, &answer))).collect()
    }

    /// Wait for the end and return the outcome as JSON text: the content of `outcome.json`, or the rank's part of it.
    /// Raises RuntimeError if the records could not be written, or at a second call.
    fn outcome(&self, py: Python<'_>) -> PyResult<String> {
        let outcome = py.detach(|| self.0.outcome()).map_err(PyRuntimeError::new_err)?;
        Ok(outcome.to_string())
    }
}

/// Counts and bucketed times of a phase, readable during the load and after its end.
#[pyclass(name = "Measures", frozen)]
pub struct PyMeasures(pub SharedMeasures);

#[pymethods]
impl PyMeasures {
    /// Return as JSON text the totals since the phase began, and the planned load and requests in flight of the last
    /// second.
    fn read(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.0.read())).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Return the spans of sampled requests since the last call as JSON text, and remove them here.
    /// The keys are `kept`, the spans, and `dropped`, the number of spans that were not kept.
    fn spans(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.0.spans.take())).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

/// Returns the progress as a dictionary of totals and rates, with times in seconds.
/// `operations` has a pair of the numbers of due and failed requests by operation, `sources` a dictionary by source.
fn figures<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seconds", progress.seconds)?;
    dict.set_item("requests", progress.requests)?;
    dict.set_item("errors", progress.errors)?;
    dict.set_item("documents", progress.documents)?;
    dict.set_item("throughput", progress.throughput)?;
    dict.set_item("documents_throughput", progress.documents_throughput)?;
    dict.set_item("response_p50", seconds(progress.response.0 as f64))?;
    dict.set_item("response_p99", seconds(progress.response.1 as f64))?;
    dict.set_item("in_flight", progress.in_flight)?;
    dict.set_item("oldest_in_flight", progress.oldest_in_flight.as_secs_f64())?;
    let operations = PyDict::new(py);
    for (name, requests) in &progress.operations {
        operations.set_item(name, (requests.due, requests.failed))?;
    }
    dict.set_item("operations", operations)?;
    let sources = PyDict::new(py);
    for (name, told) in &progress.sources {
        let source = PyDict::new(py);
        source.set_item("lines", told.lines)?;
        source.set_item("dropped", told.dropped)?;
        source.set_item("accepted", told.accepted)?;
        source.set_item("indexed", told.indexed)?;
        source.set_item("dead_letters", told.dead())?;
        source.set_item("waiting", told.waiting)?;
        source.set_item("spilled", told.spilled)?;
        source.set_item("kinds", told.kinds.clone())?;
        source.set_item("reader_cpu", told.reader_cpu.clone())?;
        source.set_item("visible", told.looked_for.map(|looked_for| looked_for.up_to))?;
        source.set_item("address", told.address.as_deref())?;
        sources.set_item(name, source)?;
    }
    dict.set_item("sources", sources)?;
    Ok(dict)
}

/// A checked phase of one rank, ready to start.
#[pyclass(name = "Prepared", frozen)]
struct PyPrepared(Mutex<Option<Box<dyn Prepared>>>);

impl PyPrepared {
    /// Wraps a checked phase that can begin once.
    fn new(prepared: Box<dyn Prepared>) -> Self {
        Self(Mutex::new(Some(prepared)))
    }

    /// Returns the RuntimeError for a phase that has already begun.
    fn gone() -> PyErr {
        PyRuntimeError::new_err("this phase has begun already")
    }
}

#[pymethods]
impl PyPrepared {
    /// Start the load at `start`, in seconds of this machine's CLOCK_MONOTONIC.
    /// `start` may be past; by default it is the plan's start time, or as soon as possible. Raises RuntimeError at a
    /// second call, PlanRefused for a time more than a day away or a port that cannot be opened, StartFailed if a
    /// thread cannot start.
    #[pyo3(signature = (start=None))]
    fn begin(&self, py: Python<'_>, start: Option<f64>) -> PyResult<PyHandle> {
        let prepared = self.0.lock().expect("no thread panics while it holds the lock").take();
        let prepared = prepared.ok_or_else(Self::gone)?;
        ask(py, || prepared.begin(start)).map(PyHandle)
    }

    /// Create rank 0's record of the phase in `folder`; `start` as for `begin`.
    /// Raises RuntimeError after `begin`, PlanRefused for a time more than a day away, StartFailed if the folder cannot
    /// be written.
    #[pyo3(signature = (folder, start=None))]
    fn recorder(&self, py: Python<'_>, folder: PathBuf, start: Option<f64>) -> PyResult<PyRankRecorder> {
        let prepared = self.0.lock().expect("no thread panics while it holds the lock");
        let prepared = prepared.as_ref().ok_or_else(Self::gone)?;
        ask(py, || prepared.recorder(&folder, start)).map(PyRankRecorder::new)
    }
}

/// Start a phase that records into `folder`. `plan` is JSON text.
/// Before anything is sent, raises PlanRefused for a bad plan, TargetRefused if the target refuses it, and StartFailed
/// if the folder cannot be written or a thread cannot start.
#[pyfunction(name = "start")]
fn start_phase(py: Python<'_>, plan: &str, folder: PathBuf) -> PyResult<PyHandle> {
    let plan = parse(plan)?;
    let folder: &Path = &folder;
    ask(py, || start::<AnyDriver>(plan, folder)).map(PyHandle)
}

/// Check and map the plan of one rank, ready to start at the agreed time. Raises the same errors as `start`.
#[pyfunction(name = "prepare_rank")]
fn prepare_phase_of_rank(py: Python<'_>, plan: &str) -> PyResult<PyPrepared> {
    let plan = parse(plan)?;
    ask(py, || prepare_rank::<AnyDriver>(plan)).map(PyPrepared::new)
}

/// Start the phase of one rank at the plan's start time: `prepare_rank(plan).begin()`. Raises the same errors as
/// `start`.
#[pyfunction]
fn start_rank(py: Python<'_>, plan: &str) -> PyResult<PyHandle> {
    prepare_phase_of_rank(py, plan)?.begin(py, None)
}

/// Check a plan and map its operations, without load or files. The driver may contact the target.
/// Raises PlanRefused for a bad plan, TargetRefused if the target refuses it, StartFailed for a fault of this machine.
#[pyfunction(name = "validate")]
fn validate_plan(py: Python<'_>, plan: &str) -> PyResult<()> {
    let plan = parse(plan)?;
    ask(py, || validate::<AnyDriver>(plan, true))
}

/// Send each operation of the plan once, and return a dictionary for each.
/// It has the request and answer as text, the times in seconds, the number of documents, node number, error class and
/// message. Raises PlanRefused for a bad plan, TargetRefused if the target refuses it.
#[pyfunction]
fn check<'py>(py: Python<'py>, plan: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let plan = parse(plan)?;
    let shown: Vec<Checked> = ask(py, || check_operations::<AnyDriver>(plan))?;
    let describe = |Checked { operation, reply, exchange, setup }| {
        let dict = PyDict::new(py);
        dict.set_item("operation", operation)?;
        dict.set_item("request", exchange.request)?;
        dict.set_item("answer", exchange.answer)?;
        dict.set_item("service_time", (reply.done - reply.sent).as_secs_f64())?;
        dict.set_item("setup_time", setup.map(|setup| setup.as_secs_f64()))?;
        dict.set_item("documents", reply.documents)?;
        dict.set_item("node", Some(reply.node).filter(|node| *node != NO_NODE))?;
        let failure = reply.outcome.err();
        dict.set_item("error", failure.as_ref().map(|failure| failure.class.name()))?;
        dict.set_item("message", failure.map(|failure| failure.message))?;
        Ok(dict)
    };
    shown.into_iter().map(describe).collect()
}

/// Return each operation of the plan and its request as text, without sending it.
/// The text is None for a request that exists only during sending. Raises PlanRefused for a bad plan, TargetRefused if
/// the target refuses it.
#[pyfunction]
fn render(py: Python<'_>, plan: &str) -> PyResult<Vec<(String, Option<String>)>> {
    let plan = parse(plan)?;
    ask(py, || render_operations::<AnyDriver>(plan))
}

/// Reads a plan from JSON. Raises PlanRefused if it cannot be read.
fn parse(plan: &str) -> PyResult<Plan> {
    serde_json::from_str(plan).map_err(|e| PlanRefused::new_err(format!("the plan cannot be read: {e}")))
}

/// Calls `question`, a function of the engine, without the interpreter's lock, and returns its result. Raises
/// RuntimeError if it panics, and the exception of its error.
fn ask<T: Send>(py: Python<'_>, question: impl FnOnce() -> Result<T, PlanError> + Send) -> PyResult<T> {
    let answer = py.detach(|| {
        let heard: Rc<RefCell<String>> = Rc::default();
        let tell = heard.clone();
        let _listening = panics::listen(move |words| *tell.borrow_mut() = words);
        catch_unwind(AssertUnwindSafe(question)).map_err(|_| heard.take())
    });
    match answer {
        Ok(answer) => answer.map_err(refused),
        Err(words) => Err(PyRuntimeError::new_err(format!("it panicked: {words}"))),
    }
}

/// Converts an error to the exception of its kind: PlanRefused, TargetRefused or StartFailed.
fn refused(error: PlanError) -> PyErr {
    match error.kind {
        PlanErrorKind::Plan => PlanRefused::new_err(error.message),
        PlanErrorKind::Target => TargetRefused::new_err(error.message),
        PlanErrorKind::Machine => StartFailed::new_err(error.message),
    }
}

/// Converts nanoseconds to seconds.
fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}

/// Histograms of a run, by tag and second.
#[pyclass(name = "HistogramLog", frozen)]
struct PyLog(HistogramLog);

#[pymethods]
impl PyLog {
    /// Read `histograms.hlog`; raises OSError if it cannot be read or is not such a log.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| HistogramLog::read(&path)).map(Self).map_err(PyOSError::new_err)
    }

    /// Return the tags, sorted: `PHASE/OPERATION/response`, ...
    fn tags(&self) -> Vec<String> {
        self.0.tags().map(str::to_owned).collect()
    }

    /// Return the exact sum of a tag's histograms that start in `start..end`; empty if there are none.
    /// `start` (included) and `end` (excluded) are in seconds since the run began. Raises OSError if a histogram cannot
    /// be decoded.
    #[pyo3(signature = (tag, start=0.0, end=f64::INFINITY))]
    fn total(&self, py: Python<'_>, tag: &str, start: f64, end: f64) -> PyResult<PyHistogram> {
        py.detach(|| self.0.total(tag, start, end)).map(PyHistogram).map_err(PyOSError::new_err)
    }

    /// Return each second of a tag in order: its start, in seconds since the run began, and its histogram.
    /// Empty for an unknown tag. Raises OSError if a histogram cannot be decoded.
    fn seconds(&self, py: Python<'_>, tag: &str) -> PyResult<Vec<(f64, PyHistogram)>> {
        let seconds = py.detach(|| self.0.seconds(tag)).map_err(PyOSError::new_err)?;
        Ok(seconds.into_iter().map(|(start, histogram)| (start, PyHistogram(histogram))).collect())
    }
}

/// A histogram of durations. All values returned are in seconds.
#[pyclass(name = "Histogram", frozen)]
struct PyHistogram(hdrhistogram::Histogram<u64>);

impl PyHistogram {
    /// Converts a value in the histogram's unit to seconds.
    fn seconds(&self, value: f64) -> f64 {
        value * durations::unit(&self.0) as f64 / 1e9
    }
}

#[pymethods]
impl PyHistogram {
    /// Return the quantile `q` (0 to 1) of the durations, in seconds; `None` for an empty histogram.
    /// Raises ValueError for another `q`.
    fn quantile(&self, q: f64) -> PyResult<Option<f64>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(PyValueError::new_err(format!("a quantile lies between 0 and 1, not at {q}")));
        }
        Ok((!self.0.is_empty()).then(|| self.seconds(self.0.value_at_quantile(q) as f64)))
    }

    /// Return the exact sum of both histograms, neither of which changes: `response + failure` covers all requests.
    /// Raises ValueError if they cannot be added.
    fn __add__(&self, other: &Self) -> PyResult<Self> {
        let mut sum = self.0.clone();
        durations::add(&mut sum, &other.0)
            .map_err(|e| PyValueError::new_err(format!("these histograms cannot be added: {e}")))?;
        Ok(Self(sum))
    }

    /// Return the number of durations.
    #[getter]
    fn count(&self) -> u64 {
        self.0.len()
    }

    /// Return the mean, in seconds; `None` for an empty histogram.
    #[getter]
    fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.seconds(self.0.mean()))
    }

    /// Return the maximum, in seconds, at the histogram's resolution; `None` for an empty histogram.
    #[getter]
    fn max(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.seconds(self.0.max() as f64))
    }
}

/// A server on loopback that answers at once and stores nothing, for measuring the generator itself.
#[pyclass(name = "NullServer", frozen)]
struct PyNullServer {
    server: Mutex<Option<NullServer>>,
    #[pyo3(get)]
    address: String,
}

#[pymethods]
impl PyNullServer {
    /// Start a server for the driver's protocol on a free port, given by `address` (`host:port`).
    /// Raises OSError if that fails, or if no null server supports the protocol.
    #[new]
    fn new(driver: &str) -> PyResult<Self> {
        let server = NullServer::start(driver)?;
        let address = server.address().to_string();
        Ok(Self { server: Mutex::new(Some(server)), address })
    }

    /// Stop the server and wait for its thread. Does nothing if it is stopped.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.server.lock().expect("no thread panics while it holds the lock").take()));
    }
}

/// The load generator. Adds its functions, classes, exceptions and constants to the module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(start_phase, module)?)?;
    module.add_function(wrap_pyfunction!(prepare_phase_of_rank, module)?)?;
    module.add_function(wrap_pyfunction!(start_rank, module)?)?;
    module.add_function(wrap_pyfunction!(events::generate_events, module)?)?;
    module.add_function(wrap_pyfunction!(events::preview_lines, module)?)?;
    module.add_function(wrap_pyfunction!(authority::make_authority, module)?)?;
    module.add_function(wrap_pyfunction!(authority::issue_certificate, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::add, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::second_number, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::add_outcomes, module)?)?;
    module.add_function(wrap_pyfunction!(validate_plan, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(render, module)?)?;
    module.add_class::<PyHandle>()?;
    module.add_class::<PyPrepared>()?;
    module.add_class::<PyMeasures>()?;
    module.add("MEASURE_BOUNDS", BOUNDS.map(|bound| seconds(bound as f64)).to_vec())?;
    module.add_class::<PyRankRecorder>()?;
    module.add_class::<PyLog>()?;
    module.add_class::<PyHistogram>()?;
    module.add_class::<PyNullServer>()?;
    module.add_class::<signer::PySigner>()?;
    module.add_class::<events::PyFirstEvent>()?;
    module.add("StartFailed", module.py().get_type::<StartFailed>())?;
    module.add("PlanRefused", module.py().get_type::<PlanRefused>())?;
    module.add("TargetRefused", module.py().get_type::<TargetRefused>())?;
    module.add("DRIVERS", DRIVERS.to_vec())
}
