//! One connection to one node: opening, authentication and commands.

use std::time::Duration;

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef};
use bson::{Document, RawDocument, RawDocumentBuf, cstr, doc};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::bson::{is_valid, owned, value};
use super::error::inside;
use super::login::{Mechanism, User, end, verify};
use super::message::{Message, head};
use crate::net::client::Client;
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::wire::Wire;

/// Database of users, which also answers `hello`.
const ADMIN: &str = "admin";
/// Time limit for closing a cursor.
const KILLING: Duration = Duration::from_secs(1);

/// One connection to one node.
pub struct NodeConnection {
    wire: Option<Wire>,
    client: Client<Message>,
    /// Number of the last command.
    number: u32,
    /// A cursor that is open on the server, but no longer read.
    left: Option<Cursor>,
}

/// The result of a query.
#[derive(Debug, Default)]
pub struct FoundDocuments {
    /// The first answer. Later documents are only counted.
    pub first: Option<RawDocumentBuf>,
    /// Number of documents in all answers.
    pub documents: u64,
    /// Size of all answers, in bytes.
    pub bytes: u64,
}

impl Default for NodeConnection {
    /// Creates it without a connection.
    fn default() -> Self {
        Self { wire: None, client: Client::with(Message::default()), number: 0, left: None }
    }
}

impl Wired for NodeConnection {
    /// Returns the socket, `None` while disconnected.
    fn wire(&mut self) -> &mut Option<Wire> {
        &mut self.wire
    }
}

impl FoundDocuments {
    /// Returns the documents of the first batch; none without an answer.
    pub fn documents(&self) -> impl Iterator<Item = &RawDocument> {
        let cursor = self.first.as_ref().and_then(|answer| value(answer, "cursor")?.as_document());
        let documents = cursor.and_then(|cursor| Batch::read(cursor)?.documents);
        documents.into_iter().flatten().filter_map(|element| element.ok()?.as_document())
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
    /// Returns the cursor of an answer if it is open, that is, its number is not 0; `None` if it is closed or missing.
    fn of(answer: &CommandAnswer) -> Option<Self> {
        let batch = answer.batch.as_ref()?;
        let number = batch.number.filter(|number| *number != 0)?;
        let (database, collection) = batch.namespace?.split_once('.')?;
        Some(Self { number, database: database.to_owned(), collection: collection.to_owned() })
    }

    /// Returns the command that gets the next documents.
    fn more(&self) -> RawDocumentBuf {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("getMore"), self.number);
        command.append(cstr!("collection"), self.collection.as_str());
        command
    }

    /// Returns the command that closes the cursor.
    fn kill(&self) -> RawDocumentBuf {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("killCursors"), self.collection.as_str());
        command.append(cstr!("cursors"), [self.number].into_iter().collect::<RawArrayBuf>());
        command
    }
}

/// A cursor in an answer, with its next documents. Read in one pass, because each lookup by name passes all fields.
#[derive(Default)]
struct Batch<'a> {
    /// The cursor's number; 0 after the last batch.
    number: Option<i64>,
    namespace: Option<&'a str>,
    documents: Option<&'a RawArray>,
}

impl<'a> Batch<'a> {
    /// Reads the cursor of an answer. A field that is missing or has another type is `None`. Returns `None` only
    /// for invalid BSON.
    fn read(cursor: &'a RawDocument) -> Option<Self> {
        let mut batch = Self::default();
        for element in cursor {
            match element.map(|(name, value)| (name.as_str(), value)).ok()? {
                ("id", value) => batch.number = value.as_i64(),
                ("ns", value) => batch.namespace = value.as_str(),
                ("firstBatch" | "nextBatch", value) => batch.documents = value.as_array(),
                _ => {}
            }
        }
        Some(batch)
    }
}

/// The answer to a command that succeeded, with its fields that the driver reads.
struct CommandAnswer<'a> {
    whole: &'a RawDocument,
    batch: Option<Batch<'a>>,
    /// The error of a write concern that was not met.
    concern: Option<&'a RawDocument>,
}

impl NodeConnection {
    /// Connects and authenticates, unless a usable connection exists, and closes a cursor left by a lost connection.
    /// The error is a refusal if the node rejects the user; the connection is then closed.
    pub async fn open(
        &mut self,
        host: &Host,
        connect_options: &ConnectOptions<User>,
        limit: Limit,
    ) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        let opened = self.enter(connect_options, limit).await;
        match opened {
            Ok(_) => setup.finish(),
            Err(_) => self.wire = None,
        }
        opened?;
        // Close the cursor of a request that lost its connection.
        self.kill().await;
        Ok(())
    }

    /// Connects and authenticates, replacing an existing connection. Returns the node's answer to `hello`. Fails if the
    /// node is unreachable or rejects the user.
    pub async fn hello(
        &mut self,
        host: &Host,
        connect_options: &ConnectOptions<User>,
        limit: Limit,
    ) -> Result<Document, Failure> {
        self.wire = Some(Wire::connect(host, connect_options.tls.as_ref(), limit).await?);
        self.enter(connect_options, limit).await
    }

    /// Sends `hello`, authenticates if there is a user, and returns the answer to `hello`. Fails without an answer, and
    /// if the node rejects the user.
    async fn enter(&mut self, connect_options: &ConnectOptions<User>, limit: Limit) -> Result<Document, Failure> {
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

    /// Sends an internal command to the database `admin` and returns its answer. Fails if the node reports an error or
    /// does not answer.
    async fn ask(&mut self, command: &Document, limit: Limit) -> Result<Document, Failure> {
        let command =
            RawDocumentBuf::try_from(command).map_err(|error| Failure::new(ErrorClass::Client, error.to_string()))?;
        let answer = self.run(ADMIN, command, None, limit).await.1?;
        owned(&answer).ok_or_else(unreadable)
    }

    /// Sends a command to a database and returns its times and its answer, which is valid. Closes a cursor that the
    /// answer opened. `preference` is the mode of the read preference, `None` for the primary. Fails if the node
    /// reports an error.
    pub async fn run(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<RawDocumentBuf, Failure>) {
        let (exchanged, answer) = self.exchange(database, command, preference, limit).await;
        let mut left = None;
        let answer = answer.and_then(|answer| {
            // A native command may return a cursor. The driver reads only its first answer.
            left = Cursor::of(&answer);
            if is_valid(answer.whole) { Ok(answer.whole.to_owned()) } else { Err(unreadable()) }
        });
        if left.is_some() {
            self.left = left;
            self.kill().await;
        }
        (exchanged, answer)
    }

    /// Closes the unread cursor, if any, within 1 s. If this fails, the server closes the cursor after its timeout.
    async fn kill(&mut self) {
        let Some(cursor) = self.left.take_if(|_| self.wire.is_some()) else { return };
        let limit = Limit::starting_now(KILLING);
        let _ = self.exchange(&cursor.database, cursor.kill(), None, limit).await;
    }

    /// Sends a command to a database and reads its cursor to the end; closes it after a failure. Returns the times
    /// without pauses between exchanges. `preference` is the mode of the read preference, `None` for the primary.
    pub async fn find(
        &mut self,
        database: &str,
        command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<FoundDocuments, Failure>) {
        let mut batch = FoundDocuments::default();
        let (mut whole, mut answer) = self.exchange(database, command, preference, limit).await;
        let mut open = None;
        let outcome = loop {
            let next = answer.and_then(|answer| {
                open = Cursor::of(&answer).or_else(|| open.take());
                batch.add(&answer)
            });
            let cursor = match (next, &open) {
                (Ok(true), _) => return (whole, Ok(batch)),
                (Ok(false), Some(cursor)) => cursor,
                (Ok(false), None) => {
                    break Failure::new(ErrorClass::Server, "the answer does not name its cursor's collection");
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

    /// Sends a command and returns its answer, or a failure if the node reports an error. Appends the database and the
    /// read preference to the command.
    async fn exchange(
        &mut self,
        database: &str,
        mut command: RawDocumentBuf,
        preference: Option<&'static str>,
        limit: Limit,
    ) -> (Exchanged, Result<CommandAnswer<'_>, Failure>) {
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

impl FoundDocuments {
    /// Adds the documents of an answer. Returns whether it is the last. Fails if it has no cursor, or a write concern
    /// error.
    fn add(&mut self, answer: &CommandAnswer) -> Result<bool, Failure> {
        let batch = answer.batch.as_ref();
        let parts = batch.and_then(|batch| Some((batch.number?, batch.documents?)));
        let Some((number, documents)) = parts else {
            return Err(Failure::new(ErrorClass::Server, "the answer has no cursor with documents"));
        };
        // An `aggregate` that writes may fail like this.
        if let Some(error) = answer.concern {
            return Err(inside(error));
        }
        self.documents += documents.into_iter().count() as u64;
        self.bytes += answer.whole.as_bytes().len() as u64;
        if self.first.is_none() {
            self.first = Some(answer.whole.to_owned());
        }
        Ok(number == 0)
    }
}

/// Returns whether a value of an answer is the number 1 or the boolean true.
fn is_true(value: Option<RawBsonRef<'_>>) -> bool {
    match value {
        Some(RawBsonRef::Double(number)) => number == 1.0,
        Some(RawBsonRef::Int32(number)) => number == 1,
        Some(RawBsonRef::Int64(number)) => number == 1,
        Some(RawBsonRef::Boolean(yes)) => yes,
        _ => false,
    }
}

/// Reads the fields of a command's answer, or returns the failure that it reports. Fails if it is missing or invalid.
fn judged(answer: Option<&RawDocument>) -> Result<CommandAnswer<'_>, Failure> {
    let whole = answer.ok_or_else(|| Failure::new(ErrorClass::Server, "the answer is not a document"))?;
    let (mut ok, mut batch, mut concern) = (None, None, None);
    for element in whole {
        let (name, value) = element.map_err(|error| malformed(&error))?;
        match name.as_str() {
            "ok" => ok = Some(value),
            "cursor" => batch = value.as_document().and_then(Batch::read),
            "writeConcernError" => concern = value.as_document(),
            _ => {}
        }
    }
    match is_true(ok) {
        true => Ok(CommandAnswer { whole, batch, concern }),
        false if is_valid(whole) => Err(inside(whole)),
        false => Err(unreadable()),
    }
}

/// Returns the failure for an answer that is not valid BSON, or nested too deeply.
fn unreadable() -> Failure {
    Failure::new(ErrorClass::Server, "the answer is not valid BSON, or nested too deeply")
}

/// Returns the failure for an answer that is not valid BSON, with the library's error.
fn malformed(error: &impl std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::Server, format!("the answer is not valid BSON: {error}"))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Reads one command, or returns `None` at the end of the connection.
    async fn command(stream: &mut TcpStream) -> Option<Document> {
        let mut head = [0; 21];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let mut document = vec![0; length - head.len()];
        stream.read_exact(&mut document).await.unwrap();
        Some(Document::from_reader(&document[..]).unwrap())
    }

    /// Runs a server that returns `answers` in order to all commands except `hello` and `killCursors`. Closes the
    /// connection when it has no more answers. Returns the received commands except `hello`, after the client has
    /// closed its last connection.
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

    /// Returns an answer with one document and a cursor of this number. `key` is `firstBatch` or `nextBatch`.
    fn batch(key: &str, cursor: i64, namespace: &str) -> RawDocumentBuf {
        let documents: RawArrayBuf = [rawdoc! {"_id": 1}].into_iter().collect();
        let mut inner = rawdoc! {"id": cursor, "ns": namespace};
        inner.append(bson::raw::CString::try_from(key).unwrap(), documents);
        rawdoc! {"cursor": inner, "ok": 1.0}
    }

    /// Sends `find` to a server with these answers over `connections` connections. `whole`: reads the cursor to its
    /// end. Returns whether the query succeeded, and the commands that the server read.
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
                false => line.run("db", ask, None, limit).await.1.is_ok(),
            };
            if connections > 1 {
                line.open(&host, &connect_options, limit).await.unwrap();
            }
            good
        };
        tokio::join!(client, serve(listener, answers, connections))
    }

    /// Returns the names of commands.
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
