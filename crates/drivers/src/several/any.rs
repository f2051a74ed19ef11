//! A driver for any protocol, selected by the target's name; each call goes to the selected driver.

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

        /// A driver.
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

        impl AnyDriver {
            /// Creates the driver that a target names. Refuses an unknown name.
            pub fn new(target: &Target) -> Result<Self, PlanError> {
                match target.driver.as_str() {
                    $($name => <$driver>::new(target).map(Self::$variant),)*
                    other => Err($crate::unknown_driver(other, &[$($name),*])),
                }
            }

            /// Maps an operation of the workload; see [`Driver::map`].
            pub fn map(&self, form: &Value, context: &Context) -> Result<AnyOperation, PlanError> {
                match self {
                    $(Self::$variant(driver) => Ok(AnyOperation::$variant(Box::new(driver.map(form, context)?))),)*
                }
            }

            /// Returns the names of the operation's recorded parts; see [`Driver::parts`].
            pub fn parts(&self, operation: &AnyOperation) -> &'static [&'static str] {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.parts(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Returns whether any requests can carry a trace context; see [`Driver::has_traces`].
            pub fn has_traces(&self) -> bool {
                match self {
                    $(Self::$variant(driver) => driver.has_traces(),)*
                }
            }

            /// Returns whether the operation's requests carry a trace context; see [`Driver::traces`].
            pub fn traces(&self, operation: &AnyOperation) -> bool {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.traces(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Returns the number of requests that send each document of the operation's corpus once; see
            /// [`Driver::requests`].
            pub fn requests(&self, operation: &AnyOperation) -> Option<u64> {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.requests(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Checks for errors that would fail every request; see [`Driver::verify`].
            pub async fn verify(&self) -> Result<(), PlanError> {
                match self {
                    $(Self::$variant(driver) => driver.verify().await,)*
                }
            }

            /// Changes the target's hosts while load runs; see [`Driver::set_hosts`].
            pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
                match self {
                    $(Self::$variant(driver) => driver.set_hosts(hosts),)*
                }
            }

            /// Returns all hosts that the target ever had, by node number; see [`Driver::hosts`].
            pub fn hosts(&self) -> Vec<String> {
                match self {
                    $(Self::$variant(driver) => driver.hosts(),)*
                }
            }

            /// Returns the hosts that are unreachable now, each with the reason; see [`Driver::unreachable`].
            pub fn unreachable(&self) -> Vec<(String, String)> {
                match self {
                    $(Self::$variant(driver) => driver.unreachable(),)*
                }
            }

            /// Creates the state of client number `client`; see [`Driver::connection`].
            pub fn connection(&self, client: u64) -> AnyConnection {
                match self {
                    $(Self::$variant(driver) => AnyConnection::$variant(Box::new(driver.connection(client))),)*
                }
            }

            /// Returns the nodes that this worker's clients choose from; see [`Driver::nodes`].
            pub fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
                match self {
                    $(Self::$variant(driver) => driver.nodes(worker, workers),)*
                }
            }

            /// Switches a client to a node from its next request on; see [`Driver::turn_to`].
            pub fn turn_to(&self, connection: &mut AnyConnection, node: u16, keep: bool) {
                match (self, connection) {
                    $((Self::$variant(driver), AnyConnection::$variant(connection)) => {
                        driver.turn_to(connection, node, keep)
                    })*
                    _ => unreachable!("connections belong to the driver that created them"),
                }
            }

            /// Returns the captured values of the client's current user; see [`Driver::memory`].
            pub fn memory<'a>(&self, connection: &'a mut AnyConnection) -> Option<&'a mut Captured> {
                match (self, connection) {
                    $((Self::$variant(driver), AnyConnection::$variant(connection)) => driver.memory(connection),)*
                    _ => unreachable!("connections belong to the driver that created them"),
                }
            }

            /// Returns the last answer as JSON, if the client has all of it; see [`Driver::answer`].
            pub fn answer<'a>(
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

            /// Sends the request `draw` and judges its answer; see [`Driver::execute`].
            pub async fn execute(
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
                    ) => driver.execute(connection, operation, context, draw, only).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Returns whether the operation ingests the events of a source; see [`Driver::ingests`].
            pub fn ingests(&self, operation: &AnyOperation) -> bool {
                match (self, operation) {
                    $((Self::$variant(driver), AnyOperation::$variant(operation)) => driver.ingests(operation),)*
                    _ => unreachable!("operations belong to the driver that mapped them"),
                }
            }

            /// Sends the events of a batch, or those at the indices `only`; see [`Driver::ingest`].
            pub async fn ingest(
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
                    ) => driver.ingest(connection, operation, context, batch, only).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }

            /// Returns the request as text without sending it; see [`Driver::render`].
            pub fn render(
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

            /// Returns the request for a batch of events as text without sending it; see [`Driver::render_events`].
            pub fn render_events(
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

            /// Executes the request, and returns it with its answer as text; see [`Driver::show`].
            pub async fn show(
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
                    ) => driver.show(connection, operation, context, draw).await,)*
                    _ => unreachable!("operations and connections belong to the driver that created them"),
                }
            }
        }
    };
}

crate::with_drivers!(any_of []);
