//! The load generator. A plan for one phase goes in, recordings come out; it does not depend on any store.
//!
//! The parts, in the way a request walks through them: [`plan`] says what is wanted, [`schedule`] when request
//! *k* is due, [`draw`] what it carries ([`variables`], [`corpus`], [`template`]), [`driver`] how it is asked for,
//! [`worker`] sends it, [`recorder`] counts its outcome, [`collector`] adds that up and [`files`] writes it down, or, where
//! there are several ranks, a [`second`] goes to the first of them, whose [`rank`] recorder does. [`run`] joins them.

pub mod access;
pub mod answers;
pub mod arrivals;
pub mod beginning;
pub mod calendar;
pub mod cipher;
pub mod clock;
pub mod collector;
pub mod corpus;
pub mod counters;
pub mod course;
pub mod descriptors;
pub mod digits;
pub mod draw;
pub mod driver;
pub mod durations;
pub mod encode;
pub mod event;
pub mod executions;
pub mod files;
pub mod gathering;
mod halving;
pub mod histograms;
pub mod hlog;
pub mod journey;
pub mod json;
mod math;
pub mod nearest;
pub mod numbering;
pub mod orders;
pub mod outcome;
pub mod panics;
pub mod phase;
pub mod plan;
pub mod profile;
pub mod rank;
pub mod reconnects;
pub mod recorder;
pub mod rest;
pub mod rota;
pub mod run;
pub mod sample;
pub mod schedule;
pub mod second;
pub mod slot;
pub mod source;
pub mod tally;
pub mod template;
pub mod timer;
pub mod variables;
pub mod watch;
pub mod worker;
pub mod worst;
