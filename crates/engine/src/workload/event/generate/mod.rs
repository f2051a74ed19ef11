//! Event generators: lines of a synthetic log, in order of time.

mod adbids;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::pacing::profile::Profile;
use crate::pacing::schedule::Stride;
use crate::plan::PlanError;
use crate::util::suggestions::unknown;

/// Parameters of an event generator.
#[derive(Debug)]
pub struct GeneratorOptions<'a> {
    /// Determines all random values, together with a document's number.
    pub seed: u64,
    /// New documents per second, over all generators: document *k* begins at `rate.inverse(k)` seconds.
    pub rate: Profile,
    /// Number of documents, over all generators; unlimited if `None`.
    pub documents: Option<u64>,
    /// Event time at the load's start, milliseconds since 1970.
    pub start: i64,
    /// The documents of this generator, with all of their events.
    pub share: Stride,
    /// Options from the plan's `with`.
    pub with: &'a Map<String, Value>,
}

/// Generator of a log's lines.
pub trait Generate: Send {
    /// Appends the next line to `out`, without its end. Returns its due time after the load's start, which never
    /// decreases; `None` at the end.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Duration>;
}

type New = fn(&GeneratorOptions<'_>) -> Result<Box<dyn Generate>, PlanError>;

const GENERATORS: [(&str, New); 1] = [("adbids", |order| {
    plain(order.with)?;
    Ok(Box::new(adbids::Adbids::new(order)?))
})];

/// Refuses any option, for a generator without options.
fn plain(with: &Map<String, Value>) -> Result<(), PlanError> {
    match with.keys().next() {
        Some(key) => Err(PlanError::new(format!("unknown option \"{key}\"; this generator has none"))),
        None => Ok(()),
    }
}

/// Creates the generator named `name`; the error for an unknown name suggests the nearest one.
/// Also fails for options that the generator does not accept.
pub fn generator(name: &str, order: &GeneratorOptions<'_>) -> Result<Box<dyn Generate>, PlanError> {
    match GENERATORS.iter().find(|(known, _)| *known == name) {
        Some((_, new)) => new(order),
        None => Err(PlanError::new(unknown("generator of events", name, GENERATORS.map(|(known, _)| known)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Level;

    /// Creates the named generator of three documents, with these options.
    fn open(name: &str, with: &Value) -> Result<Box<dyn Generate>, PlanError> {
        let rate = Profile::new(&Level::Constant(10.0))?;
        let share = Stride { index: 0, of: 1 };
        let with = with.as_object().unwrap();
        generator(name, &GeneratorOptions { seed: 1, rate, documents: Some(3), start: 0, share, with })
    }

    #[test]
    fn a_generator_is_found_by_its_name() {
        let mut generator = open("adbids", &json!({})).unwrap();
        let mut out = Vec::new();
        assert_eq!(generator.next(&mut out), Some(Duration::ZERO));
        assert_eq!(generator.next(&mut out), Some(Duration::from_millis(100)));
        assert!(out.starts_with(b"{\"type\":\"bid\""));
    }

    #[test]
    fn unknown_generators_and_options_are_refused() {
        let error = |name, with| open(name, &with).err().unwrap().message;
        assert_eq!(error("adbid", json!({})), "unknown generator of events \"adbid\"; did you mean \"adbids\"?");
        assert_eq!(error("adbids", json!({"ads": 3})), "unknown option \"ads\"; this generator has none");
    }
}
