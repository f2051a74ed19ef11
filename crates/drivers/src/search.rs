//! The HTTP protocol of Elasticsearch and OpenSearch.
//!
//! An operation is a request, built as far as it can be beforehand, and a way to [`judge`] its answer.

mod conflicts;
pub mod dialect;
mod judge;
mod operations;

use std::time::Duration;

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, Driver, Exchange, Part, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::variables::{Captured, Values};
use serde_json::Value;

use crate::assertion::Assertion;
use crate::http1::request::Request;
use crate::http1::{Connection, Http1};
use crate::search::dialect::Dialect;
pub use crate::search::operations::Operation;
use crate::search::operations::Step;

/// The driver of one target.
#[derive(Debug)]
pub struct Search {
    http: Http1,
    dialect: Dialect,
}

impl Driver for Search {
    type Operation = Operation;
    type Connection = Connection;

    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self { http: Http1::new(target)?, dialect: Dialect::new(target.store.as_ref())? })
    }

    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        Operation::map(form, context, &self.dialect, self.http.timeout())
    }

    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        if operation.write.is_some() { &READ_MODIFY_WRITE } else { &[] }
    }

    fn requests(&self, operation: &Operation) -> Option<u64> {
        operation.step.request.requests()
    }

    async fn verify(&self) -> Result<(), PlanError> {
        self.http.verify().await
    }

    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.http.set_hosts(hosts)
    }

    fn hosts(&self) -> Vec<String> {
        self.http.hosts()
    }

    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        self.http.cap(connections, workers)
    }

    fn connection(&self, client: u64) -> Connection {
        self.http.connection(client)
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Reply {
        self.run(connection, operation, context, draw, |_, _, _| ()).await
    }

    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        let steps = [Some(&operation.step), operation.write.as_ref()];
        let written = |Step { request, .. }: &Step| self.http.written(connection, request, &values);
        Some(steps.into_iter().flatten().map(written).collect::<Vec<_>>().join("\n"))
    }

    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let mut shown = Exchange::default();
        let show = |connection: &Connection, request: &Request, reply: &Reply| {
            let Exchange { request, answer } = connection.shown(request, reply);
            for (all, one) in [(&mut shown.request, request), (&mut shown.answer, answer)] {
                all.push_str(if all.is_empty() { "" } else { "\n" });
                all.push_str(&one);
            }
        };
        let reply = self.run(connection, operation, context, draw, show).await;
        (reply, shown)
    }
}

impl Search {
    /// Takes the operation's steps; `seen` is given each request and what became of it.
    async fn run(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        mut seen: impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let Operation { step, write, assertion, timeout } = operation;
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        let first = self.step(connection, step, assertion.as_ref(), *timeout, &values).await;
        seen(connection, &step.request, &first);
        let Some(write) = write else { return first };
        let left = timeout.saturating_sub(first.done - first.sent);
        if first.outcome.is_err() || left.is_zero() {
            return Reply { parts: vec![part(READ, &first)], ..first };
        }
        let second = self.step(connection, write, None, left, &values).await;
        seen(connection, &write.request, &second);
        Reply {
            sent: first.sent,
            bytes_sent: first.bytes_sent + second.bytes_sent,
            bytes_received: first.bytes_received + second.bytes_received,
            documents: first.documents + second.documents,
            parts: vec![part(READ, &first), part(WRITE, &second)],
            ..second
        }
    }

    /// Sends a request, waits for its answer and judges it.
    async fn step(
        &self,
        connection: &mut Connection,
        Step { request, judge }: &Step,
        assertion: Option<&Assertion>,
        timeout: Duration,
        values: &Values<'_>,
    ) -> Reply {
        match self.http.ask(connection, request, timeout, values).await {
            Ok(answered) => {
                let answer = connection.answer();
                let mut verdict = judge.judge(answer.status(), answer.body(), answered.documents);
                if let Some(assertion) = assertion {
                    verdict.assert(*judge, assertion, values, answer.body());
                }
                answered.reply(verdict.documents, verdict.outcome)
            }
            Err(reply) => reply,
        }
    }
}

/// The parts of a read-modify-write.
const READ_MODIFY_WRITE: [&str; 2] = ["read", "write"];
const READ: usize = 0;
const WRITE: usize = 1;

fn part(name: usize, reply: &Reply) -> Part {
    let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
    Part { name, sent: reply.sent, done: reply.done, documents: reply.documents, failed }
}
