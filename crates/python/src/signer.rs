//! Signatures of requests that Python sends, by the code that signs the load.

use std::path::PathBuf;

use loadframe_drivers::Authorization;
use loadframe_engine::plan::access::Auth;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Signs requests. Reads the key again when its file changes.
#[pyclass(name = "Signer", frozen)]
pub struct PySigner(Authorization);

#[pymethods]
impl PySigner {
    /// Create a signer. `auth` is the JSON of a plan's credentials, `file` the path of their secret's file.
    /// Raises ValueError if they cannot be used.
    #[new]
    #[pyo3(signature = (auth, file=None))]
    fn new(auth: &str, file: Option<PathBuf>) -> PyResult<Self> {
        let auth: Auth = serde_json::from_str(auth).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let signer = Authorization::new(&auth, file).map_err(|error| PyValueError::new_err(error.message))?;
        Ok(Self(signer))
    }

    /// Return the headers to add to a request with these headers, such as its signature.
    /// `path` includes the query. Raises ValueError for a request that cannot be signed.
    fn headers(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        body: &[u8],
    ) -> PyResult<Vec<(String, String)>> {
        py.detach(|| self.0.headers(method, path, &headers, body)).map_err(PyValueError::new_err)
    }
}
