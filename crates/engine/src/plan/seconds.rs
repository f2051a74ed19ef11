//! Durations as seconds: at least 0 and less than 30 years.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use super::NEVER;

/// Reads a duration in seconds. Refuses one below 0 or of 30 years or more.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if seconds < NEVER => Ok(duration),
        _ => Err(D::Error::custom(format_args!("a time of {seconds} s: give 0 or more, less than {NEVER:e}"))),
    }
}

/// Reads an optional duration that is present, in seconds. Refuses one below 0 or of 30 years or more.
pub fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserialize(deserializer).map(Some)
}

/// Writes a duration as a number of seconds.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
