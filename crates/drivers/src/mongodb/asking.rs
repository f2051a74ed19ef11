//! Sending one command of a client to the node that is to serve it, and judging the answer.

use std::sync::Arc;
use std::time::Instant;

use bson::{Document, RawDocumentBuf};
use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{ErrorClass, Failure, Part, Reply};
use loadframe_engine::variables::Values;

use super::Connection;
use super::answer::Answer;
use super::bson::json;
use super::bulk::{self, Commands};
use super::failure::{self, is_displaced, unfit};
use super::line::{Line, Thread};
use super::nodes::{Mode, MongoNodes};
use super::operation::{Concern, Operation, Prefer};
use crate::capture::Memory;
use crate::json::Unexpected;
use crate::net::deadline::Limit;
use crate::neutral::Action;
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
    pub draw: Draw,
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
    /// Checks the answer against what the workload asserts, and takes from it what the user's later requests need.
    pub fn judged(&self, asked: Asked, values: &Values, memory: &mut Memory) -> Asked {
        let Operation { assertion, captures, .. } = self.operation;
        asked.then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, values))?;
            captures.keep_of(memory, || answer.first()).map(|()| answer)
        })
    }

    /// Sends one command to the node that is to serve it.
    pub async fn send(
        &self,
        connection: &mut Connection,
        command: Result<RawDocumentBuf, Unexpected>,
        take: Take,
    ) -> Asked {
        match command {
            Ok(command) => self.send_to(connection, &self.operation.database, command, take).await,
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
        let (node, address) = match self.nodes.pick(self.prefer, assignment, *client, &self.draw) {
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
        // The library connects while it sends: what failed to connect was not sent.
        let unsent = answer.as_ref().is_err_and(|failure| failure.class == ErrorClass::Connect);
        Asked { sent, done, node, bytes_sent: if unsent { 0 } else { bytes_sent }, answer }
    }

    /// Sends the commands that write documents; those that could not be written are in `tally`.
    pub async fn write(
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
        let mut whole = None;
        for (command, places) in commands {
            let asked = self.send(connection, Ok(command), Take::Told).await;
            asked.extend(&mut whole);
            bulk::count(asked.told(), &places, action, &mut tally);
        }
        settle(whole, tally)
    }
}

/// The reply to commands of which `whole` has the instants and bytes.
pub fn settle(whole: Option<Reply>, tally: Tally) -> Reply {
    let now = Instant::now();
    let whole = whole.unwrap_or_else(|| Reply::new(now, now, Ok(())));
    let Reply { sent, done, bytes_sent, bytes_received, node, .. } = whole;
    Reply { bytes_sent, bytes_received, node, ..tally.settle(sent, done) }
}

/// A command that could not be sent.
fn unsent(node: u16, failure: Failure) -> Asked {
    let now = Instant::now();
    Asked { sent: now, done: now, node, bytes_sent: 0, answer: Err(failure) }
}

impl Asked {
    /// The same, with the answer judged further.
    pub fn then(self, judge: impl FnOnce(Answer) -> Result<Answer, Failure>) -> Self {
        Self { answer: self.answer.and_then(judge), ..self }
    }

    fn received(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::size)
    }

    /// Adds the command to those of one request, of which `whole` has the instants and bytes.
    pub fn extend(&self, whole: &mut Option<Reply>) {
        let whole = whole.get_or_insert_with(|| Reply { node: self.node, ..Reply::new(self.sent, self.done, Ok(())) });
        whole.done = self.done;
        whole.bytes_sent += self.bytes_sent;
        whole.bytes_received += self.received();
    }

    /// The answer to a write.
    pub fn told(&self) -> Result<&Document, Failure> {
        match &self.answer {
            Ok(Answer::Told(answer)) => Ok(answer),
            Ok(Answer::Found(_)) => unreachable!("a write finds nothing"),
            Err(failure) => Err(failure.clone()),
        }
    }

    fn documents(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::documents)
    }

    /// The same as a part of its operation.
    pub fn part(&self, name: usize) -> Part {
        let failed = self.answer.as_ref().err().map(|failure| failure.class);
        Part { name, sent: self.sent, done: self.done, documents: self.documents(), failed }
    }

    /// The outcome of this read and of the write that followed it.
    pub fn and(self, written: Self) -> Reply {
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

    /// The outcome of an operation that is this one command.
    pub fn reply(self) -> Reply {
        self.parted().0
    }

    /// The same, and the answer, if it is a success.
    pub fn parted(self) -> (Reply, Option<Answer>) {
        let reply = Reply { documents: self.documents(), ..self.exchange() };
        match self.answer {
            Ok(answer) => (reply, Some(answer)),
            Err(failure) => (Reply { outcome: Err(failure), ..reply }, None),
        }
    }
}

/// Appends a line.
fn add(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
