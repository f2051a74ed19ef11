//! The values of one statement, in the wire format, ready to be copied into a frame.

use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use super::value::Mismatch;

/// A statement's values. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Row {
    bytes: Vec<u8>,
    /// The end of each value in `bytes`, if it has one.
    ends: Vec<Option<usize>>,
}

impl Row {
    /// Forgets all values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the value that `encode` appends to the bytes; null if it says that there is none.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<bool, Mismatch>) -> Result<(), Mismatch> {
        let there = encode(&mut self.bytes)?;
        self.ends.push(there.then_some(self.bytes.len()));
        Ok(())
    }

    /// Bytes of all values.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl SerializeRow for Row {
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

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
