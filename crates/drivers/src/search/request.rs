//! One request of an operation, and the way its answer is judged.

use super::answer::Judge;
use crate::http1::request::Request;
use loadframe_engine::workload::json_pointer::Pointer;

/// A request and the way to judge its answer.
#[derive(Debug)]
pub struct SearchStep {
    /// What is sent.
    pub request: Request,
    /// What is made of the answer.
    pub judge: Judge,
    /// What of the answer the next step takes along.
    pub keep: Option<Pointer>,
}

impl SearchStep {
    /// A step of which the next one takes nothing along.
    pub fn new(request: Request, judge: Judge) -> Self {
        Self { request, judge, keep: None }
    }
}
