//! Drivers: one module per protocol. Each turns an operation into bytes and an answer into an outcome.

pub mod assertion;
mod buckets;
mod capture;
pub mod couchbase;
pub mod cql;
mod excerpt;
mod exchanges;
mod form;
mod generations;
pub mod http;
mod http1;
pub mod mongodb;
mod net;
pub mod neutral;
pub mod null;
pub mod null_server;
pub mod postgresql;
pub mod redis;
pub mod search;
pub mod several;
mod take_in;
mod tally;
mod timeout;

use loadframe_engine::json;
