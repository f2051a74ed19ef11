//! Driver for the HTTP APIs of Elasticsearch and OpenSearch.
//!
//! An operation is a prebuilt request and a way to judge its [`answer`].

mod answer;
mod conflicts;
pub mod dialect;
mod index;
mod index_management;
mod ingest;
mod operation;
mod paging;
mod repeat;
mod request;

use std::borrow::Cow;

use loadframe_engine::driver::{Context, Driver, Exchange, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::Value;

use crate::assertion::Assertion;
use crate::daily::generations::{Generations, List, Register};
use crate::exchanges::Exchanges;
use crate::http1::request::Request;
use crate::http1::{Connection, Http1};
use crate::net::deadline::Limit;
use crate::search::dialect::Dialect;
pub use crate::search::operation::Operation;
use crate::search::request::SearchStep;

/// The driver of one target.
#[derive(Debug)]
pub struct Search {
    http: Http1,
    dialect: Dialect,
    register: Register<Generations>,
}

impl Driver for Search {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self {
            http: Http1::new(target)?,
            dialect: Dialect::new(target.store.as_ref())?,
            register: Register::default(),
        })
    }

    /// Returns true: replies carry the kernel's timestamps.
    fn has_kernel_timestamps(&self) -> bool {
        true
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation of the workload, such as `{"search": {...}, "timeout": 5}`. Refuses unsupported ones.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        Operation::map(form, context, (&self.dialect, &self.register), self.http.timeout())
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        operation.pages.as_ref().map_or(operation.parts, |pages| pages.parts())
    }

    /// Returns true: some operations can carry a trace context.
    fn has_traces(&self) -> bool {
        true
    }

    /// Returns whether the operation's requests carry a trace context, as a header.
    fn traces(&self, operation: &Operation) -> bool {
        operation.step.request.traces()
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        operation.step.request.requests()
    }

    /// Checks TLS to all hosts. A host that does not answer is not an error.
    async fn verify(&self) -> Result<(), PlanError> {
        self.http.verify().await
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.http.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.http.hosts()
    }

    /// Returns the hosts that are unreachable now, each with the reason.
    fn unreachable(&self) -> Vec<(String, String)> {
        self.http.unreachable()
    }

    /// Limits the open connections of all clients to `connections`, divided among `workers` threads. Refuses a number
    /// with which a worker could not reach each host.
    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        self.http.cap(connections, workers)
    }

    /// Returns the nodes that this worker's clients choose from; `None` unless the spread is fixed.
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        self.http.nodes(worker, workers)
    }

    /// Switches a client to a node from its next request on. `keep`: connections to other nodes stay open.
    fn turn_to(&self, connection: &mut Connection, node: u16, keep: bool) {
        connection.turn_to(node, keep);
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        self.http.connection(client)
    }

    /// Executes the request `draw` and judges its answer.
    /// `only`: indices of the documents of a bulk request, `None` for all. Fails for an operation that ingests events.
    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        if operation.ingest.is_some() {
            return crate::ingest::without_source();
        }
        connection.confine(only.unwrap_or_default());
        self.remember(connection, operation, context, draw, |_, _, _| ()).await
    }

    /// Returns whether the operation ingests the events of a source.
    fn ingests(&self, operation: &Operation) -> bool {
        operation.ingest.is_some()
    }

    /// Sends the events of a batch, or those at the indices `only`. Returns one reply for all.
    async fn ingest(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        match &operation.ingest {
            Some(target) => self.place_events(connection, (operation, target), context, batch, only).await,
            None => crate::ingest::without_source(),
        }
    }

    /// Accepts every operation: ingested events can be queried.
    fn looks_for(&self, _operation: &Operation) -> Result<(), PlanError> {
        Ok(())
    }

    /// Queries once which events of a batch are visible. Returns the reply, and a flag for each event; no flags if the
    /// query fails.
    async fn look_for(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        batch: &Batch,
    ) -> (Reply, Vec<bool>) {
        match &operation.ingest {
            Some(target) => self.ask_for_events(connection, (target, operation.timeout), context, batch).await,
            None => (crate::ingest::without_source(), Vec::new()),
        }
    }

    /// Returns the captured values of the client's current user; never `None`.
    fn memory<'a>(&self, connection: &'a mut Connection) -> Option<&'a mut Captured> {
        Some(&mut connection.memory)
    }

    /// Returns the last answer as JSON, if it is JSON and the client has all of it.
    fn answer<'a>(&self, connection: &'a Connection, _operation: &Operation) -> Option<Cow<'a, [u8]>> {
        connection.answer().whole().map(Cow::Borrowed)
    }

    /// Returns the requests of all steps of request `draw` as text without sending them; of pages, only the first.
    /// Captured values are empty.
    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        let mut written = |SearchStep { request, .. }: &SearchStep| self.http.written(connection, request, &values);
        let steps = [&operation.step].into_iter().chain(&operation.then);
        Some(steps.map(&mut written).collect::<Vec<_>>().join("\n"))
    }

    /// Returns the request for a batch of events as text without sending it; `None` if the operation does not ingest
    /// events.
    fn render_events(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        batch: &Batch,
    ) -> Option<String> {
        let form = &operation.ingest.as_ref()?.form;
        connection.give(|body| operation::ingest::body(form, &List::default(), batch, None, body));
        self.render(connection, operation, context, &Draw::new(0, 0, 0))
    }

    /// Executes the request `draw`, and returns it with its answer as text; of many exchanges, the first ones and the
    /// number of the others.
    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let (mut shown, mut exchanges) = (Exchange::default(), 0);
        let show = |connection: &Connection, request: &Request, reply: &Reply| {
            exchanges += 1;
            // Shows the first exchanges only: opening a scan and its first page, or the first two attempts.
            if operation.exchanges_often() && exchanges > FIRST {
                return;
            }
            let Exchange { request, answer } = connection.shown(request, reply);
            for (all, one) in [(&mut shown.request, request), (&mut shown.answer, answer)] {
                all.push_str(if all.is_empty() { "" } else { "\n" });
                all.push_str(&one);
            }
        };
        connection.confine(&[]);
        let reply = self.remember(connection, operation, context, draw, show).await;
        if operation.exchanges_often() && exchanges > FIRST {
            let (more, documents) = (exchanges - FIRST, reply.documents);
            let mut total = format!("\n... and {more} exchanges more");
            if operation.pages.is_some() {
                let pages = reply.parts.iter().filter(|part| part.name == paging::PAGE).count();
                total += &format!(": {documents} documents on {pages} pages in all");
            }
            shown.answer.push_str(&total);
        }
        (reply, shown)
    }
}

/// Number of exchanges shown for an operation with many.
const FIRST: usize = 2;

impl Search {
    /// Executes the operation with the captured values of its user, and captures values from its answer if it succeeds.
    /// Calls `seen` with each request and its reply.
    async fn remember(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        seen: impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let mut memory = std::mem::take(&mut connection.memory);
        let values = Values { variables: &context.variables, draw, captured: &memory };
        let mut reply = self.run(connection, operation, &values, seen).await;
        if reply.outcome.is_ok() {
            reply.outcome = operation.captures.keep_from(connection.answer(), &mut memory);
        }
        if reply.outcome.is_err() && !operation.step.judge.has_items() {
            // The pages before one that failed count as parts only.
            reply.documents = 0;
        }
        connection.memory = memory;
        reply
    }

    /// Executes the operation's steps, until one fails or the time is up, which is a failure too; calls `seen` with
    /// each request and its reply. Returns one reply for all.
    async fn run(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        mut seen: impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let Operation { step, then, pages, repeat, assertion, timeout, managing, .. } = operation;
        let (assertion, limit) = (assertion.as_ref(), Limit::starting_now(*timeout));
        if let Some(pages) = pages {
            return pages.read(self, connection, (step, assertion), *timeout, values, &mut seen).await;
        }
        if let Some(managing) = managing {
            return managing.run(self, connection, step, *timeout, values, &mut seen).await;
        }
        if let Some(repeat) = repeat {
            return repeat.run(self, connection, (step, assertion), *timeout, values, &mut seen).await;
        }
        let first = self.step(connection, step, assertion, limit, values).await;
        seen(connection, &step.request, &first);
        if then.is_empty() {
            return first;
        }
        let mut tally = Exchanges::default();
        // A read_modify_write counts the written document, as in the other drivers.
        let mut documents = first.documents;
        let mut good = tally.add(0, first);
        let mut before = step;
        for (name, step) in (1..).zip(then) {
            if !good {
                break;
            }
            if let Some(late) = overdue(limit) {
                documents = 0;
                tally.join(late);
                break;
            }
            if let Some(keep) = &before.keep {
                let (answer, carried) = connection.carry();
                carried.clear();
                carried.extend_from_slice(keep.find(answer.body()).ok().flatten().unwrap_or(b"null"));
            }
            let reply = self.step(connection, step, None, limit, values).await;
            seen(connection, &step.request, &reply);
            documents = reply.documents;
            good = tally.add(name, reply);
            before = step;
        }
        Reply { documents, ..tally.finish() }
    }

    /// Sends a request, waits for its answer and judges it, also by the workload's assertion if given. The reply to a
    /// failure counts documents only if each succeeds or fails on its own. The connection then holds the answer.
    async fn step(
        &self,
        connection: &mut Connection,
        SearchStep { request, judge, .. }: &SearchStep,
        assertion: Option<&Assertion>,
        limit: Limit,
        values: &Values<'_>,
    ) -> Reply {
        match self.http.ask(connection, request, limit, values).await {
            Ok(answered) => {
                let answer = connection.answer();
                let mut verdict = judge.judge(answer.status(), answer.body(), answered.documents);
                if let Some(assertion) = assertion {
                    verdict.assert(*judge, assertion, values, answer.body());
                }
                // A request that is retried as a whole counts its documents when it succeeds.
                let counted = verdict.outcome.is_ok() || judge.has_items();
                let documents = if counted { verdict.documents } else { 0 };
                Reply {
                    rejected: verdict.rejected,
                    recall: verdict.recall,
                    lost: verdict.lost,
                    refused: verdict.refused,
                    status: Some(answer.status()),
                    retry_after: answer.retry_after(),
                    ..answered.reply(documents, verdict.outcome)
                }
            }
            Err(reply) => reply,
        }
    }
}

/// Returns the reply of a step that is not sent, because the time of its operation is up; else `None`.
fn overdue(limit: Limit) -> Option<Reply> {
    limit.has_passed().then(|| Reply::unsent(limit.missed()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loadframe_engine::driver::ErrorClass;

    use super::*;

    #[test]
    fn an_operation_whose_time_is_up_before_its_last_step_fails() {
        let late = overdue(Limit::starting_now(Duration::ZERO)).unwrap();
        assert_eq!(late.outcome.unwrap_err().class, ErrorClass::Timeout);
        assert!(overdue(Limit::starting_now(Duration::from_secs(60))).is_none());
    }
}
