//! Daily tables. The first event of a day creates the day's table, with the definition of the base table. The base
//! table gives the daily tables their name and stays empty.

use loadframe_engine::driver::{ErrorClass, Failure};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};

use super::answer::Answer;
use super::connection::prepare;
use super::execute::Execution;
use super::row::Row;
use super::table::TableName;
use crate::daily::Buckets;
use crate::exchanges::Exchanges;

/// Runs statements for daily tables, one after the other.
pub struct Days<'a> {
    execution: &'a Execution<'a>,
    /// The base table.
    of: &'a TableName,
    buckets: &'a Buckets,
    exchanges: Exchanges,
}

impl<'a> Days<'a> {
    /// Prepares to run statements for the days of the base table `of`, with no exchange so far.
    pub fn new(execution: &'a Execution<'a>, of: &'a TableName, buckets: &'a Buckets) -> Self {
        Self { execution, of, buckets, exchanges: Exchanges::default() }
    }

    /// Creates a day's table like the base table, unless it exists, and waits until all nodes know it.
    /// Fails if the store does not describe the base table, or if the operation's time limit passes.
    pub async fn make(&mut self, day: &TableName) -> Result<(), Failure> {
        let described = self.ask(format!("DESCRIBE TABLE {}", self.of.quoted())).await?;
        let statement = described.first().and_then(|row| Some(row["create_statement"].as_str()?.to_owned()));
        let definition = statement.as_deref().and_then(|statement| statement.split_once(" (")).map(|(_, rest)| rest);
        let wrong = || Failure::new(ErrorClass::Server, format!("the store does not describe {}", self.of.quoted()));
        let create = format!("CREATE TABLE IF NOT EXISTS {} ({}", day.quoted(), definition.ok_or_else(wrong)?);
        self.ask(create).await?;
        // If another process created the table first, some nodes may not have it yet.
        let Execution { session, limit, .. } = self.execution;
        match limit.within(session.await_schema_agreement()).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(Failure::new(ErrorClass::Server, error.to_string())),
            None => Err(limit.missed()),
        }
    }

    /// Executes a statement and adds it to `exchanges`. Uses the same node for all clients: two nodes that create a
    /// table concurrently would create two tables of one name. Fails if the store does not execute it.
    async fn ask(&mut self, text: String) -> Result<Answer, Failure> {
        let Execution { session, operation, limit, .. } = *self.execution;
        let prepared = prepare(session, text, operation.statement_options, limit).await;
        let mut statement = prepared.map_err(|failure| self.exchanges.unsent(failure))?;
        let state = session.get_cluster_state();
        let nodes = state.get_nodes_info().iter().filter(|node| node.is_connected());
        if let Some(node) = nodes.min_by_key(|node| node.host_id) {
            let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(node.clone()), None);
            statement.set_load_balancing_policy(Some(policy));
        }
        let asked = self.execution.execute(&statement, &Row::default()).await;
        self.exchanges.join(asked.exchange());
        asked.answer
    }
}

impl crate::daily::Days for Days<'_> {
    /// Returns the exchanges so far.
    fn exchanges(&mut self) -> &mut Exchanges {
        &mut self.exchanges
    }

    /// Lists the starts of the days that have a table, in milliseconds since 1970. Fails if the query fails.
    async fn begins(&mut self) -> Result<Vec<i64>, Failure> {
        let text = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'", self.of.keyspace);
        let tables = self.ask(text).await?;
        Ok(tables.texts().filter_map(|name| self.buckets.generations.begin_of(&name)).collect())
    }

    /// Drops the table of the day that starts at `begin`, in milliseconds since 1970, if it exists. Fails if the store
    /// does not execute it.
    async fn drop(&mut self, begin: i64) -> Result<(), Failure> {
        let day = self.of.day(&self.buckets.generations.name(begin));
        self.ask(format!("DROP TABLE IF EXISTS {}", day.quoted())).await.map(drop)
    }
}
