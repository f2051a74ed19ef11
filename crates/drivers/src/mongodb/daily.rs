//! Daily collections. The first event of a day creates the day's collection, with the options of the base collection.
//! The base collection gives the daily collections their name and stays empty. A view shows all days together.
//!
//! Processes coordinate only through the store: each creates a missing collection, then lists the collections again.

use bson::{Bson, Document, RawDocumentBuf, doc};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::Connection;
use super::answer::Answer;
use super::execute::{AnswerKind, Execution};
use super::operation::DATABASE;
use crate::daily::Buckets;
use crate::exchanges::Exchanges;

/// Maximum number of attempts to write the view while others write it.
const ATTEMPTS: usize = 20;
/// Batch size above any number of collections.
const ALL: i32 = 1_000_000;

/// Returns the name of the view of all days of a collection.
pub fn view(collection: &str) -> String {
    format!("{collection}-*")
}

/// Runs commands for daily collections, one after the other.
pub struct Days<'a> {
    execution: &'a Execution<'a>,
    connection: &'a mut Connection,
    buckets: &'a Buckets,
    exchanges: Exchanges,
}

/// The collections in the store.
struct Listed(Vec<Document>);

impl Listed {
    /// Returns the description of the collection `name`, or `None` if it does not exist.
    fn find(&self, name: &str) -> Option<&Document> {
        self.0.iter().find(|listed| listed.get_str("name").is_ok_and(|other| other == name))
    }

    /// Returns the starts of the days that have a collection, in milliseconds since 1970, ascending.
    fn begins(&self, buckets: &Buckets) -> Vec<i64> {
        let names = self.0.iter().filter_map(|listed| listed.get_str("name").ok());
        let mut begins: Vec<i64> = names.filter_map(|name| buckets.generations.begin_of(name)).collect();
        begins.sort_unstable();
        begins
    }

    /// Returns the options that a collection was created with; empty if it does not exist.
    fn options(&self, name: &str) -> Document {
        self.find(name).and_then(|listed| listed.get_document("options").ok()).cloned().unwrap_or_default()
    }
}

impl<'a> Days<'a> {
    /// Prepares to send commands for the days of `buckets`.
    pub fn new(execution: &'a Execution<'a>, connection: &'a mut Connection, buckets: &'a Buckets) -> Self {
        Self { execution, connection, buckets, exchanges: Exchanges::default() }
    }

    /// Creates the collection of the day that starts at `begin`, in milliseconds since 1970, and updates the view.
    /// A new collection gets the options of the base collection; any day's gets the base's indexes and shard key.
    /// Fails if the store does not execute a command.
    pub async fn make(&mut self, begin: i64) -> Result<(), Failure> {
        let (of, day) = (&self.buckets.generations.collection, self.buckets.generations.name(begin));
        let listed = self.list().await?;
        if listed.find(&day).is_none() {
            let mut create = doc! {"create": &day};
            create.extend(listed.options(of));
            if let Err(failure) = self.run(DATABASE, create).await {
                // Another process may have created it first.
                self.list().await?.find(&day).ok_or(failure)?;
            }
        }
        if listed.find(of).is_some() {
            self.define(of, &day).await?;
        }
        self.show().await
    }

    /// Copies the indexes and the shard key of the collection `of` to a day's collection. Existing ones stay unchanged.
    /// Fails if the store does not execute a command.
    async fn define(&mut self, of: &str, day: &str) -> Result<(), Failure> {
        let mut indexes = self.find(DATABASE, doc! {"listIndexes": of, "cursor": {"batchSize": ALL}}).await?;
        indexes.retain(|index| !index.get_str("name").is_ok_and(|name| name == "_id_"));
        // Old versions list the namespace of an index, but reject it in a definition.
        indexes.iter_mut().for_each(|index| drop(index.remove("ns")));
        if !indexes.is_empty() {
            self.run(DATABASE, doc! {"createIndexes": day, "indexes": indexes}).await?;
        }
        let filter = doc! {"_id": format!("{DATABASE}.{of}"), "dropped": {"$ne": true}};
        let sharded = self.find("config", doc! {"find": "collections", "filter": filter}).await?;
        if let Some(key) = sharded.first().and_then(|sharded| sharded.get_document("key").ok()) {
            let command = doc! {"shardCollection": format!("{DATABASE}.{day}"), "key": key.clone()};
            self.run("admin", command).await?;
        }
        Ok(())
    }

    /// Updates the view to the existing days, or creates it. After each write it lists the days again, so the last
    /// writer has seen all of them. Fails if the days cannot be listed, or the view is
    /// not up to date after 20 attempts.
    async fn show(&mut self) -> Result<(), Failure> {
        let Buckets { generations, .. } = self.buckets;
        let view = view(&generations.collection);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let listed = self.list().await?;
            let names = listed.begins(self.buckets).into_iter().map(|begin| generations.name(begin));
            let pipeline: Vec<Bson> = names.map(|name| Bson::from(doc! {"$unionWith": name})).collect();
            let there = listed.find(&view).is_some();
            if there && listed.options(&view).get_array("pipeline").is_ok_and(|shown| *shown == pipeline) {
                return Ok(());
            }
            let verb = if there { "collMod" } else { "create" };
            let command = doc! {verb: &view, "viewOn": &generations.collection, "pipeline": pipeline};
            last = self.run(DATABASE, command).await.err();
        }
        Err(last.unwrap_or_else(|| {
            Failure::new(ErrorClass::Rejected, format!("others change the view {view} all the time"))
        }))
    }

    /// Lists the collections of the load's database. Fails if the store cannot be queried.
    async fn list(&mut self) -> Result<Listed, Failure> {
        self.find(DATABASE, doc! {"listCollections": 1, "cursor": {"batchSize": ALL}}).await.map(Listed)
    }

    /// Runs a command and returns the documents of the first batch of its cursor. Fails if the store does not execute
    /// it.
    async fn find(&mut self, database: &str, command: Document) -> Result<Vec<Document>, Failure> {
        self.ask(database, command, AnswerKind::Documents).await.map(|answer| answer.typed_documents())
    }

    /// Runs a command. A failed write, or a write concern that was not met, is a failure.
    async fn run(&mut self, database: &str, command: Document) -> Result<(), Failure> {
        self.ask(database, command, AnswerKind::Result).await?.acknowledged().map(drop)
    }

    /// Sends a command, and adds it to `exchanges`. A command that cannot be encoded is a failure.
    async fn ask(&mut self, database: &str, command: Document, kind: AnswerKind) -> Result<Answer, Failure> {
        let command = RawDocumentBuf::try_from(&command);
        let unfit = |error: bson::error::Error| Failure::new(ErrorClass::Client, error.to_string());
        let command = command.map_err(|error| self.exchanges.unsent(unfit(error)))?;
        let asked = self.execution.send_to(self.connection, database, command, kind).await;
        // The command may fail if another process is faster. The next listing shows the actual state.
        self.exchanges.join(asked.exchange());
        asked.answer
    }
}

impl crate::daily::Days for Days<'_> {
    /// Returns the exchanges so far.
    fn exchanges(&mut self) -> &mut Exchanges {
        &mut self.exchanges
    }

    /// Lists the starts of the days that have a collection, in milliseconds since 1970, ascending. Fails if the store
    /// cannot be queried.
    async fn begins(&mut self) -> Result<Vec<i64>, Failure> {
        Ok(self.list().await?.begins(self.buckets))
    }

    /// Drops the collection of the day that starts at `begin`, in milliseconds since 1970. Fails if the store does not
    /// do so.
    async fn drop(&mut self, begin: i64) -> Result<(), Failure> {
        self.run(DATABASE, doc! {"drop": self.buckets.generations.name(begin)}).await
    }

    /// Removes the dropped days from the view. Fails if it cannot be written.
    async fn dropped(&mut self) -> Result<(), Failure> {
        self.show().await
    }
}
