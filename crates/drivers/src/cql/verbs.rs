//! Execution of one operation on a thread's session: each verb as one or more statements.

use loadframe_engine::driver::{Failure, Reply};
use loadframe_engine::workload::variables::Values;

use super::Connection;
use super::answer::Answer;
use super::bulk;
use super::daily::Days;
use super::execute::{Execution, StatementOutcome};
use super::operation::{Kind, Native};
use super::request::{columns, names};
use super::table::Table;
use crate::crud::{Neutral, Read, Scan, Write};
use crate::exchanges::read_modify_write;
use crate::ingest::without_source;

/// Key of the read statement of a read_modify_write. Other statements use column names as their key.
const READING: &[u8] = b"\0";

impl Execution<'_> {
    /// Executes request number `k`. For a bulk request, `only` limits it to the documents at these indices. The error
    /// says why nothing was sent, such as a missing table.
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
            Kind::Ingest(..) => return Ok(without_source()),
            Kind::DeleteDays(of, days, keep) => return Ok(days.delete(Days::new(self, of, days), *keep).await),
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

    /// Executes a native statement with drawn values, and judges its answer. The error says why nothing was sent.
    async fn native(
        &self,
        connection: &mut Connection,
        native: &Native,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        let statement = self.statement(b"", || native.statement.clone()).await?;
        connection.buffers.draw_values(&statement, &native.values, values)?;
        let asked = self.run(connection, &statement).await;
        Ok(self.judged(asked, values, &mut connection.memory).reply())
    }

    /// Writes a document's fields with an INSERT statement if `insert`, otherwise with an UPDATE statement. The error
    /// says why nothing was sent.
    async fn write(
        &self,
        connection: &mut Connection,
        table: &Table,
        write: &Write,
        insert: bool,
        values: &Values<'_>,
    ) -> Result<StatementOutcome, Failure> {
        connection.buffers.draw_names(write, values);
        let names = names(&connection.buffers.names)?;
        let text = || if insert { table.insert(&columns(names)) } else { table.update(&columns(names)) };
        let statement = self.statement(names.as_bytes(), text).await?;
        connection.buffers.draw_write(&statement, write, insert, values)?;
        Ok(self.run(connection, &statement).await)
    }

    /// Reads a row by id and judges it. A missing row is a failure. The error says why nothing was sent.
    async fn read(
        &self,
        connection: &mut Connection,
        table: &Table,
        read: &Read,
        values: &Values<'_>,
    ) -> Result<StatementOutcome, Failure> {
        connection.buffers.draw_fields(&read.fields, values);
        let names = names(&connection.buffers.names)?;
        let statement = self.statement(names.as_bytes(), || table.select(&columns(names))).await?;
        connection.buffers.draw_id(&statement, &read.key.id, None, values)?;
        let asked = self.run(connection, &statement).await.then(Answer::or_not_found);
        Ok(self.judged(asked, values, &mut connection.memory))
    }

    /// Reads rows in token order from an id, and judges them. The error says why nothing was sent.
    async fn scan(
        &self,
        connection: &mut Connection,
        table: &Table,
        scan: &Scan,
        values: &Values<'_>,
    ) -> Result<StatementOutcome, Failure> {
        let statement = self.statement(b"", || table.scan()).await?;
        connection.buffers.draw_id(&statement, &scan.from.id, Some(&scan.count), values)?;
        let asked = self.run(connection, &statement).await;
        Ok(self.judged(asked, values, &mut connection.memory))
    }

    /// Reads a row by id, and updates it if it exists; a missing row is a failure. The reply covers both statements.
    /// The error says why nothing was sent.
    async fn read_modify_write(
        &self,
        connection: &mut Connection,
        table: &Table,
        write: &Write,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        let statement = self.statement(READING, || table.select(&[])).await?;
        connection.buffers.draw_id(&statement, &write.key.id, None, values)?;
        let asked = self.run(connection, &statement).await.then(Answer::or_not_found);
        let read = self.judged(asked, values, &mut connection.memory).reply();
        let write = async || match self.write(connection, table, write, false, values).await {
            Ok(written) => written.reply(),
            Err(failure) => Reply::unsent(failure),
        };
        Ok(read_modify_write(read, write).await)
    }
}
