//! General helpers: random draws, JSON, dates, numbers as text, escaping, panics.

pub mod calendar;
pub mod cpu;
pub mod digits;
pub mod draw;
pub mod encode;
pub mod error_class;
pub mod json;
pub(crate) mod math;
pub mod panics;
pub mod suggestions;
pub mod trace;
