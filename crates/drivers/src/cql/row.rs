//! The values of one statement in wire format, ready to copy into a frame.

use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use super::value::Mismatch;

/// A statement's values. Statements reuse its memory.
#[derive(Debug, Default)]
pub struct Row {
    bytes: Vec<u8>,
    /// End offset of each value in `bytes`; `None` for null.
    ends: Vec<Option<usize>>,
}

impl Row {
    /// Removes all values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the value that `encode` appends, or null if `encode` returns false. After its error, which is returned, the
    /// row is not usable before `clear`.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<bool, Mismatch>) -> Result<(), Mismatch> {
        let there = encode(&mut self.bytes)?;
        self.ends.push(there.then_some(self.bytes.len()));
        Ok(())
    }

    /// Returns the size of all values, in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl SerializeRow for Row {
    /// Writes all values into a frame; each is already in its column's format.
    fn serialize(&self, _: &RowSerializationContext<'_>, writer: &mut RowWriter) -> Result<(), SerializationError> {
        let mut start = 0;
        for end in &self.ends {
            let cell = writer.make_cell_writer();
            match end {
                Some(end) => {
                    cell.set_value(&self.bytes[start..*end]).map_err(SerializationError::new)?;
                    start = *end;
                }
                None => drop(cell.set_null()),
            }
        }
        Ok(())
    }

    /// Returns whether the row is empty.
    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
