//! A driver that answers immediately, without a server. It measures the generator's own cost and so its limit.

use std::future::{Future, ready};

use loadframe_engine::driver::{Context, Driver, Exchange, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::event::Batch;
use serde_json::Value;

use crate::ingest::{TAKE_IN, count};
use crate::net::exchange::Exchanged;

/// The driver.
pub struct Null;

impl Driver for Null {
    /// Whether it ingests the events of a source.
    type Operation = bool;
    type Connection = ();

    /// Creates the driver. Ignores the target.
    fn new(_target: &Target) -> Result<Self, PlanError> {
        Ok(Self)
    }

    /// Returns whether the operation ingests events. Accepts every form.
    fn map(&self, form: &Value, _context: &Context) -> Result<bool, PlanError> {
        Ok(form.get(TAKE_IN).is_some())
    }

    /// Returns `None`: operations do not use a corpus.
    fn requests(&self, _operation: &bool) -> Option<u64> {
        None
    }

    /// Succeeds, and ignores the hosts.
    fn set_hosts(&self, _hosts: &[String]) -> Result<(), PlanError> {
        Ok(())
    }

    /// Does nothing: clients do not keep any state.
    fn connection(&self, _client: u64) {}

    /// Returns a success at once, with one document.
    fn execute(
        &self,
        _connection: &mut (),
        _operation: &bool,
        _context: &Context,
        _draw: &Draw,
        _only: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        let Exchanged { sent, done, .. } = Exchanged::at_once();
        ready(Reply { documents: 1, ..Reply::new(sent, done, Ok(())) })
    }

    /// Returns whether the operation ingests events.
    fn ingests(&self, operation: &bool) -> bool {
        *operation
    }

    /// Returns a success at once, with all events as documents.
    fn ingest(
        &self,
        _connection: &mut (),
        _operation: &bool,
        _context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        let Exchanged { sent, done, .. } = Exchanged::at_once();
        ready(Reply { documents: count(batch, only) as u64, ..Reply::new(sent, done, Ok(())) })
    }

    /// Accepts every operation.
    fn looks_for(&self, _operation: &bool) -> Result<(), PlanError> {
        Ok(())
    }

    /// Returns a success at once, with all events found.
    fn look_for(
        &self,
        _connection: &mut (),
        _operation: &bool,
        _context: &Context,
        batch: &Batch,
    ) -> impl Future<Output = (Reply, Vec<bool>)> {
        let Exchanged { sent, done, .. } = Exchanged::at_once();
        ready((Reply::new(sent, done, Ok(())), vec![true; batch.events.len()]))
    }

    /// Executes the request; request and answer are shown as "nothing".
    async fn show(&self, connection: &mut (), operation: &bool, context: &Context, draw: &Draw) -> (Reply, Exchange) {
        let exchange = Exchange { request: "nothing".into(), answer: "nothing".into() };
        (self.execute(connection, operation, context, draw, None).await, exchange)
    }
}
