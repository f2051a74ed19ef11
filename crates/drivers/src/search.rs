//! The HTTP protocol of Elasticsearch and OpenSearch.
//!
//! An operation is a prebuilt [`request`] and a way to [`judge`] its answer; a connection is a [`client`] that keeps
//! to one of the target's [`hosts`] until that refuses it.

mod answer;
mod client;
mod form;
mod hosts;
mod json;
mod judge;
mod operations;
mod request;
mod text;

use std::time::{Duration, Instant};

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, Driver, Exchange, Failure, Reply};
use loadframe_engine::plan::{PlanError, Target};
use serde_json::Value;

use crate::search::client::{Client, Exchanged, Trouble};
use crate::search::hosts::Host;
use crate::search::judge::Verdict;
pub use crate::search::operations::Operation;
use crate::search::operations::{duration, no_timeout};
use crate::search::request::Buffers;

/// The driver of one target.
#[derive(Debug)]
pub struct Search {
    hosts: Vec<Host>,
    timeout: Duration,
}

/// What one client holds.
pub struct Connection {
    /// The place of its host among the target's.
    host: usize,
    client: Client,
    buffers: Buffers,
}

impl Driver for Search {
    type Operation = Operation;
    type Connection = Connection;

    fn new(target: &Target) -> Result<Self, PlanError> {
        if target.hosts.is_empty() {
            return Err(PlanError("the target has no hosts".to_owned()));
        }
        if target.hosts.len() > usize::from(u16::MAX) {
            return Err(PlanError(format!("{} hosts are more than {}", target.hosts.len(), u16::MAX)));
        }
        let hosts = target.hosts.iter().map(|host| Host::resolve(host)).collect::<Result<_, _>>()?;
        let timeout = duration(target.timeout).ok_or_else(|| no_timeout(target.timeout))?;
        Ok(Self { hosts, timeout })
    }

    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        Operation::map(form, context, &self.hosts, self.timeout)
    }

    fn requests(&self, operation: &Operation) -> Option<u64> {
        operation.request.requests()
    }

    fn connection(&self, client: u64) -> Connection {
        let host = (client % self.hosts.len() as u64) as usize;
        Connection { host, client: Client::new(), buffers: Buffers::default() }
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Reply {
        let Connection { host, client, buffers } = connection;
        let node = *host as u16;
        let Operation { request, judge, timeout } = operation;
        if !client.is_connected() {
            let sent = Instant::now();
            if let Err(trouble) = client.connect(&self.hosts[*host].addresses, *timeout).await {
                // The next call tries the next host.
                *host = (*host + 1) % self.hosts.len();
                let outcome = Err(unanswered(trouble, 1));
                let done = Instant::now();
                return Reply { sent, done, outcome, bytes_sent: 0, bytes_received: 0, documents: 0, node };
            }
        }
        let rendered = request.render((*host, &self.hosts[*host]), &context.variables, draw, buffers);
        let exchanged = client.exchange(rendered.parts, request.bodyless, *timeout).await;
        let Exchanged { sent, done, bytes_sent, bytes_received, outcome } = exchanged;
        let Verdict { documents, outcome } = match outcome {
            Ok(()) => judge.judge(client.answer().status(), client.answer().body(), rendered.documents),
            Err(trouble) => Verdict { documents: 0, outcome: Err(unanswered(trouble, rendered.documents.max(1))) },
        };
        Reply { sent, done, outcome, bytes_sent, bytes_received, documents, node }
    }

    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let reply = self.execute(connection, operation, context, draw).await;
        let answer = connection.client.answer();
        let answer = match &reply.outcome {
            Err(failure) if !answer.is_complete() => failure.message.clone(),
            _ => text::message(answer.status_line(), answer.body()),
        };
        // A request is a pure function of its draw: rendered again, it is what was sent.
        let host = usize::from(reply.node);
        let at = (host, &self.hosts[host]);
        let rendered = operation.request.render(at, &context.variables, draw, &mut connection.buffers);
        let bytes = rendered.parts.concat();
        let head = memchr::memmem::find(&bytes, b"\r\n\r\n").unwrap_or(bytes.len());
        let first_line = memchr::memmem::find(&bytes, b"\r\n").unwrap_or(bytes.len());
        let request = text::message(&bytes[..first_line], bytes.get(head + 4..).unwrap_or_default());
        (reply, Exchange { request, answer })
    }
}

/// A request that got no answer.
fn unanswered(trouble: Trouble, items: u64) -> Failure {
    Failure { class: trouble.class, message: trouble.message, items }
}
