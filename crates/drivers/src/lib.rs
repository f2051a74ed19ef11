//! Drivers: one module per protocol. Each turns an operation into bytes and an answer into an outcome.

mod form;
pub mod http;
mod http1;
mod json;
pub mod null;
pub mod null_server;
pub mod search;
