//! Drivers: one module per protocol. Each turns an operation into bytes and an answer into an outcome.
//!
//! All drivers use the same file names, where their protocol has the part:
//!
//! - `mod.rs` implements [`Driver`](loadframe_engine::driver::Driver).
//! - `nodes.rs`: the state of the target that all clients share. `connection.rs`: one connection to one node.
//! - `operation.rs` reads the workload's form.
//! - `request.rs` turns it into bytes, `execute.rs` sends it.
//! - `answer.rs` judges the answer, `error.rs` maps errors to the engine's classes.
//! - `bulk.rs`: bulk requests. `ingest.rs`: events of a source. `daily.rs`: one collection per day.

/// Calls a macro with every driver of one protocol, each as `Variant: Type = "name in plans"`. This is the only list of
/// drivers. [`several`], which combines them, is not part of it.
#[macro_export]
macro_rules! with_drivers {
    ($callback:ident $(, $argument:tt)*) => {
        $callback! {
            $($argument)*
            Couchbase: $crate::couchbase::Couchbase = "couchbase",
            Cql: $crate::cql::Cql = "cql",
            Http: $crate::http::Http = "http",
            Mongo: $crate::mongodb::Mongo = "mongodb",
            Null: $crate::null::Null = "null",
            Postgres: $crate::postgresql::Postgres = "postgresql",
            Redis: $crate::redis::Redis = "redis",
            Search: $crate::search::Search = "search",
        }
    };
}

pub mod assertion;
mod capture;
pub mod couchbase;
pub mod cql;
pub mod crud;
mod daily;
mod excerpt;
mod exchanges;
mod form;
pub mod http;
mod http1;
mod ingest;
pub mod mongodb;
mod net;
pub mod null;
mod outcome;
mod pipeline;
pub mod postgresql;
pub mod redis;
pub mod search;
pub mod several;
mod tally;
mod timeout;
