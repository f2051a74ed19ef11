//! Executes the statements of one operation on one connection in sequence, and judges each.

use std::iter::empty;
use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use loadframe_engine::driver::{ErrorClass, Exchange, Failure, Reply};
use loadframe_engine::workload::variables::Values;
use tokio_postgres::Statement;

use super::answer::Answer;
use super::connection::{Broken, NodeConnection};
use super::control::Control;
use super::nodes::PostgresNodes;
use super::operation::{COMMIT, Native, Operation, Transaction};
use super::request;
use super::request::{Buffers, Param};
use super::table::{Table, quoted};
use crate::assertion::assertion;
use crate::capture::Memory;
use crate::crud::{Neutral, Scalar, Write};
use crate::exchanges::{add_line, read_modify_write};
use crate::net::deadline::{Deadline, Limit};
use crate::net::exchange::Exchanged;
use crate::net::marks::RequestStart;
use crate::outcome::Outcome;

/// Key of the read in a read_modify_write, next to the operation's other statements.
const READING: &[u8] = b"\0";
/// Separator after each name in a key of prepared statements.
const SEPARATOR: u8 = 0;

/// One operation of one client.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// All servers.
    pub nodes: &'a Arc<PostgresNodes>,
    /// The operation.
    pub operation: &'a Operation,
    /// Total time limit over all of its statements.
    pub limit: Limit,
}

/// Outcome of one statement. The bytes and the server belong to the whole operation.
pub type StatementOutcome = Outcome<Answer>;

/// One operation on one connection.
pub struct Turn<'a> {
    /// The operation and its limit.
    pub execution: Execution<'a>,
    /// Connection to the server that executes it.
    pub connection: &'a mut NodeConnection,
    /// Timer for the operation's limit.
    pub deadline: &'a mut Deadline,
    /// Buffers of the client.
    pub buffers: &'a mut Buffers,
    /// Captured values of the client's user.
    pub memory: &'a mut Memory,
    /// Exchange to fill for display; `None` if nothing is displayed.
    pub shown: &'a mut Option<Exchange>,
}

impl<'a> Turn<'a> {
    /// Returns the table of the operation's collection, which all clients share. Queries the server until one has
    /// answered. Fails if the table is missing, its primary key has not exactly one column, or the query fails.
    pub async fn table(&mut self, collection: &str) -> Result<&'a Table, Failure> {
        let known = &self.execution.operation.table;
        if let Some(table) = known.get() {
            return Ok(table);
        }
        let question = Table::question(collection);
        let looked = self.execution.limit.within(self.connection.run(|client| client.simple_query(&question))).await;
        let answer = looked.ok_or_else(|| self.execution.limit.missed())?.map_err(|broken| broken.failure())?;
        let table = Table::read(collection, &answer)?;
        Ok(known.get_or_init(|| table))
    }

    /// Returns the operation's statement for `key`. On first use on this connection, prepares the statement that `text`
    /// returns, within the operation's limit. Fails if it is invalid or late.
    pub async fn statement(&mut self, key: &[u8], text: impl FnOnce() -> String) -> Result<Statement, Failure> {
        let Execution { operation, limit, .. } = self.execution;
        if let Some(statement) = self.connection.prepared(operation.number, key) {
            return Ok(statement);
        }
        let text = text();
        let preparing = self.connection.prepare(operation.number, key, &text);
        limit.within(preparing).await.unwrap_or_else(|| Err(limit.missed()))
    }

    /// Waits for the result of a request, within the operation's limit. A timeout is a failure.
    pub async fn within<T>(
        deadline: &mut Deadline,
        limit: Limit,
        request: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Failure> {
        match deadline.within(limit.due, request).await {
            Some(outcome) => outcome.map_err(|broken| broken.failure()),
            None => Err(limit.missed()),
        }
    }

    /// Returns the arguments of `within`, for callers that need the error of each request.
    pub fn parts(&mut self) -> (&mut NodeConnection, &mut Deadline, Limit) {
        (self.connection, self.deadline, self.execution.limit)
    }

    /// Executes a prepared statement with these values, within the operation's limit. Fails without sending if their
    /// number is wrong.
    async fn execute(&mut self, statement: &Statement, params: &[Param<'_>]) -> StatementOutcome {
        let wanted = statement.params().len();
        if wanted != params.len() {
            let message = format!("the statement has {wanted} values, and there are {}", params.len());
            return Outcome::unsent(0, Failure::new(ErrorClass::Client, message));
        }
        let limit = self.execution.limit;
        let shown = self.shown.is_some();
        let returns = !statement.columns().is_empty();
        let begun = self.connection.marks.begin();
        let answer = {
            // Pinned here, because each function that takes it by value copies it.
            let request = pin!(self.connection.run(async |client| {
                let stream = client.query_raw(statement, params).await?;
                let mut stream = pin!(stream);
                let mut answer = Answer::default();
                while let Some(row) = stream.try_next().await? {
                    answer.add(row, shown);
                }
                let written = stream.rows_affected().unwrap_or(0);
                Ok(answer.end((!returns).then_some(written)))
            }));
            Self::within(self.deadline, limit, request).await
        };
        self.asked(begun, answer)
    }

    /// Sends a statement by the simple protocol and waits for its answer, within the operation's limit.
    async fn simple(&mut self, text: &str) -> StatementOutcome {
        let limit = self.execution.limit;
        let shown = self.shown.is_some();
        let begun = self.connection.marks.begin();
        let request = self.connection.run(async |client| {
            let stream = client.simple_query_raw(text).await?;
            let mut stream = pin!(stream);
            let mut answer = Answer::default();
            while let Some(message) = stream.try_next().await? {
                answer.add_simple(&message, shown);
            }
            Ok(answer)
        });
        let answer = Self::within(self.deadline, limit, request).await;
        self.asked(begun, answer)
    }

    /// Returns the outcome of a statement that started at `begun` and ends now, with its times and bytes.
    fn asked(&self, begun: RequestStart, answer: Result<Answer, Failure>) -> StatementOutcome {
        let exchanged = self.connection.marks.end(begun, is_answered(answer.as_ref().err()));
        Outcome { exchanged, node: 0, answer }
    }

    /// Executes one SQL statement with drawn values: `prepared`, or by the simple protocol if the workload says so. A
    /// number of rows other than the asserted one is a failure. Panics for a statement that is neither.
    async fn one(&mut self, native: &Native, prepared: Option<&Statement>, values: &Values<'_>) -> StatementOutcome {
        let mut drawn = std::mem::take(&mut self.buffers.drawn);
        drawn.draw(&native.values, values);
        let mut params = Vec::with_capacity(native.values.len());
        if let Err(failure) = drawn.add_to(&mut params) {
            return Outcome::unsent(0, failure);
        }
        let asked = match (&native.pieces, prepared) {
            (Some(pieces), _) => {
                let text = pieces.fill(&params);
                let asked = self.simple(&text).await;
                self.show(&text, empty(), &asked);
                asked
            }
            (None, Some(statement)) => {
                let asked = self.execute(statement, &params).await;
                self.show(&native.text, drawn.values(), &asked);
                asked
            }
            (None, None) => unreachable!("a statement is simple or prepared"),
        };
        drop(params);
        self.buffers.drawn = drawn;
        asked.then(|answer| match native.rows {
            Some(rows) if rows != answer.documents => Err(assertion(format!(
                "{} rows, and not the {rows} that are asserted: {}",
                answer.documents, native.text
            ))),
            _ => Ok(answer),
        })
    }

    /// Returns the prepared statement number `place` of the operation; prepares it at first use. `None` for the simple
    /// protocol. Fails if it is invalid or late.
    async fn prepare(&mut self, native: &Native, place: usize) -> Result<Option<Statement>, Failure> {
        if native.pieces.is_some() {
            return Ok(None);
        }
        self.statement(&place.to_ne_bytes(), || native.text.clone()).await.map(Some)
    }

    /// Executes a statement as its own transaction, and judges its answer. The error is a failure before sending.
    pub async fn native(&mut self, native: &Native, values: &Values<'_>) -> Result<Reply, Failure> {
        let prepared = self.prepare(native, 0).await?;
        let asked = self.one(native, prepared.as_ref(), values).await;
        Ok(self.judged(asked, None, values).reply())
    }

    /// Executes the statements in sequence; the first failure rolls the transaction back. The reply has parts; it
    /// counts committed documents only. If a rollback is expected, a commit is a failure. The error is a failure before
    /// sending.
    pub async fn transaction(&mut self, transaction: &Transaction, values: &Values<'_>) -> Result<Reply, Failure> {
        let mut prepared = Vec::with_capacity(transaction.statements.len());
        for (place, native) in transaction.statements.iter().enumerate() {
            prepared.push(self.prepare(native, place).await?);
        }
        let begun = self.simple(&transaction.begin).await;
        self.show(&transaction.begin, empty(), &begun);
        let begun = begun.reply();
        let mut whole = Reply { parts: vec![begun.part(0)], documents: 0, ..begun };
        if whole.outcome.is_err() {
            return Ok(whole);
        }
        let mut savepoints: Vec<(&str, u64)> = Vec::new();
        for (native, prepared) in transaction.statements.iter().zip(&prepared) {
            let asked = self.one(native, prepared.as_ref(), values).await;
            let reply = asked.reply();
            let mut part = reply.part(1);
            add_times(&mut whole, &reply);
            whole.outcome = reply.outcome;
            whole.documents += reply.documents;
            let Err(failure) = &whole.outcome else {
                whole.parts.push(part);
                match &native.control {
                    Control::Savepoint(name) => savepoints.push((name, whole.documents)),
                    Control::RollbackTo(name) => {
                        let kept = savepoints.iter().rev().find(|(known, _)| known == name);
                        whole.documents = kept.map_or(0, |(_, documents)| *documents);
                    }
                    Control::None | Control::Rollback => {}
                }
                continue;
            };
            let is_expected = transaction.expects_rollback && is_of_statement(failure);
            if is_expected {
                part.failed = None;
            }
            whole.parts.push(part);
            whole.documents = 0;
            // A broken or closed connection ends its transaction; after a timeout of the server it is still open.
            let late = failure.class == ErrorClass::Timeout && self.execution.limit.has_passed();
            if failure.class != ErrorClass::Connect && !late {
                let undone = self.simple("ROLLBACK").await;
                if is_expected {
                    self.show("ROLLBACK", empty(), &undone);
                    let undone = undone.reply();
                    whole.parts.push(undone.part(2));
                    add_times(&mut whole, &undone);
                    whole.outcome = undone.outcome;
                } else if let Err(failure) = undone.answer {
                    whole.outcome = Err(failure);
                }
            }
            return Ok(whole);
        }
        let ended = self.simple(transaction.end).await;
        self.show(transaction.end, empty(), &ended);
        let ended = ended.reply();
        let mut part = ended.part(2);
        let committed = transaction.end == COMMIT && ended.outcome.is_ok();
        if !committed {
            whole.documents = 0;
        }
        add_times(&mut whole, &ended);
        whole.outcome = ended.outcome;
        if transaction.expects_rollback {
            match &whole.outcome {
                Ok(()) if committed => {
                    whole.outcome = Err(assertion("it was committed, and a rollback is expected".to_owned()));
                }
                // A deferred constraint, checked at commit.
                Err(failure) if is_of_statement(failure) => {
                    part.failed = None;
                    whole.outcome = Ok(());
                }
                _ => {}
            }
        }
        whole.parts.push(part);
        Ok(whole)
    }

    /// Executes a verb other than bulk, and judges its answer. The error is a failure before sending.
    pub async fn neutral(&mut self, neutral: &Neutral, table: &Table, values: &Values<'_>) -> Result<Reply, Failure> {
        let mut buffers = std::mem::take(self.buffers);
        let reply = self.verb(neutral, table, values, &mut buffers).await;
        *self.buffers = buffers;
        reply
    }

    /// Draws the values of the operation `neutral`, executes it on its `table`, and judges the answer. A document that
    /// is missing for an update, a read or a deletion is a failure. The error is a failure before sending. Panics for a
    /// bulk request.
    async fn verb(
        &mut self,
        neutral: &Neutral,
        table: &Table,
        values: &Values<'_>,
        buffers: &mut Buffers,
    ) -> Result<Reply, Failure> {
        let document = table.document.as_deref();
        Ok(match neutral {
            Neutral::Insert(write) => self.write(table, write, WriteKind::Insert, values, buffers).await?.reply(),
            Neutral::Upsert(write) => self.write(table, write, WriteKind::Upsert, values, buffers).await?.reply(),
            Neutral::Update(write) => {
                self.write(table, write, WriteKind::Update, values, buffers).await?.then(Answer::there).reply()
            }
            Neutral::Read(read) => {
                let names = read.names(values);
                let id = request::id(&read.key.id, values, &mut buffers.id);
                let asked =
                    self.ask(names.join("\0").as_bytes(), || table.select(&names), &[id]).await?.then(Answer::there);
                self.judged(asked, document, values).reply()
            }
            Neutral::Delete(key) => {
                let id = request::id(&key.id, values, &mut buffers.id);
                self.ask(b"", || table.delete(), &[id]).await?.then(Answer::there).reply()
            }
            Neutral::Scan(scan) => {
                let Buffers { id, drawn, .. } = buffers;
                drawn.draw([&scan.count], values);
                let mut given = vec![request::id(&scan.from.id, values, id)];
                drawn.add_to(&mut given)?;
                let asked = self.ask(b"", || table.scan(), &given).await?;
                self.judged(asked, document, values).reply()
            }
            Neutral::ReadModifyWrite(write) => {
                let id = request::id(&write.key.id, values, &mut buffers.id);
                let asked = self.ask(READING, || table.select(&[]), &[id]).await?.then(Answer::there);
                let read = self.judged(asked, document, values);
                read_modify_write(read.reply(), async || {
                    match self.write(table, write, WriteKind::Update, values, buffers).await {
                        Ok(written) => written.then(Answer::there).reply(),
                        Err(failure) => Reply::unsent(failure),
                    }
                })
                .await
            }
            Neutral::Bulk(_) => unreachable!("a bulk request is carried out elsewhere"),
        })
    }

    /// Writes one document: whole, if the table has a document column, or else field by field. The error is a failure
    /// before sending.
    async fn write(
        &mut self,
        table: &Table,
        write: &Write,
        kind: WriteKind,
        values: &Values<'_>,
        buffers: &mut Buffers,
    ) -> Result<StatementOutcome, Failure> {
        let Buffers { id, text, drawn } = buffers;
        let id = request::id(&write.key.id, values, id);
        text.clear();
        if let Some(document) = &table.document {
            write.json.render(values, text);
            let whole = Param::Scalar(Scalar::Json(text));
            let columns = std::slice::from_ref(document);
            let given = if kind == WriteKind::Update { [whole, id] } else { [id, whole] };
            return self.ask(b"", || kind.text(table, columns), &given).await;
        }
        for (name, _) in &write.document {
            name.render(values, text);
            text.push(SEPARATOR);
        }
        drawn.draw(write.document.iter().map(|(_, cell)| cell), values);
        let mut given = Vec::with_capacity(write.document.len() + 1);
        if kind == WriteKind::Update {
            drawn.add_to(&mut given)?;
            given.push(id);
        } else {
            given.push(id);
            drawn.add_to(&mut given)?;
        }
        let names = names(text)?;
        self.ask(names.as_bytes(), || kind.text(table, &quoted_columns(names)), &given).await
    }

    /// Executes the operation's statement for `key`, which `text` returns, with the values `given`. Prepares it at
    /// first use. The error is a failure before sending.
    async fn ask(
        &mut self,
        key: &[u8],
        text: impl FnOnce() -> String,
        given: &[Param<'_>],
    ) -> Result<StatementOutcome, Failure> {
        let mut written = None;
        let wanted = self.shown.is_some();
        let statement = if wanted {
            let text = text();
            written = Some(text.clone());
            self.statement(key, || text).await?
        } else {
            self.statement(key, text).await?
        };
        let asked = self.execute(&statement, given).await;
        if let Some(text) = written {
            let values: Vec<_> = given.iter().map(shown_param).collect();
            self.show(&text, values.iter().map(Vec::as_slice), &asked);
        }
        Ok(asked)
    }

    /// Returns the outcome, or a failure if the answer contradicts the assertion or lacks a value to capture. Captures
    /// values for the user's later requests. `document` is the column that holds whole documents, if any.
    fn judged(&mut self, asked: StatementOutcome, document: Option<&str>, values: &Values) -> StatementOutcome {
        let Operation { assertion, captures, .. } = self.execution.operation;
        asked.then(|answer| {
            assertion.as_ref().map_or(Ok(()), |assertion| answer.judge(assertion, document, values))?;
            captures.keep_of(self.memory, || answer.first(document)).map(|()| answer)
        })
    }

    /// Appends a statement, its values and its answer to the exchange for display, if there is one.
    fn show<'v>(&mut self, text: &str, values: impl Iterator<Item = &'v [u8]>, asked: &StatementOutcome) {
        let Some(shown) = self.shown else { return };
        let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
        let with = if values.is_empty() { String::new() } else { format!("\n[{}]", values.join(", ")) };
        add_line(&mut shown.request, &format!("{text}{with}"));
        add_line(
            &mut shown.answer,
            &asked.answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text),
        );
    }
}

/// Adds the times of a later statement to `whole`, the totals of its transaction. The time in between does not count.
fn add_times(whole: &mut Reply, later: &Reply) {
    let both = Exchanged::of(whole).then(&Exchanged::of(later));
    (whole.sent, whole.done, whole.overhead) = (both.sent, both.done, both.overhead);
}

/// Returns whether the server answered a statement: without a `failure`, or with one that is neither a broken
/// connection nor a timeout.
fn is_answered(failure: Option<&Failure>) -> bool {
    failure.is_none_or(|failure| !matches!(failure.class, ErrorClass::Connect | ErrorClass::Timeout))
}

/// Returns whether the content of the statements made a transaction fail, rather than the state of the server.
/// True for the classes Client and Assertion.
fn is_of_statement(failure: &Failure) -> bool {
    matches!(failure.class, ErrorClass::Client | ErrorClass::Assertion)
}

/// How to write one document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    Insert,
    Upsert,
    Update,
}

impl WriteKind {
    /// Returns the statement that writes one document with these columns.
    fn text(self, table: &Table, columns: &[String]) -> String {
        match self {
            Self::Insert => table.insert(columns, 1),
            Self::Upsert => table.upsert(columns, 1),
            Self::Update => table.update(columns),
        }
    }
}

/// Returns a key of prepared statements as text. Refuses a name that is not text.
fn names(key: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(key).map_err(|_| no_name())
}

/// Returns the failure, of class Client, for a field whose name is not text.
pub fn no_name() -> Failure {
    Failure::new(ErrorClass::Client, "the name of a field is not text")
}

/// Splits names that are each followed by a zero byte, and quotes them.
pub fn quoted_columns(names: &str) -> Vec<String> {
    names.split_terminator(char::from(SEPARATOR)).map(quoted).collect()
}

/// Formats a value for display.
fn shown_param(param: &Param) -> Vec<u8> {
    match param {
        Param::Text(text) => format!("{:?}", String::from_utf8_lossy(text)).into_bytes(),
        Param::Scalar(Scalar::Json(json)) => json.to_vec(),
        Param::Scalar(scalar) => match scalar {
            Scalar::Null => b"null".to_vec(),
            Scalar::Bool(yes) => yes.to_string().into_bytes(),
            Scalar::Int(number) => number.to_string().into_bytes(),
            Scalar::Float(number) => number.to_string().into_bytes(),
            Scalar::Text(text) => format!("{text:?}").into_bytes(),
            Scalar::Json(json) => json.to_vec(),
        },
    }
}
