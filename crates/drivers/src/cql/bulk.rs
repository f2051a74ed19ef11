//! Bulk requests: one execution of a prepared statement per document, with bounded concurrency.
//!
//! Drivers of this family work the same way. A protocol batch would send the documents of many nodes through one node.

use std::rc::Rc;

use futures_util::stream::{StreamExt, iter};
use loadframe_engine::driver::{Exchange, Failure, NO_NODE, Reply};
use scylla::statement::prepared::PreparedStatement;

use super::execute::{Execution, StatementOutcome, show};
use super::request::{Document, columns, names};
use super::row::Row;
use super::table::Table;
use crate::crud::{Action, Bulk};
use crate::net::exchange::Exchanged;
use crate::tally::Tally;

/// Maximum number of documents of one request in flight.
const IN_FLIGHT: usize = 64;

/// Sends the documents of request number `k`, or those at the indices `only`. Returns the reply of [`Tally::reply`]:
/// the number of written documents, and the positions of failed ones. `shown`, if set, gets the first statement and its
/// answer.
pub async fn ask(
    execution: &Execution<'_>,
    table: &Table,
    (bulk, only): (&Bulk, Option<&[u32]>),
    k: u64,
    shown: &mut Option<Exchange>,
) -> Reply {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let (mut tally, mut ready) = (Tally::default(), Vec::new());
    for (place, (_, line)) in Bulk::chosen(&lines, only).enumerate() {
        match bind(execution, table, bulk, line).await {
            Ok(bound) => ready.push((place, bound)),
            Err(failure) => tally.count(place, Err(failure)),
        }
    }
    execute(execution, &ready, tally, shown).await
}

/// A statement with its values, and the index of its document in the request.
pub type Placed = (usize, (Rc<PreparedStatement>, Row));

/// Executes statements, at most 64 at a time, and returns one reply for all. `tally` already counts documents without a
/// statement. `shown`, if set, gets the first statement and its answer.
pub async fn execute(
    execution: &Execution<'_>,
    ready: &[Placed],
    mut tally: Tally,
    shown: &mut Option<Exchange>,
) -> Reply {
    let execute = async |(place, (statement, row)): &Placed| (*place, execution.execute(statement, row).await);
    let executions = ready.iter().map(execute);
    let answers: Vec<(usize, StatementOutcome)> = iter(executions).buffer_unordered(IN_FLIGHT).collect().await;
    // Answers are in the order of their arrival.
    let first = ready.first().and_then(|(first, _)| answers.iter().find(|(place, _)| place == first));
    if let (Some(shown), Some((_, (statement, _))), Some((_, asked))) = (shown, ready.first(), first) {
        show(shown, statement, &asked.answer);
    }
    let node = node_of(&answers);
    let mut whole: Option<Exchanged> = None;
    for (place, asked) in answers {
        whole = Some(asked.exchanged.beside(whole));
        tally.count(place, asked.answer.map(drop));
    }
    tally.reply(whole, node)
}

/// Returns the node of the first document that was stored, else of the first that was sent. `answers` are in the order
/// of their arrival, so the first of them would always name the fastest node.
fn node_of(answers: &[(usize, StatementOutcome)]) -> u16 {
    let key = |(place, asked): &&(usize, StatementOutcome)| (asked.answer.is_err(), asked.node == NO_NODE, *place);
    answers.iter().min_by_key(key).map_or(NO_NODE, |(_, asked)| asked.node)
}

/// Returns the prepared statement for the document `line` and the values to execute it with. Prepares it at first use.
/// Fails for a line without an id, a value that does not fit its column, and a statement that cannot be prepared.
async fn bind(
    execution: &Execution<'_>,
    table: &Table,
    bulk: &Bulk,
    line: &[u8],
) -> Result<(Rc<PreparedStatement>, Row), Failure> {
    let document = Document::read(line, bulk.id.as_deref().unwrap_or(&table.key))?;
    let names = names(&document.names)?;
    let (insert, only_id) = match bulk.action {
        Action::Index | Action::Create | Action::Upsert => (true, false),
        Action::Update => (false, false),
        Action::Delete => (true, true),
    };
    let key = if bulk.action == Action::Delete { "" } else { names };
    let text = || match bulk.action {
        Action::Delete => table.delete(),
        Action::Update => table.update(&columns(names)),
        _ => table.insert(&columns(names)),
    };
    let statement = execution.statement(key.as_bytes(), text).await?;
    let row = document.bind(&statement, insert, only_id)?;
    Ok((statement, row))
}

#[cfg(test)]
mod tests {
    use loadframe_engine::driver::ErrorClass;

    use super::*;

    #[test]
    fn a_bulk_request_counts_for_the_node_of_its_first_document_and_not_for_the_fastest_node() {
        let answer = |place, node| (place, StatementOutcome::unsent(node, Failure::new(ErrorClass::Connect, "no")));
        let answers = [answer(3, 5), answer(1, 3), answer(2, 5), answer(0, NO_NODE)];
        assert_eq!(node_of(&answers), 3);
        assert_eq!(node_of(&[]), NO_NODE);
    }
}
