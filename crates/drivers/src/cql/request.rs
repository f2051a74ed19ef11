//! Conversion of a drawn request into a statement and its values.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;
use scylla::statement::prepared::PreparedStatement;

use super::error::unfit;
use super::row::Row;
use super::value::{Mismatch, encode, encode_id};
use crate::crud::{Cell, Scalar, Write, fields};

/// Separator of column names in the key of a prepared statement.
pub const SEPARATOR: u8 = 0;

/// Buffers reused by a client's requests.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Column names, each followed by a separator.
    pub names: Vec<u8>,
    /// The values.
    pub row: Row,
    id: Vec<u8>,
    cell: Vec<u8>,
}

impl Buffers {
    /// Replaces `names` by the names of a document's columns, rendered with `values`.
    pub fn draw_names(&mut self, write: &Write, values: &Values) {
        self.draw_fields(write.document.iter().map(|(name, _)| name), values);
    }

    /// Replaces `names` by these column names, rendered with `values`.
    pub fn draw_fields<'a>(&mut self, fields: impl IntoIterator<Item = &'a Template>, values: &Values) {
        self.names.clear();
        for name in fields {
            name.render(values, &mut self.names);
            self.names.push(SEPARATOR);
        }
    }

    /// Replaces `row` by a document's drawn id and values. `id_first`: the id is the statement's first marker, else the
    /// last. Refuses values that do not fit their columns.
    pub fn draw_write(
        &mut self,
        statement: &PreparedStatement,
        write: &Write,
        id_first: bool,
        values: &Values,
    ) -> Result<(), Failure> {
        let id_at = if id_first { 0 } else { write.document.len() };
        self.row.clear();
        self.id.clear();
        write.key.id.render(values, &mut self.id);
        for at in 0..=write.document.len() {
            let cell = if at == id_at { None } else { Some(&write.document[at - usize::from(id_first)].1) };
            match cell {
                None => bind_id(&mut self.row, statement, at, &self.id)?,
                Some(cell) => bind_cell(&mut self.row, statement, at, cell, values, &mut self.cell)?,
            }
        }
        Ok(())
    }

    /// Replaces `row` by a drawn id and, if given, the value `then` for the second marker. Refuses values that do not
    /// fit their columns.
    pub fn draw_id(
        &mut self,
        statement: &PreparedStatement,
        id: &Template,
        then: Option<&Cell>,
        values: &Values,
    ) -> Result<(), Failure> {
        self.row.clear();
        self.id.clear();
        id.render(values, &mut self.id);
        bind_id(&mut self.row, statement, 0, &self.id)?;
        then.map_or(Ok(()), |cell| bind_cell(&mut self.row, statement, 1, cell, values, &mut self.cell))
    }

    /// Replaces `row` by the drawn values of a native statement. Refuses another number of values than the statement
    /// has markers, and values that do not fit their columns.
    pub fn draw_values(
        &mut self,
        statement: &PreparedStatement,
        cells: &[Cell],
        values: &Values,
    ) -> Result<(), Failure> {
        let markers = statement.get_variable_col_specs().len();
        if markers != cells.len() {
            let message = format!("the statement has {markers} markers, and there are {} values", cells.len());
            return Err(Failure::new(ErrorClass::Client, message));
        }
        self.row.clear();
        cells
            .iter()
            .enumerate()
            .try_for_each(|(at, cell)| bind_cell(&mut self.row, statement, at, cell, values, &mut self.cell))
    }
}

/// Converts a prepared statement's key, the names of its columns, each followed by a separator, to text. Refuses a key
/// that is not UTF-8.
pub fn names(key: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(key).map_err(|_| Failure::new(ErrorClass::Client, "the name of a field is not text"))
}

/// Splits the names of a prepared statement's key, each followed by a separator.
pub fn columns(names: &str) -> Vec<&str> {
    names.split_terminator(char::from(SEPARATOR)).collect()
}

/// One document of a corpus: its id, column names and values.
#[derive(Debug, Default)]
pub struct Document<'a> {
    /// Names of the columns other than the id, each followed by a separator.
    pub names: Vec<u8>,
    id: Option<Scalar<'a>>,
    cells: Vec<Scalar<'a>>,
}

impl<'a> Document<'a> {
    /// Parses a line. `id` names the field with the id. Refuses a line that lacks this field or is not a JSON object.
    pub fn read(line: &'a [u8], id: &str) -> Result<Self, Failure> {
        let mut document = Self::default();
        let read = fields(line, |name, value| {
            if name == id.as_bytes() {
                document.id = Some(value);
            } else {
                document.names.extend_from_slice(name);
                document.names.push(SEPARATOR);
                document.cells.push(value);
            }
            Ok(())
        });
        match read {
            Ok(()) if document.id.is_some() => Ok(document),
            Ok(()) => Err(Failure::new(ErrorClass::Client, format!("a document has no field \"{id}\" for its id"))),
            Err(_) => Err(Failure::new(ErrorClass::Client, "a document is not a JSON object")),
        }
    }

    /// Returns a row of the id and, unless `only_id`, the other values. `id_first`: the id is the first marker, else
    /// the last. Refuses values that do not fit their columns.
    pub fn bind(&self, statement: &PreparedStatement, id_first: bool, only_id: bool) -> Result<Row, Failure> {
        let mut row = Row::default();
        let cells = if only_id { &[][..] } else { &self.cells[..] };
        if id_first {
            self.bind_own_id(&mut row, statement, 0)?;
        }
        for (at, value) in cells.iter().enumerate() {
            bind(&mut row, statement, at + usize::from(id_first), |column, out| encode(value, column, out))?;
        }
        if !id_first {
            self.bind_own_id(&mut row, statement, cells.len())?;
        }
        Ok(row)
    }

    /// Adds the document's id to `row`, as the value of marker number `at`. Refuses one that does not fit the column.
    fn bind_own_id(&self, row: &mut Row, statement: &PreparedStatement, at: usize) -> Result<(), Failure> {
        match &self.id {
            Some(Scalar::Text(text)) => bind_id(row, statement, at, text.as_bytes()),
            // Every workload's ids are text, so a text key column stores a number as its digits.
            Some(Scalar::Int(whole)) => bind_id(row, statement, at, whole.to_string().as_bytes()),
            Some(value) => bind(row, statement, at, |column, out| encode(value, column, out)),
            None => Err(Failure::new(ErrorClass::Client, "a document without an id")),
        }
    }
}

/// Returns the values of an event's insert: the document id and the line. Refuses values that do not fit their columns.
pub fn event_row(statement: &PreparedStatement, id: &str, line: &str) -> Result<Row, Failure> {
    let mut row = Row::default();
    bind_id(&mut row, statement, 0, id.as_bytes())?;
    bind(&mut row, statement, 1, |column, out| encode(&Scalar::Text(line.into()), column, out))?;
    Ok(row)
}

/// Adds an id to `row`, converted to the type of marker number `at`. Refuses one that is not UTF-8 or does not fit the
/// type.
fn bind_id(row: &mut Row, statement: &PreparedStatement, at: usize, id: &[u8]) -> Result<(), Failure> {
    let id = std::str::from_utf8(id).map_err(|_| Failure::new(ErrorClass::Client, "the id is not text"))?;
    bind(row, statement, at, |column, out| encode_id(id, column, out).map(|()| true))
}

/// Adds a drawn value to `row`, as the value of marker number `at`. `buffer` is scratch memory. Refuses a value that
/// does not fit the marker's column.
fn bind_cell(
    row: &mut Row,
    statement: &PreparedStatement,
    at: usize,
    cell: &Cell,
    values: &Values,
    buffer: &mut Vec<u8>,
) -> Result<(), Failure> {
    let value = cell.scalar(values, buffer).ok_or_else(|| Failure::new(ErrorClass::Client, "a value is not JSON"))?;
    bind(row, statement, at, |column, out| encode(&value, column, out))
}

/// Appends the value that `encode` writes for the type of marker `at` (from 0) to `row`; call it for each marker in
/// order. Null if `encode` returns false. Refuses a marker that does not exist, and a value that does not fit.
fn bind(
    row: &mut Row,
    statement: &PreparedStatement,
    at: usize,
    encode: impl FnOnce(&scylla::frame::response::result::ColumnType, &mut Vec<u8>) -> Result<bool, Mismatch>,
) -> Result<(), Failure> {
    let columns = statement.get_variable_col_specs();
    let column =
        columns.get_by_index(at).ok_or_else(|| Failure::new(ErrorClass::Client, "more values than markers"))?;
    row.push(|out| encode(column.typ(), out)).map_err(|mismatch| unfit(column.name(), &mismatch))
}
