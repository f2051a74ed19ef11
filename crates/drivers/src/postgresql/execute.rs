//! Execution of one operation: draw its values, send it to the right server, judge the answer.

use loadframe_engine::driver::{ErrorClass, Failure, NO_NODE, Reply};
use loadframe_engine::recording::reconnects;
use loadframe_engine::workload::variables::Values;

use super::Connection;
use super::bulk;
use super::connection::NodeConnection;
use super::error::is_displaced;
use super::operation::Kind;
use super::statements::{Execution, Turn};
use crate::crud::Neutral;
use crate::net::marks::Setup;
use crate::net::route::element;

/// Why an operation was not sent, and the number of its server, or [`NO_NODE`].
type Unsent = (Failure, u16);

impl Execution<'_> {
    /// Sends request `k` to a server that it selects, after connecting if necessary; for a bulk request, only the
    /// documents at the positions `only`, if given. Closes the connection after a broken or late request. The error is
    /// a failure before sending.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        values: &Values<'_>,
        k: u64,
        only: Option<&[u32]>,
    ) -> Result<Reply, Unsent> {
        let Connection { client, connections, deadline, buffers, memory, shown } = connection;
        let node = self.nodes.pick(self.operation.from, *client, values.draw).map_err(|failure| (failure, NO_NODE))?;
        let place = element(connections, usize::from(node));
        if !place.as_mut().is_some_and(NodeConnection::is_open) {
            drop_connection(place);
            let host = self.nodes.host(node).map_err(|failure| (failure, node))?;
            let setup = Setup::begin();
            let opened = NodeConnection::open(&host, &self.nodes.connect_options, self.limit, None).await;
            *place = Some(opened.map_err(|failure| (self.doubting(failure), node))?);
            reconnects::opened();
            setup.finish();
        }
        let connection = place.as_mut().expect("it was opened");
        // Counts the bytes of all its statements; each statement has its own marks.
        let before = connection.marks.bytes();
        let turn = Turn { execution: *self, connection, deadline, buffers, memory, shown };
        let reply = match self.dispatch(turn, values, k, only).await {
            Ok(reply) => reply,
            Err(failure) => {
                if failure.class == ErrorClass::Connect || failure.class == ErrorClass::Timeout {
                    drop_connection(place);
                }
                return Err((self.doubting(failure), node));
            }
        };
        let after = connection.marks.bytes();
        if let Err(failure) = &reply.outcome {
            self.look_at(failure);
            match failure.class {
                ErrorClass::Connect => drop_connection(place),
                // A late answer would be taken for the answer to the next request.
                ErrorClass::Timeout | ErrorClass::Item if self.limit.has_passed() => {
                    if let (Some(connection), Ok(host)) = (place.take(), self.nodes.host(node)) {
                        connection.abandon(host, &self.nodes.connect_options);
                        reconnects::lost();
                    }
                }
                _ => {}
            }
        }
        Ok(Reply { node, bytes_sent: after.0 - before.0, bytes_received: after.1 - before.1, ..reply })
    }

    /// Calls `look_at`, and returns the failure unchanged.
    fn doubting(&self, failure: Failure) -> Failure {
        self.look_at(&failure);
        failure
    }

    /// Marks the roles as possibly out of date if the failure suggests another primary.
    fn look_at(&self, failure: &Failure) {
        if is_displaced(failure) {
            self.nodes.doubt();
        }
    }

    /// Sends the statements of request number `k` on `turn`'s connection, by the operation's kind. For a bulk request,
    /// `only` limits the documents. The error is a failure before sending.
    async fn dispatch(
        &self,
        mut turn: Turn<'_>,
        values: &Values<'_>,
        k: u64,
        only: Option<&[u32]>,
    ) -> Result<Reply, Failure> {
        match &self.operation.kind {
            Kind::Statement(native) => turn.native(native, values).await,
            Kind::Transaction(transaction) => turn.transaction(transaction, values).await,
            Kind::Neutral(neutral) => {
                let table = turn.table(neutral.collection()).await?;
                if let Neutral::Bulk(bulk) = neutral {
                    return Ok(bulk::ask(&mut turn, table, (bulk, only), k).await);
                }
                turn.neutral(neutral, table, values).await
            }
        }
    }
}

/// Closes an unusable connection, if there is one, and counts it as lost.
fn drop_connection(connection: &mut Option<NodeConnection>) {
    if connection.take().is_some() {
        reconnects::lost();
    }
}
