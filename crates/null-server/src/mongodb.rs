//! The part of the MongoDB protocol that the driver uses. The server finds every requested document and confirms every
//! write.

use std::io;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use super::Protocol;

/// A message's length, number, number of the answered message, and kind; then flags and the kind of its only section.
const HEAD: usize = 16;
const BODY: usize = HEAD + 5;
/// OP_MSG.
const MESSAGE: u32 = 2013;

/// One connection. Its only state is a constant answer.
pub struct Mongo {
    answer_to_find: RawDocumentBuf,
}

impl Default for Mongo {
    /// Creates the state of a connection.
    fn default() -> Self {
        let batch = [rawdoc! {"_id": "key", "field": "value"}];
        let batch: bson::RawArrayBuf = batch.into_iter().collect();
        let cursor = rawdoc! {"firstBatch": batch, "id": 0_i64, "ns": "loadframe.nothing"};
        Self { answer_to_find: rawdoc! {"cursor": cursor, "ok": 1.0} }
    }
}

impl Protocol for Mongo {
    /// Answers complete commands; returns the number of their bytes. Refuses other kinds of messages and invalid BSON.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((number, command, length)) = message(&read[taken..])? {
            let document = self.answer(command)?;
            let bytes = document.as_ref().unwrap_or(&self.answer_to_find).as_bytes();
            for field in [(BODY + bytes.len()) as u32, 0, number, MESSAGE, 0] {
                answers.extend_from_slice(&field.to_le_bytes());
            }
            answers.push(0);
            answers.extend_from_slice(bytes);
            taken += length;
        }
        Ok(taken)
    }
}

impl Mongo {
    /// Returns the answer to a command; `None` for `find`, whose answer is the constant one with a document. Refuses
    /// invalid BSON.
    fn answer(&self, command: &RawDocument) -> io::Result<Option<RawDocumentBuf>> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
        let Some(first) = command.iter().next() else { return Err(io::ErrorKind::InvalidData.into()) };
        let list = match first.map_err(invalid)?.0.as_str() {
            "find" => return Ok(None),
            "hello" | "isMaster" | "ismaster" => {
                return Ok(Some(rawdoc! {
                    "isWritablePrimary": true, "ismaster": true, "helloOk": true, "maxBsonObjectSize": 16_777_216,
                    "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30,
                    "minWireVersion": 0, "maxWireVersion": 17, "ok": 1.0,
                }));
            }
            "insert" => "documents",
            "update" => "updates",
            "delete" => "deletes",
            _ => return Ok(Some(rawdoc! {"ok": 1.0})),
        };
        let count = command.get_array(list).map_or(0, |list| list.into_iter().count());
        Ok(Some(rawdoc! {"n": count as i32, "ok": 1.0}))
    }
}

/// Returns the number, command and length in bytes of the message at the start, or `None` if it is incomplete. Refuses
/// other kinds of messages.
fn message(read: &[u8]) -> io::Result<Option<(u32, &RawDocument, usize)>> {
    if read.len() < BODY {
        return Ok(None);
    }
    let field = |at: usize| u32::from_le_bytes(read[at..at + 4].try_into().expect("four bytes"));
    let length = field(0) as usize;
    if field(12) != MESSAGE || read[BODY - 1] != 0 || length < BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if read.len() < length {
        return Ok(None);
    }
    let command = RawDocument::from_bytes(&read[BODY..length]).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some((field(4), command, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message of a command.
    fn sent(number: u32, command: &RawDocument) -> Vec<u8> {
        let mut message = Vec::new();
        for field in [(BODY + command.as_bytes().len()) as u32, number, 0, MESSAGE, 0] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.push(0);
        message.extend_from_slice(command.as_bytes());
        message
    }

    /// Sends a command to a new connection and returns its answer.
    fn answered(command: RawDocumentBuf) -> RawDocumentBuf {
        let mut answers = Vec::new();
        let message = sent(7, &command);
        assert_eq!(Mongo::default().take(&message, &mut answers).unwrap(), message.len());
        assert_eq!(&answers[8..12], 7_u32.to_le_bytes());
        RawDocumentBuf::from_bytes(answers.split_off(BODY)).unwrap()
    }

    #[test]
    fn each_whole_command_has_its_answer_and_the_rest_waits() {
        let mut read = sent(1, &rawdoc! {"ping": 1});
        let first = read.len();
        read.extend(sent(2, &rawdoc! {"ping": 1}));
        let mut answers = Vec::new();
        assert_eq!(Mongo::default().take(&read[..read.len() - 1], &mut answers).unwrap(), first);
        assert_eq!(answered(rawdoc! {"find": "c"}).get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
        let documents: bson::RawArrayBuf = [rawdoc! {}, rawdoc! {}].into_iter().collect();
        assert_eq!(answered(rawdoc! {"insert": "c", "documents": documents}).get_i32("n").unwrap(), 2);
    }

    #[test]
    fn a_malformed_command_ends_the_connection() {
        let mut old = sent(1, &rawdoc! {"ping": 1});
        old[12..16].copy_from_slice(&2004_u32.to_le_bytes());
        for read in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &old, &sent(1, &rawdoc! {})] {
            assert!(Mongo::default().take(read, &mut Vec::new()).is_err());
        }
    }
}
