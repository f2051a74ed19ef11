//! Sample events of a source, for display.

use std::time::Instant;

use serde_json::Value;

use super::dead_letters::{Reason, Refusal};
use super::line::{EventFields, Reader};
use super::line_reader::MARK;
use super::transform::{Step, Transform, apply};
use crate::plan::{Events, PlanError, TransformStep};
use crate::workload::event::{Batch, Event};

/// Result of a line, for display.
#[derive(Debug, PartialEq, Eq)]
pub enum Preview {
    /// The event's line after the transformation.
    Event(String),
    /// A step drops the event.
    Dropped,
    /// The reason of its dead letter.
    DeadLetter(String),
}

/// Returns the result of each line as a source with these fields reads it; `lines` begin with the first line of a
/// file. `longest`: maximum length of a line, bytes. Refuses invalid pointers and steps.
pub fn preview(events: &Events, longest: usize, lines: &[Vec<u8>]) -> Result<Vec<Preview>, PlanError> {
    let reader = Reader::new(events, None)?.with(Transform::new(events, longest)?);
    let result = |(number, line): (usize, &Vec<u8>)| {
        let mut transformed = Vec::new();
        let marked = line.strip_prefix(MARK).filter(|_| number == 0);
        let content = reader.content(marked.unwrap_or(line));
        let fields =
            if content.len() > longest { Err(Reason::TooLong.into()) } else { reader.parse(content, &mut transformed) };
        match fields {
            Ok(None) => Preview::Dropped,
            Ok(Some(_)) => {
                let line = if reader.transforms() { &transformed[..] } else { content };
                Preview::Event(String::from_utf8_lossy(line).into_owned())
            }
            Err(Refusal { reason, words }) if words.is_empty() => Preview::DeadLetter(reason.name().to_owned()),
            Err(Refusal { reason, words }) => Preview::DeadLetter(format!("{}: {words}", reason.name())),
        }
    };
    Ok(lines.iter().enumerate().map(result).collect())
}

const ID: &str = "7";
const TIME: &str = "2017-03-01T12:00:00Z";

/// Returns a batch with one event of each kind that the source defines: its kind, id and time, and the constants
/// that steps add. Omits kinds with fields that exclude each other.
pub fn samples(events: &Events) -> Batch {
    let Ok(reader) = Reader::new(events, None) else { return Batch::default() };
    let mut batch = Batch { kinds: reader.names.clone(), ..Batch::default() };
    for (line, fields) in events.kinds.keys().filter_map(|kind| sample(events, &reader, kind)) {
        let start = batch.bytes.len();
        batch.bytes.extend_from_slice(&line);
        batch.events.push(Event {
            arrived: Instant::now(),
            line: start..batch.bytes.len(),
            id: start + fields.id.start..start + fields.id.end,
            kind: fields.kind,
            time: fields.time,
            arrival: fields.time,
        });
    }
    batch
}

/// Returns a line of kind `name` with sample values in its fields, and the fields; `None` if the kind's fields exclude
/// each other.
fn sample(events: &Events, reader: &Reader, name: &str) -> Option<(Vec<u8>, EventFields)> {
    let kind = &events.kinds[name];
    let add = |(field, value): (&String, &str)| TransformStep::Add { field: field.clone(), value: Value::from(value) };
    let fields = [(&kind.id, ID), (&kind.time, TIME), (&events.kind, name)].map(add);
    let steps = events.transform.iter().chain(&kind.transform).chain(&fields);
    let added = steps.filter(|step| matches!(step, TransformStep::Add { .. })).map(Step::new);
    let line = apply(&added.collect::<Result<Vec<_>, _>>().ok()?, b"{}").ok()??.into_owned();
    let fields = reader.parse(&line, &mut Vec::new()).ok()??;
    Some((line, fields))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn each_kind_has_one_event_with_its_own_fields() {
        let events: Events = from_value(json!({
            "type": "/meta/kind",
            "transform": [{"step": "add", "field": "/site", "value": 3}, {"step": "drop", "field": "/site"}],
            "kinds": {"sensor": {"id": "/meta/id", "time": "/at"}, "door": {"id": "/of", "time": "/opened"}},
        }))
        .unwrap();
        let batch = samples(&events);
        let shown = |event| (batch.kind(event), std::str::from_utf8(batch.line(event)).unwrap(), batch.id(event));
        let door = r#"{"site":3,"of":"7","opened":"2017-03-01T12:00:00Z","meta":{"kind":"door"}}"#;
        let sensor = r#"{"site":3,"meta":{"id":"7","kind":"sensor"},"at":"2017-03-01T12:00:00Z"}"#;
        let wanted = [("door", door, &b"7"[..]), ("sensor", sensor, &b"7"[..])];
        assert_eq!(batch.events.iter().map(shown).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_kind_whose_fields_exclude_each_other_is_omitted() {
        let kinds = json!({"one": {"id": "/id", "time": "/id/at"}, "two": {"id": "/id", "time": "/time"}});
        let batch = samples(&from_value(json!({"type": "/type", "kinds": kinds})).unwrap());
        assert_eq!(batch.events.iter().map(|event| batch.kind(event)).collect::<Vec<_>>(), ["two"]);
    }
}
