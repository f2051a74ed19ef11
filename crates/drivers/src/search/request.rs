//! One step of an operation: a request and how to judge its answer.

use super::answer::Judge;
use crate::http1::request::Request;
use loadframe_engine::workload::json_pointer::Pointer;

/// A request and how to judge its answer.
#[derive(Debug)]
pub struct SearchStep {
    /// The request.
    pub request: Request,
    /// How to judge the answer.
    pub judge: Judge,
    /// The value of the answer that the next step uses.
    pub keep: Option<Pointer>,
}

impl SearchStep {
    /// Creates a step without a value for the next one.
    pub fn new(request: Request, judge: Judge) -> Self {
        Self { request, judge, keep: None }
    }
}
