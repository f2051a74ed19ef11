//! Events of a source as commands. Each event sets one field of its document, and creates the document if necessary.

use bson::RawDocumentBuf;
use loadframe_engine::workload::event::{Batch, Event};
use serde_json::Value;

use super::bson::{array, document, event as event_fields, field, int, nested, switch, text};
use super::bulk::{Commands, UPDATE, gathered, whole};
use super::daily;
use super::operation::Concern;
use super::request::{ID, command};
use crate::crud::Scalar;
use crate::ingest::{Ingest, id};
use crate::tally::Tally;
use loadframe_engine::util::json::Unexpected;

/// Writes the update commands for events of a batch, each command with the indices of its events.
/// `events` gives each event with its index in the request. Events with invalid lines count in `tally` as failed. Fails
/// if a command cannot be encoded.
pub fn commands<'a>(
    form: &Ingest,
    collection: &str,
    batch: &Batch,
    events: impl Iterator<Item = (u32, &'a Event)>,
    concern: Option<Concern>,
    tally: &mut Tally,
) -> Result<Commands, Unexpected> {
    gathered(
        events,
        |out, event| update(out, form, batch, event),
        |items, ends| whole(UPDATE, collection, concern, items, ends),
        "the line of an event is not a JSON object that BSON can hold",
        tally,
    )
}

/// Appends one event's element of an update command to `out`. Fails if the id or the line is not valid.
fn update(out: &mut Vec<u8>, form: &Ingest, batch: &Batch, event: &Event) -> Result<(), Unexpected> {
    let id = id(batch, event).ok_or(Unexpected)?;
    document(out, |out| {
        nested(out, "q", |out| field(out, ID, &Scalar::Text(id)))?;
        nested(out, "u", |out| {
            let (kind, line) = (batch.kind(event), batch.line(event));
            nested(out, "$set", |out| nested(out, kind, |out| event_fields(out, line, form.times_of(kind))))
        })?;
        switch(out, "upsert", true);
        Ok(())
    })
}

/// Returns the command that queries the documents of all events, with a field for each kind of event. Fails if an id is
/// not valid text. With days by arrival, a document's events may lie in two daily collections. The query may then
/// return two documents of one id.
pub fn look(form: &Ingest, batch: &Batch) -> Result<RawDocumentBuf, Unexpected> {
    let every_day = form.daily.map(|_| daily::view(&form.collection));
    command(|out| {
        text(out, "find", every_day.as_ref().unwrap_or(&form.collection));
        nested(out, "filter", |out| {
            nested(out, "_id", |out| {
                array(out, "$in", |out| {
                    for (place, event) in batch.events.iter().enumerate() {
                        let id = id(batch, event).ok_or(Unexpected)?;
                        field(out, place.to_string().as_bytes(), &Scalar::Text(id))?;
                    }
                    Ok(())
                })
            })
        })?;
        nested(out, "projection", |out| {
            batch.kinds.iter().for_each(|kind| int(out, kind, 1));
            Ok(())
        })?;
        // Request all documents in one answer.
        int(out, "batchSize", 2 * batch.events.len() as i64 + 1);
        Ok(())
    })
}

/// Returns for each event of a batch whether its document, found by id among `documents`, has a field of its kind.
pub fn seen(batch: &Batch, documents: impl Iterator<Item = Value>) -> Vec<bool> {
    let documents: Vec<Value> = documents.collect();
    let is_seen = |event| {
        let id = id(batch, event);
        let is_its = |document: &&Value| document["_id"].as_str() == id.as_deref();
        documents.iter().filter(is_its).any(|document| document.get(batch.kind(event)).is_some())
    };
    batch.events.iter().map(is_seen).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::bson::json as read;
    use super::*;
    use crate::ingest::tests::batch;
    use crate::ingest::{Daily, chosen};

    /// Returns an ingest into the days of the collection `ads`, by the time of the events.
    fn form() -> Ingest {
        Ingest { collection: "ads".into(), daily: Some(Daily::Event), times: [].into() }
    }

    #[test]
    fn an_event_sets_its_own_field_of_its_document() {
        let batch = batch(&[
            (0, "a", 1_488_412_799_999, r#"{"id":"a","price":0.5,"geo":{"zip":[1]}}"#),
            (1, r#"\"\u00e9"#, 1_488_412_800_000, r#"{"bid_id":"x"}"#),
            (2, "a", 1_488_412_799_999, "[1]"),
            (2, "7", 1_488_412_799_999, "{}"),
        ]);
        let written = |only: Option<&[u32]>| {
            let events = (0..).zip(chosen(&batch, only));
            let mut tally = Tally::default();
            let mut commands =
                commands(&form(), "ads", &batch, events, Some(Concern::Acknowledged), &mut tally).unwrap();
            let (command, places) = commands.pop().unwrap();
            assert!(commands.is_empty());
            let now = std::time::Instant::now();
            (read(&command).unwrap(), places, tally.settle(now, now).refused)
        };
        let update = |id: &str, set: Value| json!({"q": {"_id": id}, "u": {"$set": set}, "upsert": true});
        let command =
            |updates: Value| json!({"update": "ads", "ordered": false, "updates": updates, "writeConcern": {"w": 1}});
        let bid = json!({"id": "a", "price": 0.5, "geo": {"zip": [1]}});
        let updates = json!([
            update("a", json!({"bid": bid})),
            update("\"é", json!({"win": {"bid_id": "x"}})),
            update("7", json!({"click": {}})),
        ]);
        assert_eq!(written(None), (command(updates), vec![0, 1, 3], vec![2]));
        let some = json!([update("7", json!({"click": {}}))]);
        assert_eq!(written(Some(&[2, 3])), (command(some), vec![1], vec![0]), "places count sent events only");
    }

    #[test]
    fn events_are_seen_in_documents_that_have_their_kind() {
        let batch = batch(&[(0, "a", 0, ""), (1, "a", 0, ""), (1, r#"\"b"#, 0, ""), (2, "c", 0, "")]);
        let form = form();
        let command = json!({
            "find": "ads-*", "filter": {"_id": {"$in": ["a", "a", "\"b", "c"]}},
            "projection": {"bid": 1, "win": 1, "click": 1}, "batchSize": 9,
        });
        assert_eq!(read(&look(&form, &batch).unwrap()), Some(command));
        let documents = [json!({"_id": "a", "bid": {}}), json!({"_id": "\"b", "win": {}, "bid": {}})];
        assert_eq!(seen(&batch, documents.into_iter()), [true, false, true, false]);
        assert_eq!(seen(&batch, [].into_iter()), [false; 4]);
    }
}
