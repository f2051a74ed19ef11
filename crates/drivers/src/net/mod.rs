//! What every driver needs of a network, independent of its protocol: a [`target_node`] with its host, the [`topology`]
//! that says which node a client asks, a [`wire`] (with or without [`tls`]), a [`client`] that has one request in
//! flight on it, the [`deadline`] of that request and the [`buffer`] for its answer; [`refresh_throttle`]
//! says which client asks the nodes again what they are.
//!
//! Nothing here knows a protocol, an operation or what an answer means.

pub mod buffer;
pub mod client;
pub mod deadline;
pub mod discovery;
pub mod exchange;
pub mod known;
pub mod marks;
pub mod per_thread;
pub mod pool;
pub mod refresh_throttle;
pub mod route;
pub mod target_node;
pub mod tls;
pub mod topology;
pub mod trouble;
pub mod wire;
