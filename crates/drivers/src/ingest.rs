//! The operation that ingests the events of a source, parsed for all drivers: `{"take_in": {"collection": "ads",
//! "daily": "event"}}`.
//!
//! Each event sets one field of its document, named after the event's kind, and creates the document if it does not
//! exist. The order and repetition of a document's events therefore do not matter.

use std::borrow::Cow;
use std::collections::BTreeMap;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::calendar;
use loadframe_engine::util::calendar::DAY;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::event::{Batch, Event};
use serde_json::Value;

use crate::form::Form;

/// The name of the operation.
pub const TAKE_IN: &str = "take_in";

/// Destination of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The collection, or the prefix of the names of the days' collections.
    pub collection: String,
    /// How to choose the day of a document; `None` for a single collection.
    pub daily: Option<Daily>,
    /// Timestamp fields per kind of event; stores without a mapping store them as dates.
    pub times: BTreeMap<String, Vec<String>>,
}

/// How to choose the day of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daily {
    /// By the time of the event, which is the same for all events of a document.
    Event,
    /// By the arrival of the event. Events of one document that arrive on two days create two documents.
    Arrival,
}

/// The kinds of day, by their names in workloads.
const DAILY: [(&str, Daily); 2] = [("event", Daily::Event), ("arrival", Daily::Arrival)];

impl Ingest {
    /// Reads `{"collection": NAME, "daily": "event", "times": ["bid.time"]}`. Refuses another kind of day, and times
    /// that are not KIND.FIELD.
    pub fn map(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new(argument, &["collection", "daily", "times"])?;
        let daily = match form.get("daily") {
            None => None,
            Some(_) => {
                let word = form.text("daily")?;
                let known = DAILY.iter().find(|(name, _)| *name == word);
                let names = DAILY.iter().map(|(name, _)| *name);
                Some(known.ok_or_else(|| PlanError::new(unknown("kind of day", word, names)))?.1)
            }
        };
        let wrong = |value: &Value| {
            PlanError::new(format!("\"times\" wants a list of KIND.FIELD, such as bid.time; got {value}"))
        };
        let mut times: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if let Some(list) = form.get("times") {
            for time in list.as_array().ok_or_else(|| wrong(list))? {
                let parts = time.as_str().and_then(|time| time.split_once('.'));
                let (kind, field) = parts.filter(|(_, field)| !field.contains('.')).ok_or_else(|| wrong(time))?;
                times.entry(kind.to_owned()).or_default().push(field.to_owned());
            }
        }
        Ok(Self { collection: form.text("collection")?.to_owned(), daily, times })
    }

    /// Returns the names of the timestamp fields of a kind of event; empty if it has none.
    pub fn times_of(&self, kind: &str) -> &[String] {
        self.times.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the instant that determines the day of an event's document, in milliseconds since 1970; `None` for a
    /// single collection.
    pub fn instant(&self, event: &Event) -> Option<i64> {
        Some(match self.daily? {
            Daily::Event => event.time,
            Daily::Arrival => event.arrival,
        })
    }
}

/// Formats the days of successive instants as `2017.03.01` in UTC. Keeps the text of the last day, because most
/// instants fall on it.
#[derive(Debug)]
pub struct Days {
    day: i64,
    text: [u8; 10],
}

impl Default for Days {
    /// Creates the formatter.
    fn default() -> Self {
        Self { day: 0, text: *b"1970.01.01" }
    }
}

impl Days {
    /// Returns the day of an instant, given in milliseconds since 1970. Years outside 0 to 9999 count as the first or
    /// last day of that range.
    pub fn of(&mut self, instant: i64) -> &str {
        let day = instant.div_euclid(DAY);
        if day != self.day {
            self.day = day;
            self.text = match calendar::at(instant) {
                None if instant < 0 => *b"0000.01.01",
                None => *b"9999.12.31",
                Some(at) => {
                    let (year, month, day) = (at.year() as u16, at.month() as u8, at.day() as u8);
                    let digit = |number: u16| b'0' + (number % 10) as u8;
                    let [tens, ones] = [|n: u8| b'0' + n / 10, |n: u8| b'0' + n % 10];
                    [
                        digit(year / 1000),
                        digit(year / 100),
                        digit(year / 10),
                        digit(year),
                        b'.',
                        tens(month),
                        ones(month),
                        b'.',
                        tens(day),
                        ones(day),
                    ]
                }
            };
        }
        std::str::from_utf8(&self.text).expect("digits and dots are text")
    }
}

/// Iterates over the events at the indices `only` of a batch, in that order, or over all events. Skips indices without
/// an event.
pub fn chosen<'a>(batch: &'a Batch, only: Option<&'a [u32]>) -> impl Iterator<Item = &'a Event> {
    let (all, some) = match only {
        None => (&batch.events[..], &[][..]),
        Some(places) => (&[][..], places),
    };
    all.iter().chain(some.iter().filter_map(|place| batch.events.get(*place as usize)))
}

/// Returns the number of events of a batch, or of the indices `only` if given.
pub fn count(batch: &Batch, only: Option<&[u32]>) -> usize {
    only.map_or(batch.events.len(), <[u32]>::len)
}

/// Returns the id of an event's document without JSON escapes; `None` if it is not valid text.
pub fn id<'a>(batch: &'a Batch, event: &Event) -> Option<Cow<'a, str>> {
    let escaped = std::str::from_utf8(batch.id(event)).ok()?;
    if !escaped.contains('\\') {
        return Some(Cow::Borrowed(escaped));
    }
    serde_json::from_str(&format!("\"{escaped}\"")).ok().map(Cow::Owned)
}

/// Returns the reply of an ingest operation without a source: a failure, and nothing sent.
pub fn without_source() -> Reply {
    Reply::unsent(Failure::new(ErrorClass::Client, "take_in sends the events of a source, and its phase names none"))
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    /// Builds a batch of events, each as (kind, id in JSON, time in milliseconds, line).
    pub fn batch(events: &[(usize, &str, i64, &str)]) -> Batch {
        let mut batch = Batch { kinds: Arc::new(["bid", "win", "click"].map(str::to_owned)), ..Batch::default() };
        for (kind, id, time, line) in events {
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(line.as_bytes());
            let end = batch.bytes.len();
            batch.bytes.extend_from_slice(id.as_bytes());
            batch.events.push(Event {
                arrived: Instant::now(),
                line: start..end,
                id: end..batch.bytes.len(),
                kind: *kind,
                time: *time,
                arrival: time.saturating_add(DAY),
            });
        }
        batch
    }

    #[test]
    fn each_instant_has_the_day_of_its_date() {
        let mut days = Days::default();
        for (text, day) in [
            ("1970-01-01T00:00:00", "1970.01.01"),
            ("2017-03-01T23:59:59.999", "2017.03.01"),
            ("2017-03-02", "2017.03.02"),
            ("2017-03-02T08:00:00", "2017.03.02"),
            ("2016-02-29", "2016.02.29"),
            ("1969-12-31T23:59:59.999", "1969.12.31"),
        ] {
            assert_eq!(days.of(calendar::milliseconds(text).unwrap()), day);
        }
        assert_eq!((days.of(i64::MAX).to_owned(), days.of(i64::MIN)), ("9999.12.31".to_owned(), "0000.01.01"));
    }

    #[test]
    fn a_bad_form_is_refused_with_the_nearest_word() {
        let map = |form: Value| Ingest::map(&form).map_err(|error| error.message);
        assert_eq!(
            map(json!({"collection": "ads", "daily": "arrival"})),
            Ok(Ingest { collection: "ads".into(), daily: Some(Daily::Arrival), times: BTreeMap::new() })
        );
        let timed = map(json!({"collection": "ads", "times": ["bid.time", "win.time", "win.bid_time"]})).unwrap();
        assert_eq!(
            (timed.times_of("win"), timed.times_of("click")),
            (&["time".into(), "bid_time".into()][..], &[][..])
        );
        assert!(map(json!({"collection": "ads", "times": ["time"]})).unwrap_err().contains("KIND.FIELD"));
        assert_eq!(map(json!({"collection": "ads", "daily": null})).unwrap().daily, None);
        let error = map(json!({"collection": "ads", "daily": "events"})).unwrap_err();
        assert_eq!(error, "unknown kind of day \"events\"; did you mean \"event\"?");
        assert!(map(json!({"daily": "event"})).unwrap_err().contains("\"collection\" is missing"));
        assert!(map(json!({"collection": "ads", "day": "event"})).unwrap_err().contains("daily"));
    }

    #[test]
    fn some_events_of_a_batch_are_chosen_by_their_places() {
        let batch = batch(&[(0, "a", 0, "{}"), (1, "b", 0, "{}"), (2, "c", 0, "{}")]);
        let kinds = |only: Option<&[u32]>| chosen(&batch, only).map(|event| event.kind).collect::<Vec<_>>();
        assert_eq!((kinds(None), kinds(Some(&[0, 2])), kinds(Some(&[]))), (vec![0, 1, 2], vec![0, 2], vec![]));
        assert_eq!((count(&batch, None), count(&batch, Some(&[0, 2]))), (3, 2));
    }
}
