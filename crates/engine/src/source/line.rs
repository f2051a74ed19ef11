//! Reads a line: whether it is an event, and what a driver has to know of it. No values are built.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::instant::instant;
use super::letters::Reason;
use crate::json::pointer::Pointer;
use crate::plan::{Events, PlanError};

/// What is read out of the lines of a source.
#[derive(Debug)]
pub struct Reader {
    /// The names of the kinds.
    pub names: Arc<[String]>,
    kind: Pointer,
    /// Of each kind: where its id and its time are.
    kinds: Vec<(Pointer, Pointer)>,
    /// Where the time is by which lines are replayed.
    replayed: Option<Pointer>,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// Its kind, a place in [`Reader::names`].
    pub kind: usize,
    /// The id, in the line.
    pub id: Range<usize>,
    /// The time by which its document is placed.
    pub time: i64,
    /// The time by which it is replayed, if it is.
    pub due: Option<i64>,
}

impl Reader {
    /// Reads the pointers. `replayed`: that of the time by which lines are replayed.
    pub fn new(events: &Events, replayed: Option<&str>) -> Result<Self, PlanError> {
        if events.kinds.is_empty() {
            return Err(PlanError::new("its events have no kinds: give one or more"));
        }
        let kinds: BTreeMap<_, _> = events.kinds.iter().collect();
        let pointers = kinds.values().map(|kind| Ok((Pointer::parse(&kind.id)?, Pointer::parse(&kind.time)?)));
        Ok(Self {
            kinds: pointers.collect::<Result<_, PlanError>>()?,
            names: kinds.into_keys().cloned().collect(),
            kind: Pointer::parse(&events.kind)?,
            replayed: replayed.map(Pointer::parse).transpose()?,
        })
    }

    /// What a line says, which has no white space around it.
    pub fn read(&self, line: &[u8]) -> Result<Said, Reason> {
        // The scanner behind the pointers may not notice what is not valid, and a store may refuse a whole request for it.
        let whole = line.starts_with(b"{") && std::str::from_utf8(line).is_ok();
        if !whole || serde_json::from_slice::<IgnoredAny>(line).is_err() {
            return Err(Reason::NoObject);
        }
        let find = |pointer: &Pointer| pointer.find(line).ok().flatten();
        let kind = find(&self.kind).and_then(text).filter(|kind| !kind.is_empty()).ok_or(Reason::NoKind)?;
        let kind = self.names.iter().position(|name| name.as_bytes() == kind).ok_or(Reason::UnknownKind)?;
        let (id, time) = &self.kinds[kind];
        let id = find(id).and_then(|id| text(id).or_else(|| whole_number(id))).filter(|id| !id.is_empty());
        let id = id.ok_or(Reason::NoId)?;
        let time = find(time).ok_or(Reason::NoTime)?;
        let time = instant(time).ok_or(Reason::OddTime)?;
        let due = self.replayed.as_ref().map(|pointer| {
            let due = find(pointer).ok_or(Reason::NoTime)?;
            instant(due).ok_or(Reason::OddTime)
        });
        let start = id.as_ptr() as usize - line.as_ptr() as usize;
        Ok(Said { kind, id: start..start + id.len(), time, due: due.transpose()? })
    }
}

/// What stands between the quotes of a JSON text.
fn text(json: &[u8]) -> Option<&[u8]> {
    json.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

fn whole_number(json: &[u8]) -> Option<&[u8]> {
    let digits = json.strip_prefix(b"-").unwrap_or(json);
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(json)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn reader(replayed: Option<&str>) -> Reader {
        let events = json!({"type": "/type", "kinds": {
            "bid": {"id": "/id", "time": "/time"},
            "click": {"id": "/of/bid", "time": "/of/time"},
        }});
        Reader::new(&from_value(events).unwrap(), replayed).unwrap()
    }

    #[test]
    fn a_line_says_its_kind_its_id_and_its_time_wherever_they_stand() {
        let line = br#"{"n": [1], "time": 5, "id": "a\"b", "type": "bid"}"#;
        let said = reader(None).read(line).unwrap();
        assert_eq!((said.kind, &line[said.id], said.time, said.due), (0, &br#"a\"b"#[..], 5, None));
        let line = br#"{"type": "click", "time": 9, "of": {"time": 7, "bid": 12}}"#;
        let said = reader(Some("/time")).read(line).unwrap();
        assert_eq!((said.kind, &line[said.id], said.time, said.due), (1, &b"12"[..], 7, Some(9)));
    }

    #[test]
    fn every_other_line_has_its_reason() {
        for (line, reason) in [
            ("", Reason::NoObject),
            ("[]", Reason::NoObject),
            ("{\"type\": \"bid\", \"id\": 1, \"time\": 1", Reason::NoObject),
            ("{\"type\": \"bid\", \"id\": 1, \"time\": 1, \"x\": nul}", Reason::NoObject),
            ("{\"type\": \"bid\", \"id\": 1, \"time\": 1}{}", Reason::NoObject),
            ("{}", Reason::NoKind),
            ("{\"type\": 5}", Reason::NoKind),
            ("{\"type\": \"\"}", Reason::NoKind),
            ("{\"type\": \"bids\"}", Reason::UnknownKind),
            ("{\"type\": \"bid\"}", Reason::NoId),
            ("{\"type\": \"bid\", \"id\": \"\"}", Reason::NoId),
            ("{\"type\": \"bid\", \"id\": 1.5}", Reason::NoId),
            ("{\"type\": \"bid\", \"id\": null}", Reason::NoId),
            ("{\"type\": \"click\", \"id\": 1, \"time\": 1}", Reason::NoId),
            ("{\"type\": \"bid\", \"id\": 1}", Reason::NoTime),
            ("{\"type\": \"bid\", \"id\": 1, \"time\": \"now\"}", Reason::OddTime),
        ] {
            assert_eq!(reader(None).read(line.as_bytes()), Err(reason), "{line}");
        }
        let not_utf8 = b"{\"type\": \"bid\", \"id\": \"\xff\", \"time\": 1}";
        assert_eq!(reader(None).read(not_utf8), Err(Reason::NoObject));
        let timeless = b"{\"type\": \"bid\", \"id\": 1, \"time\": 1}";
        assert_eq!(reader(Some("/at")).read(timeless), Err(Reason::NoTime));
    }
}
