//! The module `loadframe._engine`: a plan goes in, recordings come out. No Python runs while load runs.

use pyo3::prelude::*;

/// The load generator.
#[pymodule]
fn _engine(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
