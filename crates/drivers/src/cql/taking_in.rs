//! The events of a source, each as one insertion into its row: its own column, and the day.

use std::rc::Rc;

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, Reply};
use loadframe_engine::event::{Batch, Event};
use scylla::statement::prepared::PreparedStatement;

use super::asking::Asking;
use super::bulk::execute;
use super::failure::failure;
use super::row::Row;
use super::statement::{SEPARATOR, columns, event_row};
use super::table::Table;
use crate::take_in::{Days, TakeIn, chosen, id};
use crate::tally::Tally;

/// The column of the day.
const DAY: &str = "day";

/// Sends the events at the places `only` of a batch, or all.
pub async fn take_in(
    asking: &Asking<'_>,
    table: &Table,
    form: &TakeIn,
    (batch, only): (&Batch, Option<&[u32]>),
    shown: &mut Option<Exchange>,
) -> Reply {
    let mut days = Days::default();
    let (mut tally, mut ready, mut names) = (Tally::default(), Vec::new(), Vec::new());
    for (place, event) in chosen(batch, only).enumerate() {
        let day = form.instant(event).map(|instant| days.of(instant));
        match bind(asking, table, batch, event, day, &mut names).await {
            Ok(bound) => ready.push((place, bound)),
            Err(failure) => tally.count(place, Err(failure)),
        }
    }
    execute(asking, &ready, tally, shown).await
}

async fn bind(
    asking: &Asking<'_>,
    table: &Table,
    batch: &Batch,
    event: &Event,
    day: Option<&str>,
    names: &mut Vec<u8>,
) -> Result<(Rc<PreparedStatement>, Row), Failure> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| failure(ErrorClass::Client, "an event is not text"));
    let id = id(batch, event).ok_or_else(|| failure(ErrorClass::Client, "the id of an event is not text"))?;
    names.clear();
    for name in day.map(|_| DAY).into_iter().chain([batch.kind(event)]) {
        names.extend_from_slice(name.as_bytes());
        names.push(SEPARATOR);
    }
    let columns = columns(names)?;
    let statement = asking.statement(names, || table.insert(&columns)).await?;
    let row = event_row(&statement, &id, day, text(batch.line(event))?)?;
    Ok((statement, row))
}
