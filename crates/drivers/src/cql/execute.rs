//! Execution of one statement on a thread's session: prepare, send, judge.

use std::time::Instant;

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, Reply, ReplyPart};
use loadframe_engine::workload::variables::Values;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use super::Connection;
use super::answer::Answer;
use super::connection::Thread;
use super::error::failure;
use super::nodes::CqlNodes;
use super::operation::Operation;
use super::row::Row;
use super::table::{Table, TableName};
use crate::capture::Memory;
use crate::net::deadline::{Deadline, Limit};

/// One operation on one thread's session.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// All nodes.
    pub nodes: &'a CqlNodes,
    /// The thread's state.
    pub thread: &'a Thread,
    /// The thread's open session.
    pub session: &'a Session,
    /// The operation.
    pub operation: &'a Operation,
    /// Deadline for all statements of the operation together.
    pub limit: Limit,
}

/// Outcome of an executed and judged statement.
pub struct StatementOutcome {
    /// See [`Reply::sent`].
    pub sent: Instant,
    /// See [`Reply::done`].
    pub done: Instant,
    /// The node that served the statement.
    pub node: u16,
    /// Size of the values, in bytes.
    pub bytes_sent: u64,
    /// The answer.
    pub answer: Result<Answer, Failure>,
}

impl Execution<'_> {
    pub async fn table(&self, name: &TableName) -> Result<std::rc::Rc<Table>, Failure> {
        self.thread.table(self.session, name).await
    }

    /// Returns the operation's prepared statement for those columns.
    pub async fn statement(
        &self,
        names: &[u8],
        text: impl FnOnce() -> String,
    ) -> Result<std::rc::Rc<PreparedStatement>, Failure> {
        let Operation { number, statement_options, .. } = self.operation;
        self.thread.prepared(self.session, *number, names, (*statement_options, self.limit), text).await
    }

    /// Executes a statement with the drawn values.
    pub async fn run(&self, connection: &mut Connection, statement: &PreparedStatement) -> StatementOutcome {
        let Connection { buffers, deadline, shown, .. } = connection;
        let asked = self.execute(statement, &buffers.row, deadline).await;
        if let Some(shown) = shown {
            show(shown, statement, &asked.answer);
        }
        asked
    }

    /// Executes a statement with the given values.
    pub async fn execute(&self, statement: &PreparedStatement, row: &Row, deadline: &mut Deadline) -> StatementOutcome {
        let executed = self.thread.execute(self.session, self.nodes, (statement, row), self.limit, deadline).await;
        let answer = executed.answer.and_then(Answer::new).and_then(|answer| match answer.refused() {
            true => Err(failure(ErrorClass::Client, "not applied: the condition of the statement was not met")),
            false => Ok(answer),
        });
        let (sent, done, node) = (executed.sent, executed.done, executed.node);
        // The library connects while it sends, so a connect failure means that nothing was sent.
        let unsent = answer.as_ref().is_err_and(|failure| failure.class == ErrorClass::Connect);
        StatementOutcome { sent, done, node, bytes_sent: if unsent { 0 } else { row.size() }, answer }
    }

    /// Checks the answer against the workload's assertions and captures values for the user's later requests.
    pub fn judged(&self, asked: StatementOutcome, values: &Values, memory: &mut Memory) -> StatementOutcome {
        let Operation { assertion, captures, .. } = self.operation;
        let answer = asked.answer.and_then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, values))?;
            captures.keep_of(memory, || answer.first()).map(|()| answer)
        });
        StatementOutcome { answer, ..asked }
    }
}

impl StatementOutcome {
    /// Returns the outcome, or a failure if it has zero documents.
    pub fn or_not_found(self) -> Self {
        let missing = |answer: Answer| match answer.documents() {
            0 => Err(failure(ErrorClass::Client, "not found")),
            _ => Ok(answer),
        };
        Self { answer: self.answer.and_then(missing), ..self }
    }

    pub fn received(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::size)
    }

    pub fn part(&self, name: usize) -> ReplyPart {
        ReplyPart {
            name,
            sent: self.sent,
            done: self.done,
            documents: self.answer.as_ref().map_or(0, Answer::documents),
            failed: self.answer.as_ref().err().map(|failure| failure.class),
        }
    }

    /// Returns times and bytes of the exchange, for a success or a failure.
    pub fn exchange(&self) -> Reply {
        Reply {
            bytes_sent: self.bytes_sent,
            bytes_received: self.received(),
            node: self.node,
            ..Reply::new(self.sent, self.done, Ok(()))
        }
    }

    pub fn reply(self) -> Reply {
        let documents = self.answer.as_ref().map_or(0, Answer::documents);
        let exchange = self.exchange();
        Reply { documents, outcome: self.answer.map(drop), ..exchange }
    }
}

/// Appends a statement and its answer to the exchange recorded for display.
pub fn show(shown: &mut Exchange, statement: &PreparedStatement, answer: &Result<Answer, Failure>) {
    for (text, line) in [
        (&mut shown.request, statement.get_statement().to_owned()),
        (&mut shown.answer, answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text)),
    ] {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
    }
}
