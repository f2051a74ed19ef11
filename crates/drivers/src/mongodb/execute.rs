//! Sends one command of a client to its node, and judges the answer.

use bson::{RawDocument, RawDocumentBuf};
use loadframe_engine::driver::{ErrorClass, Failure, NO_NODE, Reply};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::Values;
use std::sync::Arc;

use super::Connection;
use super::answer::Answer;
use super::bson::{json, without};
use super::bulk;
use super::bulk::Commands;
use super::error::{is_displaced, unfit};
use super::nodes::{Mode, MongoNodes};
use super::operation::{Concern, Operation, Prefer};
use crate::capture::Memory;
use crate::crud::Action;
use crate::exchanges::add_line;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::{Wired, element, turn};
use crate::outcome::Outcome;
use crate::tally::Tally;
use loadframe_engine::util::json::Unexpected;

/// One operation of one client.
pub struct Execution<'a> {
    /// All nodes.
    pub nodes: &'a Arc<MongoNodes>,
    /// The operation.
    pub operation: &'a Operation,
    /// Read preference.
    pub prefer: Prefer,
    /// The request's draw.
    pub draw: Draw,
    /// Indices of the documents that a bulk request sends; `None` means all.
    pub only: Option<&'a [u32]>,
    /// Deadline for all commands of the operation together.
    pub limit: Limit,
}

/// Outcome of a command.
pub type CommandOutcome = Outcome<Answer>;

/// Handling of a command's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// A cursor, read to its end.
    Documents,
    /// The result of a command.
    Result,
}

impl Execution<'_> {
    /// Returns the outcome, or a failure if the answer contradicts the assertion or lacks a value to capture.
    /// Captures values into `memory`.
    pub fn judged(&self, asked: CommandOutcome, values: &Values, memory: &mut Memory) -> CommandOutcome {
        let Operation { assertion, captures, .. } = self.operation;
        asked.then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, values))?;
            captures.keep_of(memory, || answer.first()).map(|()| answer)
        })
    }

    /// Sends one command to a node for the operation's database; see `send_to`. A command that could not be encoded is
    /// a failure.
    pub async fn send(
        &self,
        connection: &mut Connection,
        command: Result<RawDocumentBuf, Unexpected>,
        kind: AnswerKind,
    ) -> CommandOutcome {
        match command {
            Ok(command) => self.send_to(connection, &self.operation.database, command, kind).await,
            Err(unexpected) => Outcome::unsent(NO_NODE, unfit(unexpected)),
        }
    }

    /// Chooses a node by the read preference, connects if necessary, and sends it a command for `database`. Adds both
    /// texts to the exchange to display, if any. After a failure that may mean an election, requests a refresh of the
    /// members.
    pub async fn send_to(
        &self,
        connection: &mut Connection,
        database: &str,
        command: RawDocumentBuf,
        kind: AnswerKind,
    ) -> CommandOutcome {
        let Connection { assignment, client, connections, shown, .. } = connection;
        let alone = self.nodes.mode() != Mode::Set;
        let node = if alone {
            turn(assignment, connections, self.draw.turn);
            assignment.node().number
        } else {
            match self.nodes.pick(self.prefer, *client, &self.draw) {
                Ok(node) => node,
                Err(failure) => return Outcome::unsent(NO_NODE, failure),
            }
        };
        let connection = element(connections, usize::from(node));
        if !connection.is_open() {
            let opened = match alone {
                true => connection.open(&assignment.node().host, &self.nodes.connect_options, self.limit).await,
                false => match self.nodes.host(node) {
                    Ok(host) => connection.open(&host, &self.nodes.connect_options, self.limit).await,
                    Err(failure) => Err(failure),
                },
            };
            match opened {
                Ok(()) if alone => assignment.node().rise(),
                Ok(()) => {}
                Err(failure) => {
                    self.nodes.doubt();
                    if alone && failure.class == ErrorClass::Connect {
                        assignment.refused(&failure.message);
                    }
                    return Outcome::unsent(node, failure);
                }
            }
        }
        if let Some(shown) = shown {
            add_line(&mut shown.request, &json(&command).map_or_else(String::new, |command| command.to_string()));
        }
        let busy = if alone { assignment.occupy() } else { None };
        let mode = self.prefer.mode();
        let (exchanged, mut answer) = match kind {
            AnswerKind::Documents => {
                let (exchanged, found) = connection.find(database, command, mode, self.limit).await;
                (exchanged, found.map(Answer::Documents))
            }
            AnswerKind::Result => {
                let (exchanged, result) = connection.run(database, command, mode, self.limit).await;
                (exchanged, result.map(Answer::Result))
            }
        };
        drop(busy);
        if let (Ok(Answer::Result(result)), Some(Concern::Unacknowledged)) = (&mut answer, self.operation.concern) {
            // The actual number of written documents is unknown; the answer says 0.
            *result = without(result, "n");
        }
        if answer.as_ref().is_err_and(is_displaced) {
            self.nodes.doubt();
        }
        if let Some(shown) = shown {
            add_line(&mut shown.answer, &answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text));
        }
        Outcome { exchanged, node, answer }
    }

    /// Sends the commands that write documents, one after the other. Counts documents in `tally`, and returns the reply
    /// for all. The error of `commands` is a failure of the whole request.
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
            let asked = self.send(connection, Ok(command), AnswerKind::Result).await;
            extend(&mut whole, &asked);
            bulk::count(write_result(&asked), &places, action, &mut tally);
        }
        settle(whole, tally)
    }
}

/// Returns the reply to a request of several commands. `whole` has the times and bytes, `tally` the outcome.
pub fn settle(whole: Option<Reply>, tally: Tally) -> Reply {
    let whole = whole.unwrap_or_else(|| Exchanged::never().reply(NO_NODE, 0, Ok(())));
    let Reply { sent, done, bytes_sent, bytes_received, node, overhead, .. } = whole;
    Reply { bytes_sent, bytes_received, node, overhead, ..tally.settle(sent, done) }
}

/// Adds the times and bytes of a command to `whole`, the totals of its request. The time between commands does not
/// count. Keeps the node of the first command that was sent.
pub fn extend(whole: &mut Option<Reply>, asked: &CommandOutcome) {
    match whole {
        None => *whole = Some(asked.exchange()),
        Some(whole) => {
            whole.node = whole.node_or(asked.node);
            let both = Exchanged::of(whole).then(&asked.exchanged);
            (whole.sent, whole.done, whole.overhead) = (both.sent, both.done, both.overhead);
            (whole.bytes_sent, whole.bytes_received) = (both.bytes_sent, both.bytes_received);
        }
    }
}

/// Returns the answer to a write command, or its failure. Panics for the answer to a query.
pub fn write_result(asked: &CommandOutcome) -> Result<&RawDocument, Failure> {
    match &asked.answer {
        Ok(Answer::Result(answer)) => Ok(answer),
        Ok(Answer::Documents(_)) => unreachable!("a write finds nothing"),
        Err(failure) => Err(failure.clone()),
    }
}
