//! Execution of one statement on a thread's session: prepare, send, judge.

use loadframe_engine::driver::{ErrorClass, Exchange, Failure};
use loadframe_engine::workload::variables::Values;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use super::Connection;
use super::answer::Answer;
use super::connection::Thread;
use super::nodes::CqlNodes;
use super::operation::Operation;
use super::row::Row;
use super::table::{Table, TableName};
use crate::capture::Memory;
use crate::exchanges::add_line;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::outcome::Outcome;

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

/// Outcome of a statement.
pub type StatementOutcome = Outcome<Answer>;

impl Execution<'_> {
    /// Returns a table's metadata. Fails if the table does not exist or its key has several columns.
    pub async fn table(&self, name: &TableName) -> Result<std::rc::Rc<Table>, Failure> {
        self.thread.table(self.session, name, self.limit).await
    }

    /// Returns the operation's prepared statement for the columns `names`. On first use, prepares the statement that
    /// `text` returns. Fails if it is invalid or late.
    pub async fn statement(
        &self,
        names: &[u8],
        text: impl FnOnce() -> String,
    ) -> Result<std::rc::Rc<PreparedStatement>, Failure> {
        let Operation { number, statement_options, .. } = self.operation;
        self.thread.prepared(self.session, *number, names, (*statement_options, self.limit), text).await
    }

    /// Executes a statement with the values in the connection's buffers. Adds both to the exchange to display, if any.
    pub async fn run(&self, connection: &mut Connection, statement: &PreparedStatement) -> StatementOutcome {
        let Connection { buffers, shown, .. } = connection;
        let asked = self.execute(statement, &buffers.row).await;
        if let Some(shown) = shown {
            show(shown, statement, &asked.answer);
        }
        asked
    }

    /// Executes a statement with the given values. An unmet condition, such as `IF NOT EXISTS`, is a failure. Sent
    /// bytes count the values, received bytes the rows.
    pub async fn execute(&self, statement: &PreparedStatement, row: &Row) -> StatementOutcome {
        let executed = self.thread.execute(self.session, self.nodes, (statement, row), self.limit).await;
        let answer = executed.answer.and_then(Answer::new);
        // The library connects while it sends, so a connect failure means that nothing was sent.
        let unsent = answer.as_ref().is_err_and(|failure| failure.class == ErrorClass::Connect);
        let exchanged = Exchanged {
            bytes_sent: if unsent { 0 } else { row.size() },
            bytes_received: answer.as_ref().map_or(0, Answer::size),
            ..executed.exchanged
        };
        Outcome { exchanged, node: executed.node, answer: answer.and_then(Answer::applied) }
    }

    /// Returns the outcome, or a failure if the answer contradicts the assertion or lacks a value to capture.
    /// Captures values into `memory`.
    pub fn judged(&self, asked: StatementOutcome, values: &Values, memory: &mut Memory) -> StatementOutcome {
        let Operation { assertion, captures, .. } = self.operation;
        asked.then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, values))?;
            captures.keep_of(memory, || answer.first()).map(|()| answer)
        })
    }
}

/// Appends a statement and its answer to the exchange recorded for display.
pub fn show(shown: &mut Exchange, statement: &PreparedStatement, answer: &Result<Answer, Failure>) {
    add_line(&mut shown.request, statement.get_statement());
    add_line(&mut shown.answer, &answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text));
}
