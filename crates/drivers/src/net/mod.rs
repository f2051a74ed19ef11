//! Networking for all drivers, independent of the protocol.
//!
//! - [`target_node`]: a node and its host
//! - [`topology`]: the nodes and the home of each client; [`assignment`]: the node of each request
//! - [`stream`]: a TCP connection; [`wire`]: the same with or without [`tls`]
//! - [`client`]: one request in flight on a wire
//! - [`deadline`]: the time limit of a request
//! - [`buffer`]: memory for answers
//! - [`refresh_throttle`]: which client refreshes the state of the nodes, and when
//!
//! The module is independent of protocols, operations and the meaning of answers.

pub mod assignment;
pub mod buffer;
pub mod client;
pub mod connect_options;
pub mod deadline;
pub mod discovery;
pub mod exchange;
pub mod known;
pub mod marks;
pub mod per_thread;
pub mod pool;
pub mod refresh_throttle;
pub mod route;
pub mod stream;
pub mod target_node;
pub mod tls;
pub mod topology;
pub mod trouble;
pub mod watched_file;
pub mod wire;
