//! Tests of the HTTP/1.1 drivers over real sockets.

mod access;
mod allocations;
mod answers;
mod cap;
mod certificates;
mod connections;
#[path = "../phases/erased.rs"]
mod erased;
mod ingest;
mod nodes;
mod paging;
mod requests;
mod rest;
mod scripted;
mod tls;
mod topology;
mod verbs;
