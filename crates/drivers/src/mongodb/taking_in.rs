//! The events of a source as commands: each sets one field of its document, or makes the document.

use loadframe_engine::event::{Batch, Event};

use super::bson::{document, field, fields, nested, switch, text};
use super::bulk::{Commands, UPDATE, gathered, whole};
use super::operation::Concern;
use super::request::ID;
use crate::json::Unexpected;
use crate::neutral::Scalar;
use crate::take_in::{Days, TakeIn, chosen, id};
use crate::tally::Tally;

/// Writes the commands that carry the events at the places `only` of a batch, or all. Those whose lines cannot be sent
/// are counted in `tally`.
pub fn commands(
    form: &TakeIn,
    (batch, only): (&Batch, Option<&[u32]>),
    concern: Option<Concern>,
    tally: &mut Tally,
) -> Result<Commands, Unexpected> {
    let mut days = Days::default();
    gathered(
        chosen(batch, only),
        |out, event| update(out, form, batch, event, &mut days),
        |items, ends| whole(UPDATE, &form.collection, concern, items, ends),
        "the line of an event is not a JSON object that BSON can hold",
        tally,
    )
}

/// Writes one event's element of a command.
fn update(out: &mut Vec<u8>, form: &TakeIn, batch: &Batch, event: &Event, days: &mut Days) -> Result<(), Unexpected> {
    let id = id(batch, event).ok_or(Unexpected)?;
    document(out, |out| {
        nested(out, "q", |out| field(out, ID, &Scalar::Text(id)))?;
        nested(out, "u", |out| {
            nested(out, "$set", |out| {
                if let Some(instant) = form.instant(event) {
                    text(out, "day", days.of(instant));
                }
                nested(out, batch.kind(event), |out| fields(out, batch.line(event), None))
            })
        })?;
        switch(out, "upsert", true);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::bson::json as read;
    use super::*;
    use crate::take_in::Daily;
    use crate::take_in::tests::batch;

    #[test]
    fn an_event_sets_its_own_field_of_its_document_and_the_day() {
        let batch = batch(&[
            (0, "a", 1_488_412_799_999, r#"{"id":"a","price":0.5,"geo":{"zip":[1]}}"#),
            (1, r#"\"\u00e9"#, 1_488_412_800_000, r#"{"bid_id":"x"}"#),
            (2, "a", 1_488_412_799_999, "[1]"),
            (2, "7", 1_488_412_799_999, "{}"),
        ]);
        let written = |daily, only: Option<&[u32]>| {
            let form = TakeIn { collection: "ads".into(), daily };
            let mut tally = Tally::default();
            let mut commands = commands(&form, (&batch, only), Some(Concern::Acknowledged), &mut tally).unwrap();
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
            update("a", json!({"day": "2017.03.01", "bid": bid})),
            update("\"é", json!({"day": "2017.03.02", "win": {"bid_id": "x"}})),
            update("7", json!({"day": "2017.03.01", "click": {}})),
        ]);
        assert_eq!(written(Some(Daily::Event), None), (command(updates), vec![0, 1, 3], vec![2]));
        let some = json!([update("7", json!({"click": {}}))]);
        assert_eq!(written(None, Some(&[2, 3])), (command(some), vec![1], vec![0]), "places are those of what is sent");
    }
}
