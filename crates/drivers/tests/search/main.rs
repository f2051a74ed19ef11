//! The search driver against real sockets with all their moods.

mod allocations;
mod answers;
mod connections;
mod requests;
mod scripted;
