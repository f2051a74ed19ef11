//! Recording: counts, histograms, samples, the generator's own metrics, and the files of a phase.

pub mod collector;
pub mod durations;
pub mod files;
pub mod histograms;
pub mod hlog;
pub mod latest_answers;
pub mod measures;
pub mod outcome;
pub mod reconnects;
pub mod recorder;
pub mod sample;
pub mod second;
pub mod self_monitor;
pub mod slot;
pub mod spans;
pub mod stream_end;
pub mod tally;
pub mod worker_stats;
