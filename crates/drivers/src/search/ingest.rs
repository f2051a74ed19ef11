//! Ingest of a source's events: one bulk request per batch, split if the store cannot parse it.
//!
//! If a store cannot parse one line of a bulk request, it refuses the whole request without naming the line. The driver
//! halves the batch until the faulty line is alone, so that the other events succeed.

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::{Context, ErrorClass, Failure, NO_NODE, Reply};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::{Captured, Values};

use super::operation::IngestTarget;
use super::{Operation, Search};
use crate::daily::generations::{DELETED, List, Names, Style};
use crate::http1::Connection;
use crate::ingest::{Ingest, chosen, count};
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::search::operation::ingest;
use crate::tally::Tally;

/// Status codes for a request that cannot be parsed or is too large.
const UNREADABLE: [u16; 2] = [400, 413];

/// An operation, and the generations that determine its events' indices.
#[derive(Clone, Copy)]
struct Placed<'a> {
    operation: &'a Operation,
    form: &'a Ingest,
    list: &'a List,
}

impl Search {
    /// Sends the events of a batch, or those at the indices `only`, to the generations of their documents. The first
    /// time, lists the generations in the store. Events of deleted generations are refused. Returns one reply for all.
    pub(super) async fn place_events(
        &self,
        connection: &mut Connection,
        (operation, target): (&Operation, &IngestTarget),
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        let list = if let Some((generations, indices)) = &target.generations {
            let draw = Draw::new(0, 0, connection.number());
            let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
            if let Err(reply) = self.learn(connection, (generations, indices), operation.timeout, &values).await {
                return reply;
            }
            generations.place(&target.form, batch, only)
        } else {
            Arc::default()
        };
        let form = Placed { operation, form: &target.form, list: &list };
        let deleted = form.deleted(batch, only);
        if deleted.is_empty() {
            return self.send_events(connection, form, context, batch, only).await;
        }
        let mut tally = Tally::default();
        let kept: Vec<u32> =
            (0..count(batch, only) as u32).filter(|place| deleted.binary_search(place).is_err()).collect();
        tally.fail_at(&deleted, Failure::new(ErrorClass::Client, DELETED));
        let mut reply = Exchanged::never().reply(NO_NODE, 0, Ok(()));
        if !kept.is_empty() {
            let of_batch = |place: &u32| only.map_or(*place, |only| only[*place as usize]);
            let places: Vec<u32> = kept.iter().map(of_batch).collect();
            reply = self.send_events(connection, form, context, batch, Some(&places)).await;
            tally.include(&reply, &kept);
        }
        Reply {
            bytes_sent: reply.bytes_sent,
            bytes_received: reply.bytes_received,
            node: reply.node,
            overhead: reply.overhead,
            ..tally.settle(reply.sent, reply.done)
        }
    }

    /// Sends the events of a batch, or those at the indices `only`. Halves a request that the store cannot read, until
    /// the faulty event is alone, which is refused. Returns one reply for all.
    async fn send_events(
        &self,
        connection: &mut Connection,
        form: Placed<'_>,
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        let whole = self.send_once(connection, form, context, batch, only).await;
        let carried = count(batch, only);
        if !is_unreadable(connection, &whole) {
            return whole;
        }
        if carried < 2 {
            return Reply { lost: true, refused: vec![0], ..whole };
        }
        let all: Vec<u32> = only.map_or_else(|| (0..carried as u32).collect(), <[u32]>::to_vec);
        let (mut tally, mut sum, mut node) = (Tally::default(), Exchanged::of(&whole), whole.node);
        let mut last = whole;
        // Halves still to send, by their positions in `all`; the last one is next.
        let mut halves = vec![carried / 2..carried, 0..carried / 2];
        while let Some(half) = halves.pop() {
            last = self.send_once(connection, form, context, batch, Some(&all[half.clone()])).await;
            sum = sum.then(&Exchanged::of(&last));
            node = last.node_or(node);
            if is_unreadable(connection, &last) && half.len() > 1 {
                let middle = half.start + half.len() / 2;
                halves.extend([middle..half.end, half.start..middle]);
                continue;
            }
            let places: Vec<u32> = (half.start as u32..half.end as u32).collect();
            tally.include(&last, &places);
        }
        Reply { status: last.status, ..tally.reply(Some(sum), node) }
    }

    /// Queries once which events of a batch are visible. Returns the reply, and a flag for each event, by position; an
    /// empty list if the query fails.
    pub(super) async fn ask_for_events(
        &self,
        connection: &mut Connection,
        (target, timeout): (&IngestTarget, Duration),
        context: &Context,
        batch: &Batch,
    ) -> (Reply, Vec<bool>) {
        let list = match &target.generations {
            Some((generations, _)) => generations.list(),
            // A single collection, without days.
            None => Arc::default(),
        };
        connection.give(|body| {
            ingest::look(&target.form, &list, batch, body);
            0
        });
        let draw = Draw::new(0, 0, connection.number());
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let reply = self.step(connection, &target.look, None, Limit::starting_now(timeout), &values).await;
        let seen = reply.outcome.as_ref().map(|()| ingest::seen(batch, connection.answer().body()));
        let seen = seen.unwrap_or_default();
        (reply, seen)
    }

    /// Sends the events of a batch, or those at the indices `only`, in one request. A failure of the whole request for
    /// another reason than its contents may be retried.
    async fn send_once(
        &self,
        connection: &mut Connection,
        form: Placed<'_>,
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        connection.give(|body| ingest::body(form.form, form.list, batch, only, body));
        let draw = Draw { trace: batch.trace, ..Draw::new(0, 0, connection.number()) };
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let limit = Limit::starting_now(form.operation.timeout);
        let mut reply = self.step(connection, &form.operation.step, None, limit, &values).await;
        let unreadable = is_unreadable(connection, &reply);
        if let Err(failure) = &mut reply.outcome
            && reply.refused.is_empty()
            && reply.rejected.is_empty()
        {
            // For example 401 or 403: the next request may be allowed.
            failure.denied |= !unreadable;
        }
        reply
    }
}

impl Placed<'_> {
    /// Returns the positions, within the request, of events in deleted generations.
    fn deleted(&self, batch: &Batch, only: Option<&[u32]>) -> Vec<u32> {
        if !self.list.deletes() {
            return Vec::new();
        }
        let mut names = Names::new(&self.form.collection, Style::Dotted, self.list);
        let places = (0..).zip(chosen(batch, only));
        let mut deleted = |event| self.form.instant(event).is_some_and(|instant| names.of(instant).is_none());
        places.filter(|(_, event)| deleted(event)).map(|(place, _)| place).collect()
    }
}

/// Returns whether the store refused the whole request because of some of its content: status 400 or 413. `connection`
/// must hold the answer of `reply`.
fn is_unreadable(connection: &Connection, reply: &Reply) -> bool {
    let refused = reply.outcome.as_ref().is_err_and(|failure| failure.class == ErrorClass::Client);
    refused && UNREADABLE.contains(&connection.answer().status())
}
