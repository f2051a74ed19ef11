//! Execution of one operation by the commands of its kind.

use bson::RawDocument;
use loadframe_engine::driver::Reply;
use loadframe_engine::recording::latest_answers::LONGEST;
use loadframe_engine::workload::event::{Batch, Event};
use loadframe_engine::workload::variables::Values;

use super::Connection;
use super::answer::Answer;
use super::bulk;
use super::daily::Days;
use super::error::unfit;
use super::execute::{AnswerKind, Execution, extend, settle, write_result};
use super::ingest;
use super::operation::Kind;
use crate::crud::{Action, Bulk, Neutral};
use crate::daily::{Buckets, Days as _};
use crate::exchanges::read_modify_write;
use crate::ingest::{Ingest, chosen, without_source};
use crate::tally::Tally;

/// Returns whether a native command writes documents.
fn is_write(command: &RawDocument) -> bool {
    const WRITES: [&str; 6] = ["insert", "update", "delete", "bulkWrite", "findAndModify", "findandmodify"];
    let name = command.iter().next().and_then(Result::ok).map(|(name, _)| name.as_str());
    name.is_some_and(|name| WRITES.contains(&name))
}

impl Execution<'_> {
    /// Executes the operation: sends its commands, judges the answers, captures values, and returns the reply.
    pub async fn ask(&self, connection: &mut Connection, values: &Values<'_>) -> Reply {
        let concern = self.operation.concern;
        let (command, kind) = match &self.operation.kind {
            Kind::Query(template) => (connection.buffers.native(template, values), AnswerKind::Documents),
            Kind::Command(template) => (connection.buffers.native(template, values), AnswerKind::Result),
            Kind::Ingest(..) => return without_source(),
            Kind::DeleteDays(buckets, keep) => {
                return buckets.delete(Days::new(self, connection, buckets), *keep).await;
            }
            Kind::Neutral(neutral) => match neutral {
                Neutral::Bulk(bulk) => return self.bulk(connection, bulk).await,
                _ => {
                    let kind = if neutral.reads() { AnswerKind::Documents } else { AnswerKind::Result };
                    let written = connection.buffers.verb(neutral, concern, values);
                    (written.expect("a bulk request is written elsewhere"), kind)
                }
            },
        };
        let writes = command.as_ref().is_ok_and(|command| is_write(command));
        let asked = self.send(connection, command, kind).await;
        match &self.operation.kind {
            Kind::Neutral(Neutral::Read(_) | Neutral::ReadModifyWrite(_)) => {
                let read = self.judged(asked.then(Answer::or_not_found), values, &mut connection.memory);
                let Kind::Neutral(Neutral::ReadModifyWrite(write)) = &self.operation.kind else { return read.reply() };
                read_modify_write(read.reply(), async || {
                    let command = connection.buffers.update(write, false, concern, values);
                    self.send(connection, command, AnswerKind::Result).await.then(Answer::done).reply()
                })
                .await
            }
            Kind::Query(_) => {
                let (reply, answer) = self.judged(asked, values, &mut connection.memory).parted();
                // Long answers are not shown, and would use much memory with many clients.
                connection.newest = answer.filter(|answer| answer.size() <= LONGEST as u64);
                reply
            }
            Kind::Neutral(Neutral::Scan(_)) => self.judged(asked, values, &mut connection.memory).reply(),
            Kind::Command(_) => {
                let written =
                    if writes { asked.answer.as_ref().ok().and_then(Answer::documents_written) } else { None };
                let asked = asked.then(Answer::acknowledged);
                let reply = self.judged(asked, values, &mut connection.memory).reply();
                Reply { documents: written.unwrap_or(reply.documents), ..reply }
            }
            Kind::Neutral(_) | Kind::Ingest(..) | Kind::DeleteDays(..) => asked.then(Answer::done).reply(),
        }
    }

    /// Sends the documents of a bulk request, or those at the indices `only`, and returns one reply for all.
    async fn bulk(&self, connection: &mut Connection, bulk: &Bulk) -> Reply {
        let mut tally = Tally::default();
        let commands = bulk::commands((bulk, self.only), self.operation.concern, self.draw.k, &mut tally);
        self.write(connection, commands, bulk.action, tally).await
    }

    /// Sends the events of a batch, or those at the indices `only`, and returns one reply for all. Creates missing
    /// daily collections if events are partitioned by day. Waits while all days are deleted.
    pub async fn ingest(
        &self,
        connection: &mut Connection,
        (form, buckets): (&Ingest, Option<&Buckets>),
        batch: &Batch,
    ) -> Reply {
        let mut tally = Tally::default();
        let Some(buckets) = buckets else {
            let events = (0..).zip(chosen(batch, self.only)).collect();
            return self.write_events(connection, (form, batch), vec![(form.collection.clone(), events)], tally).await;
        };
        let dealt = buckets.deal(form, batch, self.only, &mut tally).await;
        let mut creation = None;
        let mut lists = Vec::new();
        for (begin, bucket) in dealt.days.iter().rev() {
            let make = async || {
                let mut days = Days::new(self, connection, buckets);
                let made = days.make(*begin).await;
                creation = days.exchanges().sum(creation);
                made
            };
            match buckets.make(*begin, make).await {
                Ok(()) => lists.push((bucket.name.clone(), bucket.events.clone())),
                // Creating the day's collection failed, not the events.
                Err(failure) => tally.fail_at(&bucket.places(), failure.denied()),
            }
        }
        let reply = self.write_events(connection, (form, batch), lists, tally).await;
        // Creating collections is part of the service time.
        match creation {
            Some(creation) => creation.followed_by(reply),
            None => reply,
        }
    }

    /// Sends each list of events to the collection that it names. Counts failed events in `tally`, and returns the
    /// reply for all.
    ///
    /// The server rejects a whole command for one unreadable document, without naming the document. The function halves
    /// such a command until the document is alone.
    async fn write_events(
        &self,
        connection: &mut Connection,
        (form, batch): (&Ingest, &Batch),
        mut lists: Vec<(String, Vec<(u32, &Event)>)>,
        mut tally: Tally,
    ) -> Reply {
        let mut whole = None;
        while let Some((collection, events)) = lists.pop() {
            let carried = events.iter().copied();
            let commands = match ingest::commands(form, &collection, batch, carried, self.operation.concern, &mut tally)
            {
                Ok(commands) => commands,
                Err(unexpected) => {
                    let places: Vec<u32> = events.iter().map(|(place, _)| *place).collect();
                    tally.fail_at(&places, unfit(unexpected).denied());
                    continue;
                }
            };
            for (command, places) in commands {
                let asked = self.send(connection, Ok(command), AnswerKind::Result).await;
                extend(&mut whole, &asked);
                match write_result(&asked) {
                    Err(failure) if places.len() > 1 && failure.is_of_contents() => {
                        let (first, second) = places.split_at(places.len() / 2);
                        for half in [second, first] {
                            let of_half = |(place, _): &&(u32, &Event)| half.binary_search(place).is_ok();
                            lists.push((collection.clone(), events.iter().filter(of_half).copied().collect()));
                        }
                    }
                    answer => bulk::count(answer, &places, Action::Upsert, &mut tally),
                }
            }
        }
        settle(whole, tally)
    }

    /// Queries once which events of a batch are visible. Returns the reply, and a flag for each event; an empty list if
    /// the query fails.
    pub async fn look_for(&self, connection: &mut Connection, form: &Ingest, batch: &Batch) -> (Reply, Vec<bool>) {
        let asked = self.send(connection, ingest::look(form, batch), AnswerKind::Documents).await;
        let seen = asked.answer.as_ref().map(|answer| ingest::seen(batch, answer.read()));
        let seen = seen.unwrap_or_default();
        (asked.reply(), seen)
    }
}
