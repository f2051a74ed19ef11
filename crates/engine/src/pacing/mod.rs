//! Timing of requests: schedules, rate profiles, Poisson arrivals and clocks.

pub mod arrivals;
pub mod clock;
pub(crate) mod dyadic_sampler;
pub mod profile;
pub mod schedule;
pub mod simulated_clock;
pub mod start_time;
