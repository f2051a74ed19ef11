//! Carrying one operation out on a thread's session: drawn, sent, judged.

use std::time::Instant;

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, Part, Reply};
use loadframe_engine::variables::Values;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use super::Connection;
use super::answer::Answer;
use super::bulk;
use super::failure::failure;
use super::nodes::Nodes;
use super::operation::{Kind, Native, Operation};
use super::row::Row;
use super::session::Thread;
use super::statement::columns;
use super::table::{Table, TableName};
use crate::net::deadline::{Deadline, Limit};
use crate::neutral::{Neutral, Read, Scan, Write};

/// The read of a read_modify_write among its operation's statements, which are found by names of columns.
const READING: &[u8] = b"\0";

/// One operation on one thread's session.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// All nodes.
    pub nodes: &'a Nodes,
    /// What the thread holds.
    pub thread: &'a Thread,
    /// Its session, which is open.
    pub session: &'a Session,
    /// What is asked.
    pub operation: &'a Operation,
    /// How long it may take in all, over all of its statements.
    pub limit: Limit,
}

/// One statement that was executed and judged.
pub struct Asked {
    /// See [`Reply::sent`].
    pub sent: Instant,
    /// See [`Reply::done`].
    pub done: Instant,
    /// Which host served it.
    pub node: u16,
    /// Bytes of the values.
    pub bytes_sent: u64,
    /// What was answered.
    pub answer: Result<Answer, Failure>,
}

impl Asking<'_> {
    /// Asks for request `k`, of a bulk request only for the documents at the places `only` if any are named. The error is what stood in the way before anything was sent.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        values: &Values<'_>,
        k: u64,
        only: Option<&[u32]>,
    ) -> Result<Reply, Failure> {
        let (neutral, name) = match &self.operation.kind {
            Kind::Native(native) => return self.native(connection, native, values).await,
            Kind::Neutral(neutral, name) => (neutral, name),
        };
        let table = &*self.table(name).await?;
        Ok(match neutral {
            Neutral::Insert(write) | Neutral::Upsert(write) => {
                self.write(connection, table, write, true, values).await?.reply()
            }
            Neutral::Update(write) => self.write(connection, table, write, false, values).await?.reply(),
            Neutral::Read(read) => self.read(connection, table, read, values).await?.reply(),
            Neutral::Delete(key) => {
                let statement = self.statement(b"", || table.delete()).await?;
                connection.buffers.draw_id(&statement, &key.id, None, values)?;
                self.run(connection, &statement).await.reply()
            }
            Neutral::Scan(scan) => self.scan(connection, table, scan, values).await?.reply(),
            Neutral::ReadModifyWrite(write) => self.read_modify_write(connection, table, write, values).await?,
            Neutral::Bulk(bulk) => bulk::ask(self, table, (bulk, only), k, &mut connection.shown).await,
        })
    }

    async fn table(&self, name: &TableName) -> Result<std::rc::Rc<Table>, Failure> {
        self.thread.table(self.session, name).await
    }

    /// The operation's statement for those columns.
    pub async fn statement(
        &self,
        names: &[u8],
        text: impl FnOnce() -> String,
    ) -> Result<std::rc::Rc<PreparedStatement>, Failure> {
        let Operation { number, terms, .. } = self.operation;
        self.thread.prepared(self.session, *number, names, (*terms, self.limit), text).await
    }

    /// Executes a statement with the values that were drawn.
    async fn run(&self, connection: &mut Connection, statement: &PreparedStatement) -> Asked {
        let Connection { buffers, deadline, shown } = connection;
        let asked = self.execute(statement, &buffers.row, deadline).await;
        if let Some(shown) = shown {
            show(shown, statement, &asked.answer);
        }
        asked
    }

    /// Executes a statement with those values.
    pub async fn execute(&self, statement: &PreparedStatement, row: &Row, deadline: &mut Deadline) -> Asked {
        let executed = self.thread.execute(self.session, self.nodes, (statement, row), self.limit, deadline).await;
        let answer = executed.answer.and_then(Answer::new).and_then(|answer| match answer.refused() {
            true => Err(failure(ErrorClass::Client, "not applied: the condition of the statement was not met")),
            false => Ok(answer),
        });
        let (sent, done, node) = (executed.sent, executed.done, executed.node);
        Asked { sent, done, node, bytes_sent: row.size(), answer }
    }

    /// Judges what came by what the workload asserts.
    fn judged(&self, asked: Asked, values: &Values) -> Asked {
        let Some(assertion) = &self.operation.assertion else { return asked };
        let answer = asked.answer.and_then(|answer| answer.judge(assertion, values).map(|()| answer));
        Asked { answer, ..asked }
    }

    async fn native(
        &self,
        connection: &mut Connection,
        native: &Native,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        let statement = self.statement(b"", || native.statement.clone()).await?;
        connection.buffers.draw_values(&statement, &native.values, values)?;
        Ok(self.judged(self.run(connection, &statement).await, values).reply())
    }

    async fn write(
        &self,
        connection: &mut Connection,
        table: &Table,
        write: &Write,
        insert: bool,
        values: &Values<'_>,
    ) -> Result<Asked, Failure> {
        connection.buffers.draw_names(write, values);
        let names = &connection.buffers.names;
        let columns = columns(names)?;
        let text = || if insert { table.insert(&columns) } else { table.update(&columns) };
        let statement = self.statement(names, text).await?;
        connection.buffers.draw_write(&statement, write, insert, values)?;
        Ok(self.run(connection, &statement).await)
    }

    async fn read(
        &self,
        connection: &mut Connection,
        table: &Table,
        read: &Read,
        values: &Values<'_>,
    ) -> Result<Asked, Failure> {
        connection.buffers.draw_fields(&read.fields, values);
        let names = &connection.buffers.names;
        let fields = columns(names)?;
        let statement = self.statement(names, || table.select(&fields)).await?;
        connection.buffers.draw_id(&statement, &read.key.id, None, values)?;
        Ok(self.judged(self.run(connection, &statement).await.found(), values))
    }

    async fn scan(
        &self,
        connection: &mut Connection,
        table: &Table,
        scan: &Scan,
        values: &Values<'_>,
    ) -> Result<Asked, Failure> {
        let statement = self.statement(b"", || table.scan()).await?;
        connection.buffers.draw_id(&statement, &scan.from.id, Some(&scan.count), values)?;
        Ok(self.judged(self.run(connection, &statement).await, values))
    }

    async fn read_modify_write(
        &self,
        connection: &mut Connection,
        table: &Table,
        write: &Write,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        let statement = self.statement(READING, || table.select(&[])).await?;
        connection.buffers.draw_id(&statement, &write.key.id, None, values)?;
        let first = self.judged(self.run(connection, &statement).await.found(), values);
        let read = first.part(0);
        let bytes_received = first.received();
        if first.answer.is_err() {
            return Ok(Reply { parts: vec![read], ..first.reply() });
        }
        let (sent, bytes_sent) = (first.sent, first.bytes_sent);
        let second = match self.write(connection, table, write, false, values).await {
            Ok(second) => second,
            Err(failure) => {
                let reply = Asked { answer: Err(failure), ..first }.reply();
                return Ok(Reply { bytes_received, parts: vec![read], ..reply });
            }
        };
        let write = second.part(1);
        let reply = second.reply();
        Ok(Reply {
            sent,
            bytes_sent: bytes_sent + reply.bytes_sent,
            bytes_received: bytes_received + reply.bytes_received,
            parts: vec![read, write],
            ..reply
        })
    }
}

impl Asked {
    /// The same, a failure where no document was found.
    fn found(self) -> Self {
        let missing = |answer: Answer| match answer.documents() {
            0 => Err(failure(ErrorClass::Client, "not found")),
            _ => Ok(answer),
        };
        Self { answer: self.answer.and_then(missing), ..self }
    }

    fn received(&self) -> u64 {
        self.answer.as_ref().map_or(0, Answer::size)
    }

    fn part(&self, name: usize) -> Part {
        Part {
            name,
            sent: self.sent,
            done: self.done,
            documents: self.answer.as_ref().map_or(0, Answer::documents),
            failed: self.answer.as_ref().err().map(|failure| failure.class),
        }
    }

    fn reply(self) -> Reply {
        Reply {
            sent: self.sent,
            done: self.done,
            bytes_sent: self.bytes_sent,
            bytes_received: self.received(),
            documents: self.answer.as_ref().map_or(0, Answer::documents),
            node: self.node,
            parts: Vec::new(),
            rejected: Vec::new(),
            recall: None,
            outcome: self.answer.map(drop),
        }
    }
}

/// Writes a statement and its answer down for people, below those that stand there.
pub fn show(shown: &mut Exchange, statement: &PreparedStatement, answer: &Result<Answer, Failure>) {
    for (text, line) in [
        (&mut shown.request, statement.get_statement().to_owned()),
        (&mut shown.answer, answer.as_ref().map_or_else(|failure| failure.message.clone(), Answer::text)),
    ] {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
    }
}
