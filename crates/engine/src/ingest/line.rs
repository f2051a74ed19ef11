//! Line parser: validates an event and extracts its kind, id and time, without building values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::dead_letters::{Reason, Refusal};
use super::instant::{Unit, instant, unit};
use super::transform::{Transform, apply, message};
use crate::plan::{Events, LineFormat, PlanError};
use crate::util::json::whole;
use crate::workload::json_pointer::Pointer;

/// Locations of the fields to extract from a source's lines.
#[derive(Debug)]
pub struct Reader {
    /// Names of the kinds.
    pub names: Arc<[String]>,
    kind: Place,
    /// Locations of id and time, by kind.
    kinds: Vec<(Place, Place)>,
    /// Location of the replay time.
    replayed: Option<Place>,
    /// Top-level members that contain these fields.
    members: Vec<Vec<u8>>,
    /// Steps that change lines before id and time are read, if the source has any.
    transform: Option<Transform>,
}

/// Location of a field in a line.
#[derive(Debug)]
struct Place {
    pointer: Pointer,
    /// Index of its top-level member in [`Reader::members`]; `None` for the whole line.
    member: Option<usize>,
}

/// Fields extracted from a line.
#[derive(Debug, PartialEq, Eq)]
pub struct EventFields {
    /// Index of the kind in [`Reader::names`].
    pub kind: usize,
    /// Byte range of the id in the line.
    pub id: Range<usize>,
    /// Time of the document, milliseconds since 1970.
    pub time: i64,
    /// Replay time, if the source is replayed.
    pub due: Option<i64>,
    /// The probable unit of the time or the replay time, if not milliseconds, and that time as it was read.
    pub unit: Option<(Unit, i64)>,
}

impl Reader {
    /// Creates a parser for these fields, without a transformation. `replayed`: pointer to the replay time. Refuses
    /// invalid pointers, and no kinds.
    pub fn new(events: &Events, replayed: Option<&str>) -> Result<Self, PlanError> {
        if events.kinds.is_empty() {
            return Err(PlanError::new("events.kinds is empty: define at least one kind"));
        }
        let kinds: BTreeMap<_, _> = events.kinds.iter().collect();
        let mut members: Vec<Vec<u8>> = Vec::new();
        let mut place = |text: &str| {
            let pointer = Pointer::parse(text)?;
            let member = pointer.outermost().map(|name| {
                members.iter().position(|known| known == name).unwrap_or_else(|| {
                    members.push(name.to_vec());
                    members.len() - 1
                })
            });
            Ok(Place { pointer, member })
        };
        Ok(Self {
            kind: place(&events.kind)?,
            kinds: (kinds.values().map(|kind| Ok((place(&kind.id)?, place(&kind.time)?))))
                .collect::<Result<_, PlanError>>()?,
            replayed: replayed.map(place).transpose()?,
            names: kinds.into_keys().cloned().collect(),
            members,
            transform: None,
        })
    }

    /// Returns the parser with a transformation of lines; `None` for none.
    #[must_use]
    pub fn with(self, transform: Option<Transform>) -> Self {
        Self { transform, ..self }
    }

    /// Returns whether lines are transformed.
    pub fn transforms(&self) -> bool {
        self.transform.is_some()
    }

    /// Returns whether lines are texts rather than JSON objects.
    pub fn reads_text(&self) -> bool {
        self.transform.as_ref().is_some_and(|transform| transform.format == LineFormat::Text)
    }

    /// Returns a line without its line end, and JSON without surrounding white space; empty for a line of white space
    /// only. White space around a line of text is part of it.
    pub fn content<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() || !self.reads_text() {
            return trimmed;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Parses the content of a line. Returns the fields of its event, `None` if a transformation step drops the event,
    /// or the reason of its dead letter. A transformed line is appended to `out`, and the ranges of the fields count
    /// from the start of this line; otherwise `out` is unchanged and they refer to `line`.
    pub fn parse(&self, line: &[u8], out: &mut Vec<u8>) -> Result<Option<EventFields>, Refusal> {
        match &self.transform {
            None => Ok(Some(self.read(line)?)),
            Some(transform) => self.read_transformed(transform, line, out),
        }
    }

    /// Implements [`Reader::parse`] for a source with a transformation.
    fn read_transformed(
        &self,
        transform: &Transform,
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<EventFields>, Refusal> {
        let line = match transform.format {
            LineFormat::Json => Cow::Borrowed(line),
            LineFormat::Text => Cow::Owned(message(line)?),
        };
        let Some(line) = apply(&transform.all, &line)? else { return Ok(None) };
        let kind = self.kind(&line, &self.values(&line)?)?;
        let Some(line) = apply(&transform.kinds[kind], &line)? else { return Ok(None) };
        if line.len() > transform.longest {
            return Err(Refusal { reason: Reason::TooLong, words: "after its transformation".to_owned() });
        }
        let fields = self.fields(&line, &self.values(&line)?, kind)?;
        out.extend_from_slice(&line);
        Ok(Some(fields))
    }

    /// Parses a line without transforming it; the error is the reason of its dead letter.
    fn read(&self, line: &[u8]) -> Result<EventFields, Reason> {
        let values = self.values(line)?;
        let kind = self.kind(line, &values)?;
        self.fields(line, &values, kind)
    }

    /// Returns the JSON values of the needed top-level members, in the order of `members`; `None` for missing ones.
    /// Refuses a line that is not UTF-8 or not a JSON object.
    fn values<'a>(&self, line: &'a [u8]) -> Result<Vec<Option<&'a [u8]>>, Reason> {
        if std::str::from_utf8(line).is_err() {
            return Err(Reason::NoObject);
        }
        let mut values = vec![None; self.members.len()];
        whole::members(line, |name, value| {
            if let Some(member) = self.members.iter().position(|member| *member == *name) {
                // Of duplicate members the first counts.
                values[member].get_or_insert(value);
            }
        })?;
        Ok(values)
    }

    /// Returns the index of the line's kind; refuses a missing, empty or undefined kind. `values`: result of
    /// [`Reader::values`].
    fn kind(&self, line: &[u8], values: &[Option<&[u8]>]) -> Result<usize, Reason> {
        let json = self.kind.find(line, values);
        let kind = json.and_then(unescaped).filter(|kind| !kind.is_empty()).ok_or(Reason::NoKind)?;
        self.names.iter().position(|name| *name.as_bytes() == *kind).ok_or(Reason::UnknownKind)
    }

    /// Returns the id and times of a line of kind number `kind`; refuses a missing or unreadable id or time. `values`:
    /// result of [`Reader::values`].
    fn fields(&self, line: &[u8], values: &[Option<&[u8]>], kind: usize) -> Result<EventFields, Reason> {
        let find = |place: &Place| place.find(line, values);
        let (id, time) = &self.kinds[kind];
        let id = find(id).and_then(|id| text(id).or_else(|| whole_number(id))).filter(|id| !id.is_empty());
        let id = id.ok_or(Reason::NoId)?;
        if !is_unicode(id) {
            return Err(Reason::OddId);
        }
        let mut other = None;
        let mut read = |place: &Place| -> Result<i64, Reason> {
            let json = find(place).ok_or(Reason::NoTime)?;
            let time = instant(json).ok_or(Reason::OddTime)?;
            other = other.or_else(|| unit(json).map(|unit| (unit, time)));
            Ok(time)
        };
        let (time, due) = (read(time)?, self.replayed.as_ref().map(&mut read).transpose()?);
        let start = id.as_ptr() as usize - line.as_ptr() as usize;
        Ok(EventFields { kind, id: start..start + id.len(), time, due, unit: other })
    }
}

impl Place {
    /// Returns the JSON value of the field; `None` if it is missing. `line`: the whole line. `values`: result of
    /// [`Reader::values`].
    fn find<'a>(&self, line: &'a [u8], values: &[Option<&'a [u8]>]) -> Option<&'a [u8]> {
        match self.member {
            None => Some(line),
            Some(member) => self.pointer.find_within(values[member]?).ok().flatten(),
        }
    }
}

/// Returns the text between the quotes of a JSON string, still escaped; `None` for other values.
fn text(json: &[u8]) -> Option<&[u8]> {
    json.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Returns the content of a JSON string without escapes; unchanged if it is not valid Unicode. `None` for other values.
fn unescaped(json: &[u8]) -> Option<Cow<'_, [u8]>> {
    let text = text(json)?;
    let parsed = text.contains(&b'\\').then(|| serde_json::from_slice::<String>(json).ok()).flatten();
    Some(parsed.map_or(Cow::Borrowed(text), |text| Cow::Owned(text.into_bytes())))
}

/// Returns whether the contents of a JSON string, still escaped and without quotes, are valid Unicode.
/// Stores replace unpaired surrogates, which would merge different ids.
fn is_unicode(id: &[u8]) -> bool {
    memchr::memmem::find(id, b"\\u").is_none() || serde_json::from_slice::<String>(&[b"\"", id, b"\""].concat()).is_ok()
}

/// Returns the text of a JSON integer, unchanged; `None` for other values.
fn whole_number(json: &[u8]) -> Option<&[u8]> {
    let digits = json.strip_prefix(b"-").unwrap_or(json);
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(json)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use crate::util::draw::Draw;

    use super::*;

    /// Returns a parser for the kinds `bid` and `click`. `replayed`: pointer to the replay time.
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
        let fields = reader(None).read(line).unwrap();
        assert_eq!((fields.kind, &line[fields.id], fields.time, fields.due), (0, &br#"a\"b"#[..], 5, None));
        let line = br#"{"type": "click", "time": 9, "of": {"time": 7, "bid": 12}}"#;
        let fields = reader(Some("/time")).read(line).unwrap();
        assert_eq!((fields.kind, &line[fields.id], fields.time, fields.due), (1, &b"12"[..], 7, Some(9)));
    }

    #[test]
    fn a_kind_may_be_escaped() {
        let kinds = json!({"type": "/type", "kinds": {"a/é": {"id": "/id", "time": "/time"}}});
        let reader = Reader::new(&from_value(kinds).unwrap(), None).unwrap();
        for kind in ["a/é", "a\\/\\u00e9"] {
            let line = format!(r#"{{"type": "{kind}", "id": 1, "time": 1}}"#);
            assert_eq!(reader.read(line.as_bytes()).map(|fields| fields.kind), Ok(0), "{line}");
        }
        let half = br#"{"type": "\ud800", "id": 1, "time": 1}"#;
        assert_eq!(reader.read(half).unwrap_err(), Reason::UnknownKind);
    }

    #[test]
    fn a_unit_other_than_milliseconds_is_seen_in_each_time() {
        let unit = |line: &str| reader(Some("/due")).read(line.as_bytes()).unwrap().unit;
        let line = |time: i64, due: i64| format!(r#"{{"type": "bid", "id": 1, "time": {time}, "due": {due}}}"#);
        assert_eq!(unit(&line(1_488_369_600_000, 1_488_369_600_000)), None);
        assert_eq!(unit(&line(1_488_369_600, 1_488_369_600_000)), Some((Unit::Seconds, 1_488_369_600)));
        assert_eq!(unit(&line(1_488_369_600_000, 1_488_369_601)), Some((Unit::Seconds, 1_488_369_601)));
    }

    /// Each kind of invalid line has its own reason of the dead letter.
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
            ("{\"type\": \"bid\", \"id\": \"\\ud800\"}", Reason::OddId),
            ("{\"type\": \"bid\", \"id\": \"a\\uDC00\"}", Reason::OddId),
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

    #[test]
    fn kind_id_and_time_are_read_after_the_steps() {
        let events = json!({
            "type": "/type",
            "transform": [{"step": "rename", "field": "/sort", "to": "/type"}],
            "kinds": {
                "bid": {"id": "/key", "time": "/time", "transform": [
                    {"step": "derive", "field": "/key", "value": {"join": {"of": ["/id", "/n"], "with": "-"}}},
                    {"step": "drop", "field": "/type"},
                ]},
                "win": {"id": "/id", "time": "/time"},
            },
        });
        let events = from_value(events).unwrap();
        let reader = Reader::new(&events, Some("/due")).unwrap().with(Transform::new(&events, 60).unwrap());
        let mut out = b"before".to_vec();
        let mut parsed = |line: &str| {
            let start = out.len();
            let fields = reader.parse(line.as_bytes(), &mut out).map(|fields| fields.expect("no step drops it"));
            let changed = String::from_utf8(out[start..].to_vec()).unwrap();
            fields.map(|fields| (fields.kind, changed[fields.id].to_owned(), changed)).inspect_err(|_| {
                assert_eq!(out.len(), start, "a refused line leaves nothing");
            })
        };
        let bid = parsed(r#"{"sort":"bid", "id":"a","n":1,"time":5,"due":6}"#).unwrap();
        assert_eq!(bid, (0, "a-1".to_owned(), r#"{"id":"a","n":1,"time":5,"due":6,"key":"a-1"}"#.to_owned()));
        // A line that no step is for keeps its bytes.
        let line = r#"{"type": "win", "id":"a", "time":5,"due":6}"#;
        let events = from_value(json!({"type": "/type", "kinds": {
            "bid": {"id": "/id", "time": "/time", "transform": [{"step": "drop", "field": "/x"}]},
            "win": {"id": "/id", "time": "/time"},
        }}));
        let events = events.unwrap();
        let of_bids = Reader::new(&events, None).unwrap().with(Transform::new(&events, 60).unwrap());
        let mut same = Vec::new();
        assert_eq!(of_bids.parse(line.as_bytes(), &mut same).unwrap().unwrap().kind, 1);
        assert_eq!(same, line.as_bytes());
        for (line, reason) in [
            (r#"{"sort":"bid","n":1,"time":5,"due":6}"#, Reason::Transform),
            (r#"{"sort":"bid","type":"bid","id":1,"n":1,"time":5,"due":6}"#, Reason::Transform),
            (r#"{"id":"a","n":1,"time":5,"due":6}"#, Reason::NoKind),
            (r#"{"sort":"buy","n":1,"time":5,"due":6}"#, Reason::UnknownKind),
            (r#"{"sort":"win","n":1,"time":5,"due":6}"#, Reason::NoId),
            (r#"{"sort":"win","id":1,"time":5}"#, Reason::NoTime),
            (r#"{"sort":"bid","id":"aaaaaaaaaaaaaaa","n":1,"time":5,"due":6}"#, Reason::TooLong),
            ("null", Reason::NoObject),
        ] {
            assert_eq!(parsed(line).unwrap_err().reason, reason, "{line}");
        }
    }

    #[test]
    fn lines_of_text_become_events_and_dropped_ones_leave_nothing() {
        let events = from_value(json!({
            "type": "/kind", "format": "text",
            "transform": [
                {"step": "grok", "field": "/message", "patterns": ["^%{INT:time:int} %{WORD:kind} %{WORD:id}$"]},
                {"step": "drop_event", "condition": {"field": {"field": "/id", "test": {"equals": ["x"]}}}},
            ],
            "kinds": {"bid": {"id": "/id", "time": "/time", "transform": [
                {"step": "drop_event", "condition": {"field": {"field": "/time", "test": {"below": 3}}}},
            ]}},
        }));
        let events = events.unwrap();
        let reader = Reader::new(&events, None).unwrap().with(Transform::new(&events, 90).unwrap());
        let mut out = Vec::new();
        let fields = reader.parse(b"5 bid a", &mut out).unwrap().unwrap();
        assert_eq!(out, br#"{"message":"5 bid a","time":5,"kind":"bid","id":"a"}"#);
        assert_eq!((fields.time, &out[fields.id]), (5, &b"a"[..]));
        out.clear();
        for dropped in ["5 bid x", "2 bid a", "5 other x"] {
            assert_eq!(reader.parse(dropped.as_bytes(), &mut out), Ok(None), "{dropped}");
        }
        for (line, reason) in [
            (&b"5 bid"[..], Reason::NoMatch),
            (b"{}", Reason::NoMatch),
            (b"\xff", Reason::NoText),
            (b"5 other a", Reason::UnknownKind),
        ] {
            assert_eq!(reader.parse(line, &mut out).unwrap_err().reason, reason);
        }
        assert!(out.is_empty());
    }

    #[test]
    fn places_in_nested_values_and_names_with_escapes_are_read_as_pointers_say() {
        let events = json!({"type": "/a~1b/0", "kinds": {"x": {"id": "/é/n/1", "time": "/a~1b/1/t"}}});
        let reader = Reader::new(&from_value(events).unwrap(), Some("")).unwrap();
        let line = r#"{"z":[{}],"a\/b":["x",{"t":7}],"\u00e9":{"m":1,"n":[0,"id"]},"a/b":["y"]}"#;
        // A line is not a time.
        assert_eq!(reader.read(line.as_bytes()), Err(Reason::OddTime));
        let events = json!({"type": "/a~1b/0", "kinds": {"x": {"id": "/é/n/1", "time": "/a~1b/1/t"}}});
        let fields = Reader::new(&from_value(events).unwrap(), None).unwrap().read(line.as_bytes()).unwrap();
        assert_eq!((fields.kind, &line[fields.id], fields.time), (0, "id", 7));
    }

    /// Random lines have the same fields as their parsed JSON.
    #[test]
    fn random_lines_parse_to_their_values() {
        let value = |draw: &Draw, salt: u64| match draw.bits(salt) % 9 {
            0 => json!(null),
            1 => json!(5),
            2 => json!("bid"),
            3 => json!("click"),
            4 => json!({"bid": 3, "time": draw.bits(salt + 50) as u32}),
            5 => json!({"time": "2017-03-01T00:00:00Z", "bid": "\"x\n"}),
            6 => json!(["bid"]),
            7 => json!(""),
            _ => json!("2017-03-01T12:00:00.5Z"),
        };
        let reader = reader(Some("/due"));
        let mut said_something = 0;
        for k in 0..50_000 {
            let draw = Draw::new(1, 2, k);
            let mut line = serde_json::Map::new();
            for place in 0..2 + draw.bits(0) % 6 {
                let names = ["type", "id", "time", "of", "due", "other"];
                let name = names[(draw.bits(10 + place) % 6) as usize];
                line.insert(name.to_owned(), value(&draw, 100 * (place + 1)));
            }
            if draw.bits(1).is_multiple_of(2) {
                line.insert("type".to_owned(), json!(["bid", "click"][(draw.bits(2) % 2) as usize]));
            }
            let value = Value::Object(line);
            let text = value.to_string();
            let fields = reader.read(text.as_bytes());
            said_something += u64::from(fields.is_ok());
            assert_eq!(
                fields.map(|fields| (fields.kind, text[fields.id].to_owned(), fields.time, fields.due)),
                plainly(&value),
                "{text}"
            );
        }
        assert!(said_something > 100, "{said_something}");
    }

    /// Returns the same fields from the line's parsed value.
    fn plainly(line: &Value) -> Result<(usize, String, i64, Option<i64>), Reason> {
        let kind = line["type"].as_str().filter(|kind| !kind.is_empty()).ok_or(Reason::NoKind)?;
        let kind = ["bid", "click"].iter().position(|name| *name == kind).ok_or(Reason::UnknownKind)?;
        let (id, time) = [("/id", "/time"), ("/of/bid", "/of/time")][kind];
        let id = match line.pointer(id) {
            Some(Value::String(id)) if !id.is_empty() => {
                let quoted = serde_json::to_string(id).unwrap();
                quoted[1..quoted.len() - 1].to_owned()
            }
            Some(Value::Number(id)) => id.to_string(),
            _ => return Err(Reason::NoId),
        };
        let when = |place: &str| {
            let time = line.pointer(place).ok_or(Reason::NoTime)?;
            instant(time.to_string().as_bytes()).ok_or(Reason::OddTime)
        };
        let time = when(time)?;
        Ok((kind, id, time, Some(when("/due")?)))
    }
}
