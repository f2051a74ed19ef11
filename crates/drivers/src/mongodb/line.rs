//! What one client of the load has for one node: a session with it, over the connections that its thread shares.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use bson::{Document, RawDocumentBuf};
use futures_util::stream::StreamExt;
use loadframe_engine::driver::Failure;
use mongodb::error::{Error, Result};
use mongodb::options::SelectionCriteria;
use mongodb::raw_batch_cursor::RawBatch;
use mongodb::{Client, ClientSession, Database};

use super::failure;
use super::nodes::MongoNodes;
use super::terms::DATABASE;

/// A thread's clients of the official driver, by the node's address. Their tasks live on the thread's runtime.
#[derive(Default)]
pub struct Thread(RefCell<HashMap<String, Client>>);

impl Thread {
    fn client(&self, nodes: &Arc<MongoNodes>, address: &str) -> Result<Client> {
        if let Some(client) = self.0.borrow().get(address) {
            return Ok(client.clone());
        }
        let doubtful = Arc::downgrade(nodes);
        let changed = move || {
            if let Some(nodes) = doubtful.upgrade() {
                nodes.doubt();
            }
        };
        let client = nodes.terms.client(address, changed)?;
        self.0.borrow_mut().insert(address.to_owned(), client.clone());
        Ok(client)
    }
}

/// See the module.
pub struct Line {
    client: Client,
    database: Database,
    /// One of its own: the driver would begin and end one with each request, which costs two tasks.
    session: ClientSession,
}

/// What a query found.
#[derive(Debug, Default)]
pub struct Found {
    /// The first answer's documents; those that came later are only counted.
    pub first: Option<RawBatch>,
    /// How many in all.
    pub documents: u64,
    /// Bytes of all answers.
    pub bytes: u64,
}

impl Line {
    /// A line to the node at `address`. It connects when it is first asked.
    pub async fn open(nodes: &Arc<MongoNodes>, thread: &Thread, address: &str) -> std::result::Result<Self, Failure> {
        let opened = async {
            let client = thread.client(nodes, address)?;
            let session = client.start_session().causal_consistency(false).await?;
            let database = client.database(DATABASE);
            Ok::<_, Error>(Self { client, database, session })
        };
        opened.await.map_err(|error| failure::request(&error))
    }

    fn at(&self, database: &str) -> Database {
        if database == DATABASE { self.database.clone() } else { self.client.database(database) }
    }

    /// Sends a command to a database for its answer.
    pub async fn tell(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        criteria: Option<SelectionCriteria>,
    ) -> Result<Document> {
        let database = self.at(database);
        let mut action = database.run_raw_command(command);
        if let Some(criteria) = criteria {
            action = action.selection_criteria(criteria);
        }
        action.session(&mut self.session).await
    }

    /// Sends a command to a database for all that it finds.
    pub async fn find(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        criteria: Option<SelectionCriteria>,
    ) -> Result<Found> {
        let database = self.at(database);
        let mut action = database.run_raw_cursor_command(command);
        if let Some(criteria) = criteria {
            action = action.selection_criteria(criteria);
        }
        let mut cursor = action.session(&mut self.session).batch().await?;
        let mut documents = Found::default();
        let mut batches = cursor.stream(&mut self.session);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            documents.documents += batch.doc_slices()?.into_iter().count() as u64;
            documents.bytes += batch.as_raw_document().as_bytes().len() as u64;
            documents.first.get_or_insert(batch);
        }
        Ok(documents)
    }
}
