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

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;

/// Calls a macro with the arguments in brackets and every driver, each as `Variant: Type = "name in plans"`. This is
/// the only list of drivers. Further drivers may follow a semicolon.
#[macro_export]
macro_rules! with_drivers {
    ($callback:ident [$($argument:tt)*] $(; $($further:tt)*)?) => {
        $crate::$callback! {
            [$($argument)*]
            Couchbase: $crate::couchbase::Couchbase = "couchbase",
            Cql: $crate::cql::Cql = "cql",
            Http: $crate::http::Http = "http",
            Mongo: $crate::mongodb::Mongo = "mongodb",
            Null: $crate::null::Null = "null",
            Postgres: $crate::postgresql::Postgres = "postgresql",
            Redis: $crate::redis::Redis = "redis",
            Search: $crate::search::Search = "search",
            Several: $crate::several::Several = "several",
            $($($further)*)?
        }
    };
}

/// Returns the error for a plan whose driver `name` is not among `drivers`; it suggests the nearest one.
pub fn unknown_driver(name: &str, drivers: &[&str]) -> PlanError {
    PlanError::new(unknown("driver", name, drivers.iter().copied()))
}

pub mod any;
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

pub use crate::http1::access::Authorization;
