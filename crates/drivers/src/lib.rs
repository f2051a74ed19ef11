//! Drivers: one module per protocol. Each turns an operation into bytes and an answer into an outcome.

pub mod null;
pub mod search;
