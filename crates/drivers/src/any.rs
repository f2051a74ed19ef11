//! The driver of any protocol: plans name it, and each call goes to that protocol's driver.
//!
//! The engine is compiled once for this type, which takes a fraction of the time for all drivers. Futures of requests
//! are boxed: within the futures of all clients, each would take the size of the largest, and be copied with them.

/// Defines an enum of drivers, with enums of their operations and connections: `with_drivers!(any_of [])`.
#[doc(hidden)]
#[macro_export]
macro_rules! any_of {
    ([] $($variant:ident: $driver:ty = $name:literal),* $(,)?) => {
        use std::borrow::Cow;

        use loadframe_engine::driver::{Context, Driver, Exchange, Nodes, Reply};
        use loadframe_engine::plan::{PlanError, Target};
        use loadframe_engine::util::draw::Draw;
        use loadframe_engine::workload::event::Batch;
        use loadframe_engine::workload::variables::Captured;
        use serde_json::Value;

        /// The names of all drivers.
        pub const DRIVERS: &[&str] = &[$($name),*];

        /// A driver. Its methods panic if an operation or a connection belongs to another driver.
        pub enum AnyDriver {
            $(#[doc = $name] $variant($driver)),*
        }

        /// An operation of a driver.
        pub enum AnyOperation {
            $(#[doc = $name] $variant(Box<<$driver as Driver>::Operation>)),*
        }

        /// State of one client of a driver.
        pub enum AnyConnection {
            $(#[doc = $name] $variant(Box<<$driver as Driver>::Connection>)),*
        }

        impl Driver for AnyDriver {
            type Operation = AnyOperation;
            type Connection = AnyConnection;

            /// Creates the driver that the plan names. Refuses an unknown name, unknown hosts, and unusable
            /// certificates and credentials.
            fn new(target: &Target) -> Result<Self, PlanError> {
                match target.driver.as_str() {
                    $($name => <$driver>::new(target).map(Self::$variant),)*
                    other => Err($crate::unknown_driver(other, DRIVERS)),
                }
            }

            /// Maps an operation of the workload to a form from which the driver builds requests. Refuses unsupported
            /// ones.
            fn map(&self, form: &Value, context: &Context) -> Result<AnyOperation, PlanError> {
                match self {
                    $(Self::$variant(driver) => Ok(AnyOperation::$variant(Box::new(driver.map(form, context)?))),)*
                }
            }

            /// Creates the state of client number `client`.
            fn connection(&self, client: u64) -> AnyConnection {
                match self {
                    $(Self::$variant(driver) => AnyConnection::$variant(Box::new(driver.connection(client))),)*
                }
            }

            /// Returns whether the requests of the driver need Tokio's event loop.
            fn uses_tokio(&self) -> bool {
                match self {
                    $(Self::$variant(driver) => driver.uses_tokio(),)*
                }
            }

            /// Returns whether replies carry the kernel's timestamps.
            fn has_kernel_timestamps(&self) -> bool {
                match self {
                    $(Self::$variant(driver) => driver.has_kernel_timestamps(),)*
                }
            }

            /// Returns whether clients can keep values of answers.
            fn captures(&self) -> bool {
                match self {
                    $(Self::$variant(driver) => driver.captures(),)*
                }
            }

            /// Returns the names of an operation's parts.
            fn parts(&self, operation: &AnyOperation) -> &'static [&'static str] {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.parts(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Returns whether any operation can carry a trace context.
            fn has_traces(&self) -> bool {
                match self {
                    $(Self::$variant(driver) => driver.has_traces(),)*
                }
            }

            /// Returns whether the requests of an operation carry a trace context.
            fn traces(&self, operation: &AnyOperation) -> bool {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.traces(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Returns the number of requests that send each document of the corpus once; `None` if unlimited.
            fn requests(&self, operation: &AnyOperation) -> Option<u64> {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.requests(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Checks for errors that would fail every request, such as an invalid certificate.
            async fn verify(&self) -> Result<(), PlanError> {
                match self {
                    $(Self::$variant(driver) => driver.verify().await,)*
                }
            }

            /// Changes the target's hosts while load runs; fails if the driver does not support it.
            fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
                match self {
                    $(Self::$variant(driver) => driver.set_hosts(hosts),)*
                }
            }

            /// Returns all hosts that the target has ever had, by node number.
            fn hosts(&self) -> Vec<String> {
                match self {
                    $(Self::$variant(driver) => driver.hosts(),)*
                }
            }

            /// Returns the hosts that are unreachable now, each with the reason.
            fn unreachable(&self) -> Vec<(String, String)> {
                match self {
                    $(Self::$variant(driver) => driver.unreachable(),)*
                }
            }

            /// Limits the open connections to `connections`, divided among `workers` threads; fails if the driver does
            /// not support it.
            fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
                match self {
                    $(Self::$variant(driver) => driver.cap(connections, workers),)*
                }
            }

            /// Returns the nodes that clients of worker `worker` of `workers` can choose from; `None` if the driver
            /// selects them.
            fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
                match self {
                    $(Self::$variant(driver) => driver.nodes(worker, workers),)*
                }
            }

            /// Switches a client to node number `node`. `keep`: connections to other nodes stay open.
            fn turn_to(&self, connection: &mut AnyConnection, node: u16, keep: bool) {
                match (self, connection) {
                    $((Self::$variant(driver), AnyConnection::$variant(connection)) => driver.turn_to(connection, node, keep),)*
                    _ => unreachable!("connections belong to the driver that created them"),
                }
            }

            /// Clears the captured values of a client, because another user takes it over.
            fn depart(&self, connection: &mut AnyConnection) {
                match (self, connection) {
                    $((Self::$variant(driver), AnyConnection::$variant(connection)) => driver.depart(connection),)*
                    _ => unreachable!("connections belong to the driver that created them"),
                }
            }

            /// Returns the captured values of the client's current user; `None` if the driver keeps none.
            fn memory<'a>(&self, connection: &'a mut AnyConnection) -> Option<&'a mut Captured> {
                match (self, connection) {
                    $((Self::$variant(driver), AnyConnection::$variant(connection)) => driver.memory(connection),)*
                    _ => unreachable!("connections belong to the driver that created them"),
                }
            }

            /// Returns the last answer as JSON; `None` if the client does not have all of it.
            fn answer<'a>(
                &self,
                connection: &'a AnyConnection,
                operation: &AnyOperation,
            ) -> Option<Cow<'a, [u8]>> {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => driver.answer(connection, operation),)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Executes request `draw`, or only its documents at the indices `only`.
            async fn execute(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                draw: &Draw,
                only: Option<&[u32]>,
            ) -> Reply {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => Box::pin(driver.execute(connection, operation, context, draw, only)).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Returns whether an operation ingests the events of a source.
            fn ingests(&self, operation: &AnyOperation) -> bool {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.ingests(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Sends the events of a batch, or only those at the indices `only`.
            async fn ingest(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                batch: &Batch,
                only: Option<&[u32]>,
            ) -> Reply {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => Box::pin(driver.ingest(connection, operation, context, batch, only)).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Refuses an operation whose events the driver cannot query.
            fn looks_for(&self, operation: &AnyOperation) -> Result<(), PlanError> {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.looks_for(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Queries the events of a batch, which `operation` ingested. Returns the reply, and for each event whether
            /// it was found; an empty vector if the reply is a failure.
            async fn look_for(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                batch: &Batch,
            ) -> (Reply, Vec<bool>) {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => Box::pin(driver.look_for(connection, operation, context, batch)).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Returns the request as readable text without sending it; `None` if it exists only during sending.
            fn render(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                draw: &Draw,
            ) -> Option<String> {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => driver.render(connection, operation, context, draw),)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Returns the request for a batch of events as readable text without sending it.
            /// `None` if the operation does not ingest events.
            fn render_events(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                batch: &Batch,
            ) -> Option<String> {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => driver.render_events(connection, operation, context, batch),)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Executes the request and returns it with its answer as readable text.
            async fn show(
                &self,
                connection: &mut AnyConnection,
                operation: &AnyOperation,
                context: &Context,
                draw: &Draw,
            ) -> (Reply, Exchange) {
                match (self, connection, operation) {
                    $((
                        Self::$variant(driver),
                        AnyConnection::$variant(connection),
                        AnyOperation::$variant(operation),
                    ) => Box::pin(driver.show(connection, operation, context, draw)).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }
        }
    };
}

crate::with_drivers!(any_of []);
