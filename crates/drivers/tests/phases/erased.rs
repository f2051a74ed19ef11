//! Test drivers behind one type, so that the engine is compiled for one driver and not for each.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::path::Path;
use std::pin::Pin;

use loadframe_engine::driver::{Context, Driver, Exchange, Nodes, Reply};
use loadframe_engine::plan::{Plan, PlanError, Target};
use loadframe_engine::run::{self, Running};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::Captured;
use serde_json::Value;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
type Constructor = fn(&Target) -> Result<Box<dyn DynDriver>, PlanError>;

thread_local! {
    /// Creates the driver of the current [`with`] call: the engine names only [`Erased`].
    static CONSTRUCTOR: Cell<Option<Constructor>> = const { Cell::new(None) };
}

/// Calls `call`, in which each [`Erased`] that the engine creates is a `D`.
pub fn with<D: Driver, T>(call: impl FnOnce() -> T) -> T {
    let before = CONSTRUCTOR.replace(Some(|target| Ok(Box::new(D::new(target)?))));
    let result = call();
    CONSTRUCTOR.set(before);
    result
}

/// Starts a phase on the driver `D`, like [`run::start`].
pub fn start<D: Driver>(plan: Plan, folder: &Path) -> Result<Running, PlanError> {
    with::<D, _>(|| run::start::<Erased>(plan, folder))
}

/// A driver of any type.
pub struct Erased(Box<dyn DynDriver>);

impl Driver for Erased {
    type Operation = Box<dyn Any + Send + Sync>;
    type Connection = Box<dyn Any>;

    fn new(target: &Target) -> Result<Self, PlanError> {
        CONSTRUCTOR.get().expect("called inside `with`")(target).map(Self)
    }

    fn has_kernel_timestamps(&self) -> bool {
        self.0.has_kernel_timestamps()
    }
    fn captures(&self) -> bool {
        self.0.captures()
    }
    fn map(&self, form: &Value, context: &Context) -> Result<Self::Operation, PlanError> {
        self.0.map(form, context)
    }
    fn parts(&self, operation: &Self::Operation) -> &'static [&'static str] {
        self.0.parts(&**operation)
    }
    fn has_traces(&self) -> bool {
        self.0.has_traces()
    }
    fn traces(&self, operation: &Self::Operation) -> bool {
        self.0.traces(&**operation)
    }
    fn requests(&self, operation: &Self::Operation) -> Option<u64> {
        self.0.requests(&**operation)
    }
    async fn verify(&self) -> Result<(), PlanError> {
        self.0.verify().await
    }
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.0.set_hosts(hosts)
    }
    fn hosts(&self) -> Vec<String> {
        self.0.hosts()
    }
    fn unreachable(&self) -> Vec<(String, String)> {
        self.0.unreachable()
    }
    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        self.0.cap(connections, workers)
    }
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        self.0.nodes(worker, workers)
    }
    fn turn_to(&self, connection: &mut Self::Connection, node: u16, keep: bool) {
        self.0.turn_to(&mut **connection, node, keep);
    }
    fn connection(&self, client: u64) -> Self::Connection {
        self.0.connection(client)
    }
    fn depart(&self, connection: &mut Self::Connection) {
        self.0.depart(&mut **connection);
    }
    fn memory<'a>(&self, connection: &'a mut Self::Connection) -> Option<&'a mut Captured> {
        self.0.memory(&mut **connection)
    }
    async fn execute(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        self.0.execute(&mut **connection, &**operation, context, draw, only).await
    }
    fn ingests(&self, operation: &Self::Operation) -> bool {
        self.0.ingests(&**operation)
    }
    async fn ingest(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        self.0.ingest(&mut **connection, &**operation, context, batch, only).await
    }
    fn answer<'a>(&self, connection: &'a Self::Connection, operation: &Self::Operation) -> Option<Cow<'a, [u8]>> {
        self.0.answer(&**connection, &**operation)
    }
    fn looks_for(&self, operation: &Self::Operation) -> Result<(), PlanError> {
        self.0.looks_for(&**operation)
    }
    async fn look_for(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        batch: &Batch,
    ) -> (Reply, Vec<bool>) {
        self.0.look_for(&mut **connection, &**operation, context, batch).await
    }
    fn render(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        self.0.render(&mut **connection, &**operation, context, draw)
    }
    fn render_events(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        batch: &Batch,
    ) -> Option<String> {
        self.0.render_events(&mut **connection, &**operation, context, batch)
    }
    async fn show(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        self.0.show(&mut **connection, &**operation, context, draw).await
    }
}

/// The methods of [`Driver`], with operations and connections of any type.
trait DynDriver: Send + Sync {
    fn has_kernel_timestamps(&self) -> bool;
    fn captures(&self) -> bool;
    fn map(&self, form: &Value, context: &Context) -> Result<Box<dyn Any + Send + Sync>, PlanError>;
    fn parts(&self, operation: &dyn Any) -> &'static [&'static str];
    fn has_traces(&self) -> bool;
    fn traces(&self, operation: &dyn Any) -> bool;
    fn requests(&self, operation: &dyn Any) -> Option<u64>;
    fn verify(&self) -> Later<'_, Result<(), PlanError>>;
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError>;
    fn hosts(&self) -> Vec<String>;
    fn unreachable(&self) -> Vec<(String, String)>;
    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError>;
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>>;
    fn turn_to(&self, connection: &mut dyn Any, node: u16, keep: bool);
    fn connection(&self, client: u64) -> Box<dyn Any>;
    fn depart(&self, connection: &mut dyn Any);
    fn memory<'a>(&self, connection: &'a mut dyn Any) -> Option<&'a mut Captured>;
    fn execute<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        operation: &'a dyn Any,
        context: &'a Context,
        draw: &'a Draw,
        only: Option<&'a [u32]>,
    ) -> Later<'a, Reply>;
    fn ingests(&self, operation: &dyn Any) -> bool;
    fn ingest<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        operation: &'a dyn Any,
        context: &'a Context,
        batch: &'a Batch,
        only: Option<&'a [u32]>,
    ) -> Later<'a, Reply>;
    fn answer<'a>(&self, connection: &'a dyn Any, operation: &dyn Any) -> Option<Cow<'a, [u8]>>;
    fn looks_for(&self, operation: &dyn Any) -> Result<(), PlanError>;
    fn look_for<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        operation: &'a dyn Any,
        context: &'a Context,
        batch: &'a Batch,
    ) -> Later<'a, (Reply, Vec<bool>)>;
    fn render(&self, connection: &mut dyn Any, operation: &dyn Any, context: &Context, draw: &Draw) -> Option<String>;
    fn render_events(
        &self,
        connection: &mut dyn Any,
        operation: &dyn Any,
        context: &Context,
        batch: &Batch,
    ) -> Option<String>;
    fn show<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        operation: &'a dyn Any,
        context: &'a Context,
        draw: &'a Draw,
    ) -> Later<'a, (Reply, Exchange)>;
}

fn operation<D: Driver>(operation: &dyn Any) -> &D::Operation {
    operation.downcast_ref().expect("an operation of this driver")
}

fn state<D: Driver>(connection: &mut dyn Any) -> &mut D::Connection {
    connection.downcast_mut().expect("a connection of this driver")
}

impl<D: Driver> DynDriver for D {
    fn has_kernel_timestamps(&self) -> bool {
        Driver::has_kernel_timestamps(self)
    }
    fn captures(&self) -> bool {
        Driver::captures(self)
    }
    fn map(&self, form: &Value, context: &Context) -> Result<Box<dyn Any + Send + Sync>, PlanError> {
        Ok(Box::new(Driver::map(self, form, context)?))
    }
    fn parts(&self, of: &dyn Any) -> &'static [&'static str] {
        Driver::parts(self, operation::<D>(of))
    }
    fn has_traces(&self) -> bool {
        Driver::has_traces(self)
    }
    fn traces(&self, of: &dyn Any) -> bool {
        Driver::traces(self, operation::<D>(of))
    }
    fn requests(&self, of: &dyn Any) -> Option<u64> {
        Driver::requests(self, operation::<D>(of))
    }
    fn verify(&self) -> Later<'_, Result<(), PlanError>> {
        Box::pin(Driver::verify(self))
    }
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        Driver::set_hosts(self, hosts)
    }
    fn hosts(&self) -> Vec<String> {
        Driver::hosts(self)
    }
    fn unreachable(&self) -> Vec<(String, String)> {
        Driver::unreachable(self)
    }
    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        Driver::cap(self, connections, workers)
    }
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        Driver::nodes(self, worker, workers)
    }
    fn turn_to(&self, connection: &mut dyn Any, node: u16, keep: bool) {
        Driver::turn_to(self, state::<D>(connection), node, keep);
    }
    fn connection(&self, client: u64) -> Box<dyn Any> {
        Box::new(Driver::connection(self, client))
    }
    fn depart(&self, connection: &mut dyn Any) {
        Driver::depart(self, state::<D>(connection));
    }
    fn memory<'a>(&self, connection: &'a mut dyn Any) -> Option<&'a mut Captured> {
        Driver::memory(self, state::<D>(connection))
    }
    fn execute<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        of: &'a dyn Any,
        context: &'a Context,
        draw: &'a Draw,
        only: Option<&'a [u32]>,
    ) -> Later<'a, Reply> {
        Box::pin(Driver::execute(self, state::<D>(connection), operation::<D>(of), context, draw, only))
    }
    fn ingests(&self, of: &dyn Any) -> bool {
        Driver::ingests(self, operation::<D>(of))
    }
    fn ingest<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        of: &'a dyn Any,
        context: &'a Context,
        batch: &'a Batch,
        only: Option<&'a [u32]>,
    ) -> Later<'a, Reply> {
        Box::pin(Driver::ingest(self, state::<D>(connection), operation::<D>(of), context, batch, only))
    }
    fn answer<'a>(&self, connection: &'a dyn Any, of: &dyn Any) -> Option<Cow<'a, [u8]>> {
        let connection = connection.downcast_ref().expect("a connection of this driver");
        Driver::answer(self, connection, operation::<D>(of))
    }
    fn looks_for(&self, of: &dyn Any) -> Result<(), PlanError> {
        Driver::looks_for(self, operation::<D>(of))
    }
    fn look_for<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        of: &'a dyn Any,
        context: &'a Context,
        batch: &'a Batch,
    ) -> Later<'a, (Reply, Vec<bool>)> {
        Box::pin(Driver::look_for(self, state::<D>(connection), operation::<D>(of), context, batch))
    }
    fn render(&self, connection: &mut dyn Any, of: &dyn Any, context: &Context, draw: &Draw) -> Option<String> {
        Driver::render(self, state::<D>(connection), operation::<D>(of), context, draw)
    }
    fn render_events(
        &self,
        connection: &mut dyn Any,
        of: &dyn Any,
        context: &Context,
        batch: &Batch,
    ) -> Option<String> {
        Driver::render_events(self, state::<D>(connection), operation::<D>(of), context, batch)
    }
    fn show<'a>(
        &'a self,
        connection: &'a mut dyn Any,
        of: &'a dyn Any,
        context: &'a Context,
        draw: &'a Draw,
    ) -> Later<'a, (Reply, Exchange)> {
        Box::pin(Driver::show(self, state::<D>(connection), operation::<D>(of), context, draw))
    }
}
