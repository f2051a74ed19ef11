//! One connection to one node: opening, authentication and commands.

use bson::raw::{RawArray, RawBsonRef};
use bson::{Document, RawDocument, RawDocumentBuf, cstr, doc};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::bson::owned;
use super::failure::{failure, inside};
use super::login::{Mechanism, verify};
use super::message::{Message, head};
use super::terms::Terms;
use crate::net::client::Client;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::wire::Wire;

/// Where users are, and where a node says what it is.
const ADMIN: &str = "admin";

/// See the module.
pub struct Line {
    wire: Option<Wire>,
    client: Client<Message>,
    /// Numbers the commands.
    number: u32,
}

/// What a query found.
#[derive(Debug, Default)]
pub struct Found {
    /// The first answer; documents that came later are only counted.
    pub first: Option<RawDocumentBuf>,
    /// How many documents in all.
    pub documents: u64,
    /// Bytes of all answers.
    pub bytes: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self { wire: None, client: Client::with(Message::default()), number: 0 }
    }
}

impl Wired for Line {
    fn wire(&mut self) -> &mut Option<Wire> {
        &mut self.wire
    }
}

impl Found {
    /// The documents of the first answer.
    pub fn documents(&self) -> impl Iterator<Item = &RawDocument> {
        let batch = self.first.as_ref().and_then(|answer| Batch::read(answer).ok());
        let elements = batch.map(|batch| batch.documents.into_iter());
        elements.into_iter().flatten().filter_map(|element| element.ok()?.as_document())
    }
}

/// The part of a cursor that one answer has.
struct Batch<'a> {
    /// 0 if it is the last.
    cursor: i64,
    /// The database and the collection.
    name: &'a str,
    documents: &'a RawArray,
}

impl<'a> Batch<'a> {
    fn read(answer: &'a RawDocument) -> Result<Self, Failure> {
        let wrong = |_| failure(ErrorClass::Server, "the answer has no cursor with documents");
        let cursor = answer.get_document("cursor").map_err(wrong)?;
        let documents = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).map_err(wrong)?;
        let name = cursor.get_str("ns").unwrap_or_default();
        Ok(Self { cursor: cursor.get_i64("id").map_err(wrong)?, name, documents })
    }
}

impl Line {
    /// Whether there is a connection that can be used, as far as is known.
    pub fn is_open(&mut self) -> bool {
        self.wire.as_mut().is_some_and(Wire::is_idle)
    }

    /// Connects and authenticates, if there is no usable connection. The error is a refusal if the node answered that it
    /// does not let this user in.
    pub async fn open(&mut self, host: &Host, terms: &Terms, limit: Limit) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, terms.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        let opened = self.enter(terms, limit).await;
        match opened {
            Ok(_) => setup.finish(),
            Err(_) => self.wire = None,
        }
        opened.map(drop)
    }

    /// Connects and authenticates; returns what the node says that it is.
    pub async fn hello(&mut self, host: &Host, terms: &Terms, limit: Limit) -> Result<Document, Failure> {
        self.wire = Some(Wire::connect(host, terms.tls.as_ref(), limit).await?);
        self.enter(terms, limit).await
    }

    async fn enter(&mut self, terms: &Terms, limit: Limit) -> Result<Document, Failure> {
        let driver = doc! {"name": "loadframe", "version": env!("CARGO_PKG_VERSION")};
        let client =
            doc! {"application": {"name": "loadframe"}, "driver": driver, "os": {"type": std::env::consts::OS}};
        let mut hello = doc! {"hello": 1, "client": client};
        if let Some(user) = &terms.user {
            hello.insert("saslSupportedMechs", user.of_admin());
        }
        let hello = self.ask(&hello, limit).await?;
        if let Some(user) = &terms.user {
            let login = user.login(Mechanism::of(&hello))?;
            let answer = self.ask(&login.start(), limit).await?;
            let (last, signature) = login.next(&answer)?;
            verify(&self.ask(&last, limit).await?, &signature)?;
        }
        Ok(hello)
    }

    /// Sends a command of our own to the database of users.
    async fn ask(&mut self, command: &Document, limit: Limit) -> Result<Document, Failure> {
        let command =
            RawDocumentBuf::try_from(command).map_err(|error| failure(ErrorClass::Client, error.to_string()))?;
        self.tell(ADMIN, command, None, limit).await.1
    }

    /// Sends a command to a database for its answer.
    pub async fn tell(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<Document, Failure>) {
        let (exchanged, answer) = self.exchange(database, command, preference, limit).await;
        let answer = answer.and_then(|answer| owned(answer).ok_or_else(unreadable));
        (exchanged, answer)
    }

    /// Sends a command to a database for all that it finds.
    pub async fn find(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<Found, Failure>) {
        let mut batch = Found::default();
        let (mut whole, mut answer) = self.exchange(database, command, preference, limit).await;
        loop {
            let next = match answer.and_then(|answer| batch.add(answer)) {
                Ok(next) => next,
                Err(failure) => return (whole, Err(failure)),
            };
            let Some((database, command)) = next else { return (whole, Ok(batch)) };
            let exchanged;
            (exchanged, answer) = self.exchange(&database, command, preference, limit).await;
            whole = whole.then(&exchanged);
        }
    }

    /// Sends a command, and returns its answer if the node carried it out.
    async fn exchange(
        &mut self,
        database: &str,
        mut command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<&RawDocument, Failure>) {
        command.append(cstr!("$db"), database);
        if let Some(mode) = preference {
            let mut read = RawDocumentBuf::new();
            read.append(cstr!("mode"), mode);
            command.append(cstr!("$readPreference"), read);
        }
        let bytes = command.as_bytes();
        self.number = self.number.wrapping_add(1);
        self.client.answer_mut().begin();
        let head = head(self.number, bytes.len());
        let (exchanged, outcome) = self.client.speak(&mut self.wire, [&head, bytes], limit).await;
        let answer = match outcome {
            Ok(()) => judged(self.client.answer().document()),
            Err(trouble) => Err(trouble.into()),
        };
        (exchanged, answer)
    }
}

impl Found {
    /// Adds an answer; returns the command for the next, and its database, unless it is the last.
    fn add(&mut self, answer: &RawDocument) -> Result<Option<(String, RawDocumentBuf)>, Failure> {
        let batch = Batch::read(answer)?;
        // Of an `aggregate` that writes.
        if let Ok(error) = answer.get_document("writeConcernError") {
            return Err(inside(&owned(error).ok_or_else(unreadable)?));
        }
        self.documents += batch.documents.into_iter().count() as u64;
        self.bytes += answer.as_bytes().len() as u64;
        let next = match batch.name.split_once('.') {
            Some((database, collection)) if batch.cursor != 0 => {
                let mut more = RawDocumentBuf::new();
                more.append(cstr!("getMore"), batch.cursor);
                more.append(cstr!("collection"), collection);
                Some((database.to_owned(), more))
            }
            _ => None,
        };
        if self.first.is_none() {
            self.first = Some(answer.to_owned());
        }
        Ok(next)
    }
}

/// Whether a number or a boolean of an answer stands for yes.
fn is_true(value: Option<RawBsonRef<'_>>) -> bool {
    match value {
        Some(RawBsonRef::Double(number)) => number == 1.0,
        Some(RawBsonRef::Int32(number)) => number == 1,
        Some(RawBsonRef::Int64(number)) => number == 1,
        Some(RawBsonRef::Boolean(yes)) => yes,
        _ => false,
    }
}

fn judged(answer: Option<&RawDocument>) -> Result<&RawDocument, Failure> {
    let answer = answer.ok_or_else(|| failure(ErrorClass::Server, "the answer is not a document"))?;
    if is_true(answer.get("ok").map_err(|error| malformed(&error))?) {
        return Ok(answer);
    }
    Err(inside(&owned(answer).ok_or_else(unreadable)?))
}

fn unreadable() -> Failure {
    failure(ErrorClass::Server, "the answer is not valid BSON, or nested too deeply")
}

fn malformed(error: &impl std::fmt::Display) -> Failure {
    failure(ErrorClass::Server, format!("the answer is not valid BSON: {error}"))
}
