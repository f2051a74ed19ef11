//! One execution of the operation: its requests one after the other, and what is recorded of them.

use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;
use serde_json::Value;

use crate::exchanges::{Begun, Exchanges};
use crate::http1::Connection;
use crate::http1::request::{Body, Request, RequestHead};
use crate::net::deadline::Limit;
use crate::search::Search;
use crate::search::answer::Judge;
use crate::search::request::SearchStep;

/// See the module.
pub struct Round<'a, Seen> {
    pub search: &'a Search,
    pub connection: &'a mut Connection,
    pub timeout: Duration,
    pub values: &'a Values<'a>,
    pub seen: &'a mut Seen,
    pub exchanges: Exchanges,
}

/// The store did not do it; the exchanges say why.
pub struct Failed;

impl<Seen: FnMut(&Connection, &Request, &Reply)> Round<'_, Seen> {
    /// Sends a request and waits for its answer, which is then in the connection.
    pub async fn ask(&mut self, step: &SearchStep) -> Result<(), Failed> {
        let limit = Limit::starting_now(self.timeout);
        let reply = self.search.step(self.connection, step, None, limit, self.values).await;
        (self.seen)(self.connection, &step.request, &reply);
        if self.exchanges.join(reply) { Ok(()) } else { Err(Failed) }
    }

    /// The same for a request that is made now: `METHOD /segment/...`.
    pub async fn send(&mut self, method: &str, path: &[&str], body: Option<Value>, judge: Judge) -> Result<(), Failed> {
        let line = RequestHead::new(method, self.values.variables);
        let line = path.iter().try_fold(line, |line, segment| line.segment(segment));
        let mut json = Template::default();
        let body = body.map_or(Body::None, |body| {
            json.push_literal(body.to_string());
            Body::Json(json)
        });
        match line {
            Ok(line) => self.ask(&SearchStep::new(line.finish(body), judge)).await,
            Err(error) => self.refuse(error),
        }
    }

    /// A request that cannot be made.
    pub fn refuse(&mut self, error: PlanError) -> Result<(), Failed> {
        self.fail(error.message)
    }

    /// What the store did is not what it should have done.
    pub fn fail(&mut self, message: String) -> Result<(), Failed> {
        self.exchanges.join(Reply::unsent(Failure::new(ErrorClass::Server, message)));
        Err(Failed)
    }

    /// The last answer, of which more than its success is needed.
    pub fn answer(&mut self) -> Result<Value, Failed> {
        serde_json::from_slice(self.connection.answer().body()).map_err(|error| {
            let _ = self.fail(format!("an answer cannot be read: {error}"));
            Failed
        })
    }

    /// Records the exchanges since `begun` as a part.
    pub fn note(&mut self, name: usize, begun: Begun, outcome: &Result<(), Failed>) {
        let failed = outcome.as_ref().err().map(|Failed| self.exchanges.failed().unwrap_or(ErrorClass::Server));
        self.exchanges.end(name, begun, failed);
    }
}
