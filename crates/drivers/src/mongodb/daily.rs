//! The days of a collection: each is a collection of its own, made when its first event comes as the workload has made
//! the one that they are all named after, which stays empty. A view shows all of them together.
//!
//! The store has what is to be known of them, so that processes need not talk to each other: each makes what it does not
//! find, and looks again.

use bson::{Bson, Document, RawDocumentBuf, doc};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::Connection;
use super::answer::Answer;
use super::connect_options::DATABASE;
use super::error::failure;
use super::execute::{Execution, Take};
use crate::daily::Buckets;
use crate::exchanges::Exchanges;

/// How often the view is written at most, while others write it, too.
const ATTEMPTS: usize = 20;
/// More collections than there are.
const ALL: i32 = 1_000_000;

/// What the view of all days of a collection is called.
pub fn view(collection: &str) -> String {
    format!("{collection}-*")
}

/// The commands that are sent for days, one after the other.
pub struct Days<'a> {
    execution: &'a Execution<'a>,
    connection: &'a mut Connection,
    buckets: &'a Buckets,
    exchanges: Exchanges,
}

/// The collections that the store has.
struct Listed(Vec<Document>);

impl Listed {
    /// What is known of one.
    fn find(&self, name: &str) -> Option<&Document> {
        self.0.iter().find(|listed| listed.get_str("name").is_ok_and(|other| other == name))
    }

    /// The beginnings of the days, ascending.
    fn begins(&self, buckets: &Buckets) -> Vec<i64> {
        let names = self.0.iter().filter_map(|listed| listed.get_str("name").ok());
        let mut begins: Vec<i64> = names.filter_map(|name| buckets.generations.begin_of(name)).collect();
        begins.sort_unstable();
        begins
    }

    fn options(&self, name: &str) -> Document {
        self.find(name).and_then(|listed| listed.get_document("options").ok()).cloned().unwrap_or_default()
    }
}

impl<'a> Days<'a> {
    /// Commands for the days of `buckets`, sent by a client.
    pub fn new(execution: &'a Execution<'a>, connection: &'a mut Connection, buckets: &'a Buckets) -> Self {
        Self { execution, connection, buckets, exchanges: Exchanges::default() }
    }

    /// Makes one, and lets the view show it.
    pub async fn make(&mut self, begin: i64) -> Result<(), Failure> {
        let (of, day) = (&self.buckets.generations.collection, self.buckets.generations.name(begin));
        let listed = self.list().await?;
        if listed.find(&day).is_none() {
            let mut create = doc! {"create": &day};
            create.extend(listed.options(of));
            if let Err(failure) = self.tell(DATABASE, create).await {
                // Another process may have been faster.
                self.list().await?.find(&day).ok_or(failure)?;
            }
        }
        if listed.find(of).is_some() {
            self.define(of, &day).await?;
        }
        self.show().await
    }

    /// Gives a day the indexes of the collection `of`, and its shard key; nothing happens where it has them.
    async fn define(&mut self, of: &str, day: &str) -> Result<(), Failure> {
        let mut indexes = self.find(DATABASE, doc! {"listIndexes": of, "cursor": {"batchSize": ALL}}).await?;
        indexes.retain(|index| !index.get_str("name").is_ok_and(|name| name == "_id_"));
        // Old versions tell whose index it is, and refuse to be told.
        indexes.iter_mut().for_each(|index| drop(index.remove("ns")));
        if !indexes.is_empty() {
            self.tell(DATABASE, doc! {"createIndexes": day, "indexes": indexes}).await?;
        }
        let filter = doc! {"_id": format!("{DATABASE}.{of}"), "dropped": {"$ne": true}};
        let sharded = self.find("config", doc! {"find": "collections", "filter": filter}).await?;
        if let Some(key) = sharded.first().and_then(|sharded| sharded.get_document("key").ok()) {
            let command = doc! {"shardCollection": format!("{DATABASE}.{day}"), "key": key.clone()};
            self.tell("admin", command).await?;
        }
        Ok(())
    }

    /// Lets the view show the days that there are. Whoever writes it looks afterwards whether there are others by now, so
    /// that the last one to write has seen all.
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
            last = self.tell(DATABASE, command).await.err();
        }
        Err(last
            .unwrap_or_else(|| failure(ErrorClass::Rejected, format!("others change the view {view} all the time"))))
    }

    async fn list(&mut self) -> Result<Listed, Failure> {
        self.find(DATABASE, doc! {"listCollections": 1, "cursor": {"batchSize": ALL}}).await.map(Listed)
    }

    async fn find(&mut self, database: &str, command: Document) -> Result<Vec<Document>, Failure> {
        self.ask(database, command, Take::Documents).await.map(|answer| answer.typed_documents())
    }

    async fn tell(&mut self, database: &str, command: Document) -> Result<(), Failure> {
        self.ask(database, command, Take::Told).await?.acknowledged().map(drop)
    }

    async fn ask(&mut self, database: &str, command: Document, take: Take) -> Result<Answer, Failure> {
        let command = RawDocumentBuf::try_from(&command);
        let unfit = |error: bson::error::Error| failure(ErrorClass::Client, error.to_string());
        let command = command.map_err(|error| self.exchanges.unsent(unfit(error)))?;
        let asked = self.execution.send_to(self.connection, database, command, take).await;
        // How it went is judged by what there is afterwards.
        self.exchanges.join(asked.exchange());
        asked.answer
    }
}

impl crate::daily::Days for Days<'_> {
    fn exchanges(&mut self) -> &mut Exchanges {
        &mut self.exchanges
    }

    async fn begins(&mut self) -> Result<Vec<i64>, Failure> {
        Ok(self.list().await?.begins(self.buckets))
    }

    async fn drop(&mut self, begin: i64) -> Result<(), Failure> {
        self.tell(DATABASE, doc! {"drop": self.buckets.generations.name(begin)}).await
    }

    async fn dropped(&mut self) -> Result<(), Failure> {
        self.show().await
    }
}
