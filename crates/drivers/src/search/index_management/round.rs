//! One execution of index management: sends its requests in sequence and records them.

use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;
use serde_json::Value;

use crate::exchanges::{Exchanges, PartStart};
use crate::http1::Connection;
use crate::http1::request::{Body, Request, RequestHead};
use crate::net::deadline::Limit;
use crate::search::Search;
use crate::search::answer::Judge;
use crate::search::request::SearchStep;

/// One execution of index management.
pub struct Round<'a, Seen> {
    pub search: &'a Search,
    pub connection: &'a mut Connection,
    pub timeout: Duration,
    pub values: &'a Values<'a>,
    pub seen: &'a mut Seen,
    pub exchanges: Exchanges,
}

/// A failed request; the exchanges hold the reason.
pub struct Failed;

impl<Seen: FnMut(&Connection, &Request, &Reply)> Round<'_, Seen> {
    /// Sends a request and waits for its answer, which the connection then holds. Calls `seen`, and adds the exchange.
    /// Fails if the answer is a failure.
    pub async fn ask(&mut self, step: &SearchStep) -> Result<(), Failed> {
        let limit = Limit::starting_now(self.timeout);
        let reply = self.search.step(self.connection, step, None, limit, self.values).await;
        (self.seen)(self.connection, &step.request, &reply);
        if self.exchanges.join(reply) { Ok(()) } else { Err(Failed) }
    }

    /// Builds the request `METHOD /segment/...` with a JSON body, if any, and sends it like `ask`. `judge` decides
    /// whether its answer is a success. Fails also if a segment of the path is invalid; then nothing is sent.
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

    /// Records a request that could not be built, and returns `Failed`.
    pub fn refuse(&mut self, error: PlanError) -> Result<(), Failed> {
        self.fail(error.message)
    }

    /// Records a failure of class Server with this message, without sending anything, and returns `Failed`.
    pub fn fail(&mut self, message: String) -> Result<(), Failed> {
        self.exchanges.join(Reply::unsent(Failure::new(ErrorClass::Server, message)));
        Err(Failed)
    }

    /// Returns the last answer as JSON. Records a failure if it is not JSON.
    pub fn answer(&mut self) -> Result<Value, Failed> {
        serde_json::from_slice(self.connection.answer().body()).map_err(|error| {
            let _ = self.fail(format!("an answer cannot be read: {error}"));
            Failed
        })
    }

    /// Records the exchanges since `begun` as the part with the index `name`. A failed part gets the class of the first
    /// failure.
    pub fn note(&mut self, name: usize, begun: PartStart, outcome: &Result<(), Failed>) {
        let failed = outcome.as_ref().err().map(|Failed| self.exchanges.failed().unwrap_or(ErrorClass::Server));
        self.exchanges.end(name, begun, failed);
    }
}
