//! One connection to one node: opening, authentication and commands.

use std::time::Duration;

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef};
use bson::{Document, RawDocument, RawDocumentBuf, cstr, doc};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::bson::owned;
use super::connect_options::ConnectOptions;
use super::error::{failure, inside};
use super::login::{Mechanism, end, verify};
use super::message::{Message, head};
use crate::net::client::Client;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::wire::Wire;

/// Where users are, and where a node says what it is.
const ADMIN: &str = "admin";
/// How long to wait for a cursor to be closed.
const KILLING: Duration = Duration::from_secs(1);

/// See the module.
pub struct NodeConnection {
    wire: Option<Wire>,
    client: Client<Message>,
    /// Numbers the commands.
    number: u32,
    /// A cursor that the server still has open, though nothing more is read from it.
    left: Option<Cursor>,
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

impl Default for NodeConnection {
    fn default() -> Self {
        Self { wire: None, client: Client::with(Message::default()), number: 0, left: None }
    }
}

impl Wired for NodeConnection {
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

/// An open cursor of the server: its number, database and collection.
#[derive(Clone, Debug)]
struct Cursor {
    number: i64,
    database: String,
    collection: String,
}

impl Cursor {
    /// The cursor of an answer; `None` if the answer has none that is open.
    fn of(answer: &RawDocument) -> Option<Self> {
        let cursor = answer.get_document("cursor").ok()?;
        let number = cursor.get_i64("id").ok().filter(|number| *number != 0)?;
        let (database, collection) = cursor.get_str("ns").ok()?.split_once('.')?;
        Some(Self { number, database: database.to_owned(), collection: collection.to_owned() })
    }

    /// The command for its next documents.
    fn more(&self) -> RawDocumentBuf {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("getMore"), self.number);
        command.append(cstr!("collection"), self.collection.as_str());
        command
    }

    /// The command that closes it.
    fn kill(&self) -> RawDocumentBuf {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("killCursors"), self.collection.as_str());
        command.append(cstr!("cursors"), [self.number].into_iter().collect::<RawArrayBuf>());
        command
    }
}

/// The part of a cursor that one answer has.
struct Batch<'a> {
    /// Whether it is the last.
    last: bool,
    documents: &'a RawArray,
}

impl<'a> Batch<'a> {
    fn read(answer: &'a RawDocument) -> Result<Self, Failure> {
        let wrong = |_| failure(ErrorClass::Server, "the answer has no cursor with documents");
        let cursor = answer.get_document("cursor").map_err(wrong)?;
        let documents = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).map_err(wrong)?;
        Ok(Self { last: cursor.get_i64("id").map_err(wrong)? == 0, documents })
    }
}

impl NodeConnection {
    /// Whether there is a connection that can be used, as far as is known.
    pub fn is_open(&mut self) -> bool {
        self.wire.as_mut().is_some_and(Wire::is_idle)
    }

    /// Connects and authenticates, if there is no usable connection. The error is a refusal if the node answered that it
    /// does not let this user in.
    pub async fn open(&mut self, host: &Host, connect_options: &ConnectOptions, limit: Limit) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        let opened = self.enter(connect_options, limit).await;
        match opened {
            Ok(_) => setup.finish(),
            Err(_) => self.wire = None,
        }
        opened?;
        // That of a request that the connection was lost with.
        self.kill().await;
        Ok(())
    }

    /// Connects and authenticates; returns what the node says that it is.
    pub async fn hello(
        &mut self,
        host: &Host,
        connect_options: &ConnectOptions,
        limit: Limit,
    ) -> Result<Document, Failure> {
        self.wire = Some(Wire::connect(host, connect_options.tls.as_ref(), limit).await?);
        self.enter(connect_options, limit).await
    }

    async fn enter(&mut self, connect_options: &ConnectOptions, limit: Limit) -> Result<Document, Failure> {
        let driver = doc! {"name": "loadframe", "version": env!("CARGO_PKG_VERSION")};
        let client =
            doc! {"application": {"name": "loadframe"}, "driver": driver, "os": {"type": std::env::consts::OS}};
        let mut hello = doc! {"hello": 1, "client": client};
        if let Some(user) = &connect_options.user {
            hello.insert("saslSupportedMechs", user.of_admin());
        }
        let hello = self.ask(&hello, limit).await?;
        if let Some(user) = &connect_options.user {
            let login = user.login(Mechanism::of(&hello))?;
            let answer = self.ask(&login.start(), limit).await?;
            let (last, signature) = login.next(&answer)?;
            if let Some(third) = verify(&self.ask(&last, limit).await?, &signature)? {
                end(&self.ask(&third, limit).await?)?;
            }
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
        let mut left = None;
        let answer = answer.and_then(|answer| {
            // Of a command of the workload's own that finds documents: only its first answer is read.
            left = Cursor::of(answer);
            owned(answer).ok_or_else(unreadable)
        });
        if left.is_some() {
            self.left = left;
            self.kill().await;
        }
        (exchanged, answer)
    }

    /// Closes the cursor that was left, if there is one. The server closes it by itself if that fails.
    async fn kill(&mut self) {
        let Some(cursor) = self.left.take_if(|_| self.wire.is_some()) else { return };
        let limit = Limit::starting_now(KILLING);
        let _ = self.exchange(&cursor.database, cursor.kill(), None, limit).await;
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
        let mut open = None;
        let outcome = loop {
            let next = answer.and_then(|answer| {
                open = Cursor::of(answer).or_else(|| open.take());
                batch.add(answer)
            });
            let cursor = match (next, &open) {
                (Ok(true), _) => return (whole, Ok(batch)),
                (Ok(false), Some(cursor)) => cursor,
                (Ok(false), None) => {
                    break failure(ErrorClass::Server, "the answer does not name its cursor's collection");
                }
                (Err(failure), _) => break failure,
            };
            let exchanged;
            (exchanged, answer) = self.exchange(&cursor.database, cursor.more(), preference, limit).await;
            whole = whole.then(&exchanged);
        };
        self.left = open;
        self.kill().await;
        (whole, Err(outcome))
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
    /// Adds an answer; returns whether it is the last.
    fn add(&mut self, answer: &RawDocument) -> Result<bool, Failure> {
        let batch = Batch::read(answer)?;
        // Of an `aggregate` that writes.
        if let Ok(error) = answer.get_document("writeConcernError") {
            return Err(inside(&owned(error).ok_or_else(unreadable)?));
        }
        self.documents += batch.documents.into_iter().count() as u64;
        self.bytes += answer.as_bytes().len() as u64;
        let last = batch.last;
        if self.first.is_none() {
            self.first = Some(answer.to_owned());
        }
        Ok(last)
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

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Reads one command; `None` at the end of the connection.
    async fn command(stream: &mut TcpStream) -> Option<Document> {
        let mut head = [0; 21];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let mut document = vec![0; length - head.len()];
        stream.read_exact(&mut document).await.unwrap();
        Some(Document::from_reader(&document[..]).unwrap())
    }

    /// A server that gives the answers to finds and their cursors in turn; where there is none left it closes the
    /// connection. Returns its commands apart from `hello`, once the client has closed its last connection.
    async fn serve(listener: TcpListener, mut answers: Vec<RawDocumentBuf>, connections: usize) -> Vec<Document> {
        let mut commands = Vec::new();
        answers.reverse();
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().await.unwrap();
            while let Some(command) = command(&mut stream).await {
                let name = command.keys().next().unwrap().clone();
                let answer = match name.as_str() {
                    "hello" | "killCursors" => Some(rawdoc! {"ok": 1.0}),
                    _ => answers.pop(),
                };
                if name != "hello" {
                    commands.push(command);
                }
                let Some(answer) = answer else { break };
                stream.write_all(&head(1, answer.as_bytes().len())).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        commands
    }

    fn batch(key: &str, cursor: i64, namespace: &str) -> RawDocumentBuf {
        let documents: RawArrayBuf = [rawdoc! {"_id": 1}].into_iter().collect();
        let mut inner = rawdoc! {"id": cursor, "ns": namespace};
        inner.append(bson::raw::CString::try_from(key).unwrap(), documents);
        rawdoc! {"cursor": inner, "ok": 1.0}
    }

    /// Asks a server with those answers by `take`, on so many connections; returns whether that succeeded, and the commands
    /// that the server read.
    async fn asked(answers: Vec<RawDocumentBuf>, whole: bool, connections: usize) -> (bool, Vec<Document>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = Host::resolve(&listener.local_addr().unwrap().to_string()).unwrap();
        let (connect_options, limit) = (ConnectOptions::plain(), Limit::starting_now(Duration::from_secs(60)));
        let client = async {
            let mut line = NodeConnection::default();
            line.open(&host, &connect_options, limit).await.unwrap();
            let ask = rawdoc! {"find": "c"};
            let good = match whole {
                true => line.find("db", ask, None, limit).await.1.is_ok(),
                false => line.tell("db", ask, None, limit).await.1.is_ok(),
            };
            if connections > 1 {
                line.open(&host, &connect_options, limit).await.unwrap();
            }
            good
        };
        tokio::join!(client, serve(listener, answers, connections))
    }

    fn names(commands: &[Document]) -> Vec<&str> {
        commands.iter().map(|command| command.keys().next().unwrap().as_str()).collect()
    }

    #[tokio::test]
    async fn a_cursor_that_is_left_before_its_end_is_closed() {
        let error = rawdoc! {"ok": 0.0, "code": 11601, "errmsg": "interrupted"};
        let broken = rawdoc! {"cursor": {"id": "?"}, "ok": 1.0};
        for second in [error, broken] {
            let (good, commands) = asked(vec![batch("firstBatch", 7, "db.c"), second], true, 1).await;
            assert!(!good);
            assert_eq!(names(&commands), ["find", "getMore", "killCursors"]);
            let kill = commands.last().unwrap();
            assert_eq!(kill.get_str("killCursors").unwrap(), "c");
            assert_eq!(kill.get_str("$db").unwrap(), "db");
            assert_eq!(kill.get_array("cursors").unwrap(), &[7_i64.into()]);
        }
        let (good, commands) = asked(vec![batch("firstBatch", 7, "db.c")], false, 1).await;
        assert!(good, "only the first answer was asked for");
        assert_eq!(names(&commands), ["find", "killCursors"]);
    }

    #[tokio::test]
    async fn a_cursor_outlives_its_connection_until_the_next_one_closes_it() {
        let (good, commands) = asked(vec![batch("firstBatch", 7, "db.c")], true, 2).await;
        assert!(!good);
        assert_eq!(names(&commands), ["find", "getMore", "killCursors"]);
    }

    #[tokio::test]
    async fn a_cursor_that_was_read_to_its_end_is_not_closed_again() {
        let answers = vec![batch("firstBatch", 7, "db.c"), batch("nextBatch", 0, "db.c")];
        let (good, commands) = asked(answers, true, 1).await;
        assert!(good);
        assert_eq!(names(&commands), ["find", "getMore"]);
    }

    #[tokio::test]
    async fn a_cursor_without_a_collection_is_an_error() {
        let (good, commands) = asked(vec![batch("firstBatch", 7, "nowhere")], true, 1).await;
        assert!(!good);
        assert_eq!(names(&commands), ["find"]);
    }
}
