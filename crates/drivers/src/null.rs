//! Answers at once without a server: what remains is the generator's own cost, which is its ceiling.

use std::future::{Future, ready};
use std::time::Instant;

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, Driver, Exchange, Reply};
use loadframe_engine::plan::{PlanError, Target};
use serde_json::Value;

/// The driver that does nothing.
pub struct Null;

impl Driver for Null {
    type Operation = ();
    type Connection = ();

    fn new(_target: &Target) -> Result<Self, PlanError> {
        Ok(Self)
    }

    fn map(&self, _form: &Value, _context: &Context) -> Result<(), PlanError> {
        Ok(())
    }

    fn requests(&self, _operation: &()) -> Option<u64> {
        None
    }

    fn set_hosts(&self, _hosts: &[String]) -> Result<(), PlanError> {
        Ok(())
    }

    fn connection(&self, _client: u64) {}

    fn execute(
        &self,
        _connection: &mut (),
        _operation: &(),
        _context: &Context,
        _draw: &Draw,
        _only: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        let sent = Instant::now();
        let done = Instant::now();
        ready(Reply { documents: 1, ..Reply::new(sent, done, Ok(())) })
    }

    async fn show(&self, connection: &mut (), operation: &(), context: &Context, draw: &Draw) -> (Reply, Exchange) {
        let exchange = Exchange { request: "nothing".into(), answer: "nothing".into() };
        (self.execute(connection, operation, context, draw, None).await, exchange)
    }
}
