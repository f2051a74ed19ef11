//! Carrying one operation out: drawn, sent to the node that is to serve it, judged.

use std::sync::Arc;
use std::time::Instant;

use bson::RawDocumentBuf;
use loadframe_engine::driver::{ErrorClass, Failure, Part, Reply};
use loadframe_engine::event::Batch;
use loadframe_engine::variables::Values;

use super::Connection;
use super::answer::Answer;
use super::bson::json;
use super::bulk::{self, Commands};
use super::days::Days;
use super::failure::{self, is_displaced, unfit};
use super::line::{DATABASE, Line, Thread};
use super::nodes::{Mode, MongoNodes};
use super::operation::{Concern, Kind, Operation, Prefer};
use super::taking_in;
use crate::buckets::Buckets;
use crate::capture::Memory;
use crate::json::Unexpected;
use crate::net::deadline::Limit;
use crate::neutral::{Action, Bulk, Neutral};
use crate::take_in::{TakeIn, chosen, without_source};
use crate::tally::Tally;

/// One operation of one client.
pub struct Asking<'a> {
    /// All nodes.
    pub nodes: &'a Arc<MongoNodes>,
    /// What the thread holds.
    pub thread: &'a Thread,
    /// What is asked.
    pub operation: &'a Operation,
    /// Which members of a replica set are asked.
    pub prefer: Prefer,
    /// Which request it is.
    pub k: u64,
    /// The places of the documents that a bulk request carries; all if there are none named.
    pub only: Option<&'a [u32]>,
    /// How long it may take in all, over all of its commands.
    pub limit: Limit,
}

/// One command that was sent, or could not be, and judged.
pub struct Asked {
    sent: Instant,
    done: Instant,
    node: u16,
    bytes_sent: u64,
    /// What was answered.
    pub answer: Result<Answer, Failure>,
}

/// How a command's answer is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// It is a cursor, which is read to its end.
    Documents,
    /// It says how the command went.
    Told,
}

impl Asking<'_> {
    /// Asks it.
    pub async fn ask(&self, connection: &mut Connection, values: &Values<'_>) -> Reply {
        let concern = self.operation.concern;
        let (command, take) = match &self.operation.kind {
            Kind::Query(template) => (connection.room.native(template, values), Take::Documents),
            Kind::Command(template) => (connection.room.native(template, values), Take::Told),
            Kind::TakeIn(..) => return without_source(),
            Kind::DeleteDays(buckets, keep) => {
                return buckets.delete(Days::new(self, connection, buckets), *keep).await;
            }
            Kind::Neutral(neutral) => match neutral {
                Neutral::Bulk(bulk) => return self.bulk(connection, bulk).await,
                _ => {
                    let take = if neutral.reads() { Take::Documents } else { Take::Told };
                    let written = connection.room.verb(neutral, concern, values);
                    (written.expect("a bulk request is written elsewhere"), take)
                }
            },
        };
        let asked = self.send(connection, command, take).await;
        match &self.operation.kind {
            Kind::Neutral(Neutral::Read(_) | Neutral::ReadModifyWrite(_)) => {
                let read = self.judged(asked.then(Answer::or_not_found), values, &mut connection.memory);
                let Kind::Neutral(Neutral::ReadModifyWrite(write)) = &self.operation.kind else { return read.reply() };
                if read.answer.is_err() {
                    return Reply { parts: vec![read.part(0)], ..read.reply() };
                }
                let command = connection.room.update(write, false, concern, values);
                let written = self.send(connection, command, Take::Told).await.then(Answer::done);
                read.and(written)
            }
            Kind::Neutral(Neutral::Scan(_)) | Kind::Query(_) | Kind::Command(_) => {
                self.judged(asked, values, &mut connection.memory).reply()
            }
            Kind::Neutral(_) | Kind::TakeIn(..) | Kind::DeleteDays(..) => asked.then(Answer::done).reply(),
        }
    }

    /// Checks the answer against what the workload asserts, and takes from it what the user's later requests need.
    fn judged(&self, asked: Asked, values: &Values, memory: &mut Memory) -> Asked {
        let Operation { assertion, captures, .. } = self.operation;
        asked.then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, values))?;
            captures.keep_of(memory, || answer.first()).map(|()| answer)
        })
    }

    /// Sends one command to the node that is to serve it.
    async fn send(
        &self,
        connection: &mut Connection,
        command: Result<RawDocumentBuf, Unexpected>,
        take: Take,
    ) -> Asked {
        match command {
            Ok(command) => self.send_to(connection, DATABASE, command, take).await,
            Err(unexpected) => unsent(0, unfit(unexpected)),
        }
    }

    /// The same for a command to a database, which may be another than that of the collections.
    pub async fn send_to(
        &self,
        connection: &mut Connection,
        database: &str,
        command: RawDocumentBuf,
        take: Take,
    ) -> Asked {
        let Connection { assignment, client, lines, deadline, shown, .. } = connection;
        let (node, address) = match self.nodes.pick(self.prefer, assignment, *client, self.k) {
            Ok(picked) => picked,
            Err(failure) => return unsent(0, failure),
        };
        let at = usize::from(node);
        if at >= lines.len() {
            lines.resize_with(at + 1, || None);
        }
        let line = match &mut lines[at] {
            Some(line) => line,
            none => match Line::open(self.nodes, self.thread, &address).await {
                Ok(line) => none.insert(line),
                Err(failure) => return unsent(node, failure),
            },
        };
        if let Some(shown) = shown {
            add(&mut shown.request, &json(&command).map_or_else(String::new, |command| command.to_string()));
        }
        let bytes_sent = command.as_bytes().len() as u64;
        let criteria = self.prefer.criteria();
        let busy = if self.nodes.mode() == Mode::Alone { assignment.occupy() } else { None };
        let sent = Instant::now();
        let exchange = async {
            match take {
                Take::Documents => line.find(database, command, criteria).await.map(Answer::Found),
                Take::Told => line.tell(database, command, criteria).await.map(Answer::Told),
            }
        };
        let answer = deadline.within(self.limit.due, exchange).await;
        let done = Instant::now();
        drop(busy);
        let mut answer = match answer {
            Some(answer) => answer.map_err(|error| failure::request(&error)),
            None => Err(self.limit.missed()),
        };
        if let (Ok(Answer::Told(told)), Some(Concern::Unacknowledged)) = (&mut answer, self.operation.concern) {
            // The number of written documents is unknown then, and is 0 in the answer.
            told.remove("n");
        }
        let alone = self.nodes.mode() == Mode::Alone;
        match &answer {
            Ok(_) if alone => assignment.node().rise(),
            Err(failure) if is_displaced(failure) => {
                lines[at] = None;
                self.nodes.doubt();
                if alone && failure.class == ErrorClass::Connect {
                    assignment.refused(&failure.message);
                }
            }
            _ => {}
        }
        if let Some(shown) = shown {
            add(&mut shown.answer, &answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text));
        }
        Asked { sent, done, node, bytes_sent, answer }
    }

    async fn bulk(&self, connection: &mut Connection, bulk: &Bulk) -> Reply {
        let mut tally = Tally::default();
        let commands = bulk::commands((bulk, self.only), self.operation.concern, self.k, &mut tally);
        self.write(connection, commands, bulk.action, tally).await
    }

    /// Sends the events of a batch, to the collections of their days if days are told apart.
    pub async fn take_in(
        &self,
        connection: &mut Connection,
        (form, buckets): (&TakeIn, Option<&Buckets>),
        batch: &Batch,
    ) -> Reply {
        let (concern, mut tally) = (self.operation.concern, Tally::default());
        let Some(buckets) = buckets else {
            let events = (0..).zip(chosen(batch, self.only));
            let commands = taking_in::commands(&form.collection, batch, events, concern, &mut tally);
            return self.write(connection, commands, Action::Upsert, tally).await;
        };
        let dealt = buckets.deal(form, batch, self.only, &mut tally).await;
        let (began, mut waited) = (Instant::now(), false);
        let mut commands = Commands::new();
        for (begin, bucket) in &dealt.days {
            let make = async || Days::new(self, connection, buckets).make(*begin).await;
            let made = buckets.make(*begin, make).await.and_then(|made| {
                waited |= made;
                let events = bucket.events.iter().copied();
                taking_in::commands(&bucket.name, batch, events, concern, &mut tally).map_err(unfit)
            });
            match made {
                Ok(of_day) => commands.extend(of_day),
                Err(failure) => tally.fail_at(&bucket.places(), failure),
            }
        }
        let reply = self.write(connection, Ok(commands), Action::Upsert, tally).await;
        // The store has made a collection for the request.
        Reply { sent: if waited { began } else { reply.sent }, ..reply }
    }

    /// Asks once which events of a batch a query sees, by their places.
    pub async fn look_for(&self, connection: &mut Connection, form: &TakeIn, batch: &Batch) -> (Reply, Vec<bool>) {
        let asked = self.send(connection, taking_in::look(form, batch), Take::Documents).await;
        let seen = asked.answer.as_ref().map(|answer| taking_in::seen(batch, answer.read()));
        let seen = seen.unwrap_or_default();
        (asked.reply(), seen)
    }

    /// Sends the commands that write documents; those that could not be written are in `tally`.
    async fn write(
        &self,
        connection: &mut Connection,
        commands: Result<Commands, Unexpected>,
        action: Action,
        mut tally: Tally,
    ) -> Reply {
        let commands = match commands {
            Ok(commands) => commands,
            Err(unexpected) => {
                tally.fail(unfit(unexpected));
                Vec::new()
            }
        };
        let now = Instant::now();
        let mut whole = Reply::new(now, now, Ok(()));
        for (at, (command, places)) in commands.into_iter().enumerate() {
            let asked = self.send(connection, Ok(command), Take::Told).await;
            if at == 0 {
                (whole.sent, whole.node) = (asked.sent, asked.node);
            }
            whole.done = asked.done;
            whole.bytes_sent += asked.bytes_sent;
            whole.bytes_received += asked.received();
            let told = match &asked.answer {
                Ok(Answer::Told(answer)) => Ok(answer),
                Ok(Answer::Found(_)) => unreachable!("a write finds nothing"),
                Err(failure) => Err(failure.clone()),
            };
            bulk::count(told, &places, action, &mut tally);
        }
        let Reply { sent, done, bytes_sent, bytes_received, node, .. } = whole;
        Reply { bytes_sent, bytes_received, node, ..tally.settle(sent, done) }
    }
}

/// A command that could not be sent.
fn unsent(node: u16, failure: Failure) -> Asked {
    let now = Instant::now();
    Asked { sent: now, done: now, node, bytes_sent: 0, answer: Err(failure) }
}

impl Asked {
    /// The same, with the answer judged further.
    fn then(self, judge: impl FnOnce(Answer) -> Result<Answer, Failure>) -> Self {
        Self { answer: self.answer.and_then(judge), ..self }
    }

    fn received(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::size)
    }

    fn documents(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::documents)
    }

    fn part(&self, name: usize) -> Part {
        let failed = self.answer.as_ref().err().map(|failure| failure.class);
        Part { name, sent: self.sent, done: self.done, documents: self.documents(), failed }
    }

    /// The outcome of this read and of the write that followed it.
    fn and(self, written: Self) -> Reply {
        let parts = vec![self.part(0), written.part(1)];
        let bytes_received = self.received() + written.received();
        let bytes_sent = self.bytes_sent + written.bytes_sent;
        Reply { sent: self.sent, bytes_sent, bytes_received, parts, ..written.reply() }
    }

    /// What was sent and received, whatever that means.
    pub fn exchange(&self) -> Reply {
        Reply {
            bytes_sent: self.bytes_sent,
            bytes_received: self.received(),
            node: self.node,
            ..Reply::new(self.sent, self.done, Ok(()))
        }
    }

    fn reply(self) -> Reply {
        let exchange = self.exchange();
        Reply { documents: self.documents(), outcome: self.answer.map(drop), ..exchange }
    }
}

/// Appends a line.
fn add(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
