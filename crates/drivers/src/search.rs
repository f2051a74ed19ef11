//! The HTTP protocol of Elasticsearch and OpenSearch.
//!
//! An operation is a request, built as far as it can be beforehand, and a way to [`judge`] its answer.

pub mod dialect;
mod judge;
mod operations;

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, Driver, Exchange, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::variables::{Captured, Values};
use serde_json::Value;

use crate::http1::{Connection, Http1};
use crate::search::dialect::Dialect;
use crate::search::judge::Verdict;
pub use crate::search::operations::Operation;

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

    fn requests(&self, operation: &Operation) -> Option<u64> {
        operation.request.requests()
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
        let Operation { request, judge, timeout } = operation;
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        match self.http.ask(connection, request, *timeout, &values).await {
            Ok(answered) => {
                let answer = connection.answer();
                let Verdict { documents, outcome } = judge.judge(answer.status(), answer.body(), answered.documents);
                answered.reply(documents, outcome)
            }
            Err(reply) => reply,
        }
    }

    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        Some(self.http.written(connection, &operation.request, &values))
    }

    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let reply = self.execute(connection, operation, context, draw).await;
        let exchange = connection.shown(&operation.request, &reply);
        (reply, exchange)
    }
}
