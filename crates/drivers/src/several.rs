//! Several targets behind one driver, each with its own protocol. For example, a journey can call an application's API,
//! and then use values from its answers in requests to the store.
//!
//! An operation names its target: `{"target": "app", "http": {...}}`. The default is `store`.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use loadframe_engine::driver::{Context, Driver, Exchange, NO_NODE, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::Captured;
use serde_json::Value;

use crate::any::{AnyConnection, AnyDriver, AnyOperation};

/// The default target of operations.
const MAIN: &str = "store";

/// The drivers of all targets.
pub struct Several {
    names: Vec<String>,
    drivers: Vec<AnyDriver>,
    /// Every host used so far: the index of its target, and its number there. The index in this list is its number.
    hosts: Mutex<Vec<(usize, u16)>>,
}

/// An operation, and the index of its target.
pub struct Operation {
    target: usize,
    operation: AnyOperation,
}

/// State of one client: a connection to each target, and its user's captured values.
pub struct Connection {
    connections: Vec<AnyConnection>,
    memory: Captured,
    /// Overall numbers of the hosts used so far, by target and number within the target.
    numbers: Vec<Vec<Option<u16>>>,
}

impl Driver for Several {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the drivers of all targets. Refuses fewer than two targets, and a target that is itself `several`.
    fn new(target: &Target) -> Result<Self, PlanError> {
        if target.targets.len() < 2 {
            return Err(PlanError::new("\"several\" wants two targets or more: name the driver of the one there is"));
        }
        let (mut names, mut drivers) = (Vec::new(), Vec::new());
        for (name, target) in &target.targets {
            if target.driver == "several" {
                return Err(PlanError::new(format!("target {name:?}: a target of several cannot be \"several\"")));
            }
            drivers.push(AnyDriver::new(target).map_err(|error| error.within(format!("target {name:?}")))?);
            names.push(name.clone());
        }
        let several = Self { names, drivers, hosts: Mutex::default() };
        several.hosts();
        Ok(several)
    }

    /// Returns whether any target's driver does its I/O by Tokio.
    fn uses_tokio(&self) -> bool {
        self.drivers.iter().any(AnyDriver::uses_tokio)
    }

    /// Returns whether the replies of all targets carry the kernel's timestamps.
    fn has_kernel_timestamps(&self) -> bool {
        self.drivers.iter().all(AnyDriver::has_kernel_timestamps)
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation for the target that its key `target` names, by default `store`. Refuses an unknown target.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        let mut form = form.clone();
        let named = form.as_object_mut().and_then(|form| form.remove("target"));
        let name = match &named {
            None | Some(Value::Null) => MAIN,
            Some(Value::String(name)) => name,
            Some(other) => return Err(PlanError::new(format!("\"target\" wants the name of one, not {other}"))),
        };
        let names = self.names.iter().map(String::as_str);
        let target = self.names.iter().position(|known| known == name);
        let target = target.ok_or_else(|| PlanError::new(unknown("target", name, names)))?;
        Ok(Operation { target, operation: self.drivers[target].map(&form, context)? })
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        self.drivers[operation.target].parts(&operation.operation)
    }

    /// Returns whether requests to any target can carry a trace context.
    fn has_traces(&self) -> bool {
        self.drivers.iter().any(AnyDriver::has_traces)
    }

    /// Returns whether the operation's requests carry a trace context, as a header.
    fn traces(&self, operation: &Operation) -> bool {
        self.drivers[operation.target].traces(&operation.operation)
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        self.drivers[operation.target].requests(&operation.operation)
    }

    /// Checks each target for errors that would fail every request.
    async fn verify(&self) -> Result<(), PlanError> {
        for (name, driver) in self.names.iter().zip(&self.drivers) {
            // `AnyDriver` contains this driver: unboxed, the future would contain itself.
            Box::pin(driver.verify()).await.map_err(|error| error.within(format!("target {name:?}")))?;
        }
        Ok(())
    }

    /// Changes the hosts of the target `store` only. Fails without this target.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        match self.main() {
            Some(main) => self.drivers[main].set_hosts(hosts),
            None => Err(PlanError::new(format!("no target is named {MAIN:?}, and so none can follow its cluster"))),
        }
    }

    /// Returns the hosts that the targets ever had, by overall number. Gives new hosts their numbers.
    fn hosts(&self) -> Vec<String> {
        let known: Vec<Vec<String>> = self.drivers.iter().map(AnyDriver::hosts).collect();
        for (target, hosts) in known.iter().enumerate() {
            (0..hosts.len()).for_each(|number| {
                self.number(target, number as u16);
            });
        }
        let all = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|&(target, number)| known[target].get(usize::from(number)).cloned().unwrap_or_default())
            .collect()
    }

    /// Returns the hosts that are unreachable now, each with the reason.
    fn unreachable(&self) -> Vec<(String, String)> {
        self.drivers.iter().flat_map(AnyDriver::unreachable).collect()
    }

    /// Returns the nodes of the target `store` that this worker's clients choose from; `None` without this target, or
    /// if its driver selects them.
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        self.drivers[self.main()?].nodes(worker, workers)
    }

    /// Switches a client to a node of the target `store` from its next request on; does nothing without this target.
    /// `keep`: connections to other nodes stay open.
    fn turn_to(&self, connection: &mut Connection, node: u16, keep: bool) {
        if let Some(main) = self.main() {
            self.drivers[main].turn_to(&mut connection.connections[main], node, keep);
        }
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        Connection {
            connections: self.drivers.iter().map(|driver| driver.connection(client)).collect(),
            memory: Captured::NONE,
            numbers: vec![Vec::new(); self.drivers.len()],
        }
    }

    /// Returns the captured values of the client's current user; never `None`.
    fn memory<'a>(&self, connection: &'a mut Connection) -> Option<&'a mut Captured> {
        Some(&mut connection.memory)
    }

    /// Returns the last answer as JSON, if it is JSON and the client has all of it.
    fn answer<'a>(&self, connection: &'a Connection, operation: &Operation) -> Option<Cow<'a, [u8]>> {
        let Operation { target, operation } = operation;
        self.drivers[*target].answer(&connection.connections[*target], operation)
    }

    /// Executes a request on its target, with the captured values of the user.
    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        let Operation { target, operation } = operation;
        let driver = &self.drivers[*target];
        self.lend(connection, *target);
        let asked = driver.execute(&mut connection.connections[*target], operation, context, draw, only).await;
        self.lend(connection, *target);
        self.renumbered(connection, *target, asked)
    }

    /// Returns whether the operation ingests the events of a source.
    fn ingests(&self, operation: &Operation) -> bool {
        self.drivers[operation.target].ingests(&operation.operation)
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
        let Operation { target, operation } = operation;
        let driver = &self.drivers[*target];
        let taken = driver.ingest(&mut connection.connections[*target], operation, context, batch, only).await;
        self.renumbered(connection, *target, taken)
    }

    /// Returns the request as text without sending it; `None` if it exists only during sending.
    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let Operation { target, operation } = operation;
        self.drivers[*target].render(&mut connection.connections[*target], operation, context, draw)
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
        let Operation { target, operation } = operation;
        self.drivers[*target].render_events(&mut connection.connections[*target], operation, context, batch)
    }

    /// Executes the request on its target, and returns it with its answer as text.
    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let Operation { target, operation } = operation;
        let driver = &self.drivers[*target];
        self.lend(connection, *target);
        let (asked, exchange) = driver.show(&mut connection.connections[*target], operation, context, draw).await;
        self.lend(connection, *target);
        (self.renumbered(connection, *target, asked), exchange)
    }
}

impl Several {
    /// Returns the index of the target `store`; `None` if there is none.
    fn main(&self) -> Option<usize> {
        self.names.iter().position(|name| name == MAIN)
    }

    /// Swaps the client's captured values with those of the target's driver: before a request to lend them, after it to
    /// take them back.
    fn lend(&self, connection: &mut Connection, target: usize) {
        let Connection { connections, memory, .. } = connection;
        if let Some(kept) = self.drivers[target].memory(&mut connections[target]) {
            std::mem::swap(kept, memory);
        }
    }

    /// Returns `reply` of a target with its node number replaced by the host's number among all targets.
    /// A new host gets a new number.
    fn renumbered(&self, connection: &mut Connection, target: usize, reply: Reply) -> Reply {
        if reply.node == NO_NODE {
            return reply;
        }
        let numbers = &mut connection.numbers[target];
        let at = usize::from(reply.node);
        if at >= numbers.len() {
            numbers.resize(at + 1, None);
        }
        let node = *numbers[at].get_or_insert_with(|| self.number(target, reply.node));
        Reply { node, ..reply }
    }

    /// Returns the overall number of a target's host; a new host gets a new number.
    fn number(&self, target: usize, host: u16) -> u16 {
        let mut all = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|other| *other == (target, host));
        known.unwrap_or_else(|| {
            all.push((target, host));
            all.len() - 1
        }) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use loadframe_engine::driver::{ErrorClass, Failure};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_was_sent_to_no_node_gets_the_number_of_none() {
        let of_app = json!({"driver": "null", "hosts": []});
        let target = json!({"driver": "several", "hosts": [], "targets": {"app": of_app, "store": of_app}});
        let several = Several::new(&serde_json::from_value(target).unwrap()).unwrap();
        let mut connection = several.connection(0);
        let unsent = Reply::unsent(Failure::new(ErrorClass::Rejected, "no primary"));
        assert_eq!(several.renumbered(&mut connection, 1, unsent).node, NO_NODE);
        let now = Instant::now();
        assert_eq!(several.renumbered(&mut connection, 1, Reply::new(now, now, Ok(()))).node, 0);
    }
}
