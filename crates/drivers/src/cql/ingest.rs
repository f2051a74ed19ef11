//! Events of a source. Each event is one insert, which sets its own column of its row.

use std::rc::Rc;

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, Reply};
use loadframe_engine::workload::event::{Batch, Event};
use scylla::statement::prepared::PreparedStatement;

use super::bulk::execute;
use super::daily::Days;
use super::execute::Execution;
use super::request::{SEPARATOR, event_row};
use super::row::Row;
use super::table::{Table, TableName};
use crate::daily::{Buckets, Days as _};
use crate::ingest::{Ingest, chosen, id};
use crate::tally::Tally;

/// Sends the events at the indices `only` of a batch, or all events, and returns one reply for all. Creates missing
/// daily tables if events are partitioned by day. Waits while all days are deleted. The error says why nothing was
/// sent. `shown`, if set, gets the first statement and its answer.
pub async fn ingest(
    execution: &Execution<'_>,
    (form, of, buckets): (&Ingest, &TableName, Option<&Buckets>),
    (batch, only): (&Batch, Option<&[u32]>),
    shown: &mut Option<Exchange>,
) -> Result<Reply, Failure> {
    let (mut tally, mut ready) = (Tally::default(), Vec::new());
    let Some(buckets) = buckets else {
        let table = execution.table(of).await?;
        for (place, event) in chosen(batch, only).enumerate() {
            match bind(execution, &table, batch, event).await {
                Ok(bound) => ready.push((place, bound)),
                Err(failure) => tally.count(place, Err(failure)),
            }
        }
        return Ok(execute(execution, &ready, tally, shown).await);
    };
    let dealt = buckets.deal(form, batch, only, &mut tally).await;
    let mut creation = None;
    for (begin, bucket) in &dealt.days {
        let day = of.day(&bucket.name);
        let make = async || {
            let mut days = Days::new(execution, of, buckets);
            let made = days.make(&day).await;
            creation = days.exchanges().sum(creation);
            made
        };
        let table = match buckets.make(*begin, make).await {
            Ok(()) => execution.table(&day).await,
            Err(failure) => Err(failure),
        };
        match table {
            Ok(table) => {
                for (place, event) in &bucket.events {
                    match bind(execution, &table, batch, event).await {
                        Ok(bound) => ready.push((*place as usize, bound)),
                        Err(failure) => tally.fail_at(&[*place], failure),
                    }
                }
            }
            // Creating the day's table failed, not the events.
            Err(failure) => tally.fail_at(&bucket.places(), failure.denied()),
        }
    }
    let reply = execute(execution, &ready, tally, shown).await;
    // Creating tables is part of the service time.
    Ok(match creation {
        Some(creation) => creation.followed_by(reply),
        None => reply,
    })
}

/// Returns the prepared insert for an event and the values to execute it with: the document id and the line. Prepares
/// it at first use. Fails if they are not text or do not fit the columns.
async fn bind(
    execution: &Execution<'_>,
    table: &Table,
    batch: &Batch,
    event: &Event,
) -> Result<(Rc<PreparedStatement>, Row), Failure> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Failure::new(ErrorClass::Client, "an event is not text"));
    let id = id(batch, event).ok_or_else(|| Failure::new(ErrorClass::Client, "the id of an event is not text"))?;
    let kind = batch.kind(event);
    let key = [table.name.as_bytes(), &[SEPARATOR], kind.as_bytes()].concat();
    let statement = execution.statement(&key, || table.insert(&[kind])).await.map_err(Failure::denied)?;
    let row = event_row(&statement, &id, text(batch.line(event))?)?;
    Ok((statement, row))
}
