//! Index management during ingest: rolls over large or old indices, shrinks closed ones, deletes expired ones.
//!
//! Ages refer to event times, so a replayed log is treated like the original. Ingest continues meanwhile; see
//! [`Generations`] for how each event finds its document.

mod round;
mod shrink;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;

use self::round::{Failed, Round};
use super::Search;
use super::answer::Judge;
use super::dialect::Dialect;
use super::index;
use super::index::Index;
use super::request::SearchStep;
use crate::daily::generations::{Generations, clock};
use crate::exchanges::Exchanges;
use crate::http1::Connection;
use crate::http1::request::Request;
use crate::net::deadline::Limit;

/// The recorded parts. `blocked` is the time of a shrink during which the index refuses writes.
pub const PARTS: [&str; 5] = ["look", "roll_over", "shrink", "blocked", "delete"];
/// Index of the queries among the parts.
const LOOK: usize = 0;
/// Index of a rollover among the parts.
const ROLL_OVER: usize = 1;
/// Index of a shrink among the parts.
const SHRINK: usize = 2;
/// Index of a write block among the parts.
const BLOCKED: usize = 3;
/// Index of a deletion among the parts.
const DELETE: usize = 4;

/// An index management operation.
#[derive(Debug)]
pub struct Managing {
    /// The generations of the collection.
    pub generations: Arc<Generations>,
    /// The API of the store's version.
    pub dialect: Dialect,
    /// Lists the indices. The operation's own step queries their sizes.
    pub indices: SearchStep,
    /// Makes all documents visible.
    pub refresh: SearchStep,
    /// Queries the newest document times, after `refresh`.
    pub newest: SearchStep,
    /// When to start a new generation.
    pub roll_over: Option<Conditions>,
    /// How to shrink closed generations.
    pub shrink: Option<Shrink>,
    /// Retention after the end of a generation, in milliseconds.
    pub keep: Option<i64>,
}

/// Roll-over conditions. Any one starts a new generation.
#[derive(Debug)]
pub struct Conditions {
    /// Visible documents.
    pub documents: Option<u64>,
    /// Size of the primary shards, in bytes.
    pub size: Option<u64>,
    /// Time from the generation's start to its newest document, in milliseconds.
    pub age: Option<i64>,
}

/// How to shrink closed generations.
#[derive(Debug)]
pub struct Shrink {
    /// Delay after the end of a generation, in milliseconds.
    pub after: i64,
    /// Number of shards of the new index. Indices with fewer shards stay unchanged.
    pub shards: u64,
    /// Settings of the new index.
    pub settings: Value,
    /// Number of segments per shard after merging.
    pub segments: Option<u64>,
}

impl Managing {
    /// Rolls over, deletes and shrinks the indices that are due. Returns one reply with the parts of [`PARTS`].
    /// After a failure of one action, the others still run; the outcome is the first failure. If the first queries
    /// fail, nothing is changed. `sizes` queries the sizes of the indices; `timeout` applies to each request; `seen` is
    /// called with each request and its reply.
    pub async fn run(
        &self,
        search: &Search,
        connection: &mut Connection,
        sizes: &SearchStep,
        timeout: Duration,
        values: &Values<'_>,
        seen: &mut impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let mut round = Round { search, connection, timeout, values, seen, exchanges: Exchanges::default() };
        let began = round.exchanges.begin();
        let stored = self.look(&mut round, sizes).await;
        let outcome = stored.as_ref().map(drop).map_err(|Failed| Failed);
        round.note(LOOK, began, &outcome);
        if let Ok(stored) = stored
            && let Some(now) = self.generations.now(clock())
        {
            // The actions are independent. The operation fails with the first failure.
            self.roll_over(&mut round, &stored, now).await;
            self.delete(&mut round, &stored, now).await;
            self.make_smaller(&mut round, &stored, now).await;
        }
        round.exchanges.finish()
    }

    /// Queries the indices and their sizes, and adds their generations to the known ones. The first time, also
    /// refreshes the indices and queries the newest document times. A failed request, or an answer that is not JSON, is
    /// recorded in `round`.
    async fn look<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        sizes: &SearchStep,
    ) -> Result<StoredIndices, Failed> {
        round.ask(sizes).await?;
        let sizes = round.answer()?;
        round.ask(&self.indices).await?;
        let (indices, unfinished) = index::read(&self.generations, &round.answer()?);
        self.generations.learn(indices.iter().flat_map(Index::names));
        if !self.generations.dated.initialized() {
            // An earlier process may have written newer documents.
            round.ask(&self.refresh).await?;
            round.ask(&self.newest).await?;
            self.generations.note(instants(&round.answer()?).into_iter());
            // Another client may have set it first, to the same answer.
            let _ = self.generations.dated.set(());
        }
        let sizes = sizes.as_array().into_iter().flatten();
        let sizes = sizes.filter_map(|row| Some((row["index"].as_str()?.to_owned(), Size::read(row)))).collect();
        Ok(StoredIndices { indices, unfinished, sizes })
    }

    /// Starts a new generation, if a condition holds for the one that contains `now`, and creates its index. `now` is
    /// in milliseconds since 1970. Records a failure in `round`.
    async fn roll_over<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        stored: &StoredIndices,
        now: i64,
    ) {
        let Some(Conditions { documents, size, age }) = self.roll_over else { return };
        let (from, _) = self.generations.list().span(now);
        let Some(current) = stored.indices.iter().find(|index| index.begin == from) else { return };
        let has = stored.sizes.get(&current.name).copied().unwrap_or_default();
        let newest = self.generations.newest(now).unwrap_or(from);
        let reached = documents.is_some_and(|most| has.documents >= most)
            || size.is_some_and(|most| has.bytes >= most)
            || age.is_some_and(|most| newest - from >= most);
        let Some(begin) = reached.then(|| self.generations.begin(now)).flatten() else { return };
        let (began, name) = (round.exchanges.begin(), self.generations.name(begin));
        // An event may have created the index already.
        let outcome = round.send("PUT", &[&name], None, Judge::Present).await;
        round.note(ROLL_OVER, began, &outcome);
    }

    /// Deletes the indices of generations that ended at least `keep` milliseconds before `now`; nothing without `keep`.
    /// Their later events are refused. Records failures in `round`, and continues.
    async fn delete<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        stored: &StoredIndices,
        now: i64,
    ) {
        let Some(keep) = self.keep else { return };
        let until = now - keep;
        // From now on, events do not recreate these indices.
        self.generations.delete(until);
        for index in stored.indices.iter().filter(|index| self.end(index) <= until) {
            let began = round.exchanges.begin();
            let outcome = round.send("DELETE", &[&index.name], None, Judge::Absent).await;
            round.note(DELETE, began, &outcome);
        }
    }

    /// Returns the end of an index's generation, in milliseconds since 1970.
    fn end(&self, index: &Index) -> i64 {
        self.generations.list().span(index.begin).1
    }
}

/// The indices in the store.
struct StoredIndices {
    indices: Vec<Index>,
    /// Shrunk indices that have not replaced their originals yet.
    unfinished: Vec<String>,
    sizes: BTreeMap<String, Size>,
}

/// Size of an index.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    documents: u64,
    bytes: u64,
}

impl Size {
    /// Reads the size of an index from a row of the store's table; 0 for a missing number.
    fn read(row: &Value) -> Self {
        let number = |key: &str| row[key].as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        Self { documents: number("docs.count"), bytes: number("pri.store.size") }
    }
}

/// Returns the newest time of each day and field in an answer, in milliseconds since 1970; empty without aggregations.
fn instants(answer: &Value) -> Vec<i64> {
    let fields = answer["aggregations"].as_object().into_iter().flat_map(|fields| fields.values());
    let days = fields.filter_map(|field| field["buckets"].as_array()).flatten();
    days.filter_map(|day| day["newest"]["value"].as_f64()).map(|newest| newest as i64).collect()
}

impl Search {
    /// Lists the generations in the store, once per collection, and adds them to `generations`. The error is the reply
    /// of the failed request; the next call then tries again.
    pub(super) async fn learn(
        &self,
        connection: &mut Connection,
        (generations, indices): (&Generations, &SearchStep),
        timeout: Duration,
        values: &Values<'_>,
    ) -> Result<(), Reply> {
        let asked = generations.listed.get_or_try_init(|| async {
            let reply = self.step(connection, indices, None, Limit::starting_now(timeout), values).await;
            if reply.outcome.is_err() {
                return Err(reply);
            }
            // Without the list, a document could be stored in two indices.
            let answer = serde_json::from_slice(connection.answer().body()).map_err(|error| {
                let words = format!("the list of indices cannot be read: {error}");
                Reply { outcome: Err(Failure::new(ErrorClass::Server, words)), ..reply }
            })?;
            generations.learn(index::read(generations, &answer).0.iter().flat_map(Index::names));
            Ok(())
        });
        asked.await.map(drop)
    }
}
