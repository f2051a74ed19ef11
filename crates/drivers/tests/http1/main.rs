//! The drivers on HTTP/1.1 against real sockets with all their moods.

mod access;
mod allocations;
mod answers;
mod cap;
mod certificates;
mod connections;
mod nodes;
mod paging;
mod requests;
mod rest;
mod scripted;
mod taking_in;
mod tls;
mod topology;
mod verbs;
