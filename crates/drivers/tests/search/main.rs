//! The search driver against real sockets with all their moods.

mod access;
mod allocations;
mod answers;
mod certificates;
mod connections;
mod nodes;
mod requests;
mod scripted;
mod tls;
mod topology;
