//! The load generator. A plan for one phase goes in, recordings come out; it does not depend on any store.
//!
//! The parts, in the way a request walks through them: [`plan`] says what is wanted, [`schedule`] when request
//! *k* is due, [`draw`] what it carries ([`variables`], [`corpus`], [`template`]), [`driver`] how it is asked for,
//! [`worker`] sends it, [`recorder`] counts its outcome, [`collector`] writes that down. [`run`] joins them.

pub mod access;
pub mod calendar;
pub mod clock;
pub mod collector;
pub mod corpus;
pub mod counters;
pub mod course;
pub mod descriptors;
pub mod digits;
pub mod draw;
pub mod driver;
pub mod encode;
pub mod histograms;
mod microseconds;
pub mod nearest;
pub mod panics;
pub mod phase;
pub mod plan;
pub mod profile;
pub mod recorder;
pub mod rest;
pub mod run;
pub mod schedule;
pub mod template;
pub mod timer;
pub mod variables;
pub mod watch;
pub mod worker;
