//! The load generator. It reads the plan of one phase, sends the load and writes recordings. It knows no store.
//!
//! Each module imports only the modules above it in this list:
//!
//! - [`util`]: random draws, JSON, dates, numbers as text, escaping, suggestions.
//! - [`plan`]: the plan of a phase, as JSON, checked.
//! - [`reactor`]: the event loop of a worker, its sockets and its timer.
//! - [`pacing`]: schedules, rate profiles, Poisson arrivals and clocks.
//! - [`workload`]: variables, templates, corpora, events, encryption, journeys and mixes.
//! - [`driver`]: the trait that a protocol implements, and its replies.
//! - [`ingest`]: event sources, their queue, acknowledgements, dead letters and visibility probes.
//! - [`recording`]: counts, histograms, samples, the generator's own metrics, and the files of a phase.
//! - [`client`]: closed and open loops, users and ingestion: who sends when, and one request with its retries.
//! - [`ranks`]: what several generators of one phase exchange.
//! - [`run`]: prepares, runs and ends a phase.

pub mod client;
pub mod driver;
pub mod ingest;
pub mod pacing;
pub mod plan;
pub mod ranks;
pub mod reactor;
pub mod recording;
pub mod run;
pub mod util;
pub mod workload;
