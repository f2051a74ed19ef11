//! Pieces of a file, scanned in parallel by all processes of this machine that open it at the same time. Each
//! process takes the next free piece, and stores its result in a folder shared with the others.
//!
//! File locks of the operating system mark the pieces in use, so that the piece of a process that died is
//! free again. Without lock support or a writable folder, every process scans the whole file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::lines::{Lines, flaw};

/// Size of a piece, bytes. The result does not depend on it.
const BYTES: usize = 64 << 20;

/// Documents per stored offset.
pub const EVERY: u64 = 64;

/// The documents with lines that begin in one piece of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of documents.
    pub documents: u64,
    /// Offsets of documents 0, `EVERY`, 2 `EVERY`, ... of the piece, from the beginning of the file.
    pub offsets: Vec<u64>,
    /// Offset of the first line that is not a document. The scan stops there.
    pub flaw: Option<u64>,
}

/// Returns the number of pieces of a file of `bytes` bytes.
pub fn count(bytes: usize) -> usize {
    bytes.div_ceil(BYTES)
}

/// Finds the documents whose lines begin in piece `number`, from 0, of the file with the bytes `map`.
pub fn look(map: &[u8], number: usize) -> Piece {
    look_at(map, BYTES, number)
}

/// Finds the documents whose lines begin in piece `number`, for pieces of `bytes` bytes.
/// Stops at the first line that is not a document.
fn look_at(map: &[u8], bytes: usize, number: usize) -> Piece {
    let start = number * bytes;
    // A line that begins earlier belongs to the previous piece.
    let first = match start {
        0 => 0,
        start => memchr::memchr(b'\n', &map[start - 1..]).map_or(map.len(), |end| start + end),
    };
    let mut piece = Piece::default();
    for line in Lines::new(map, first).take_while(|line| line.offset < start + bytes) {
        if flaw(line.text).is_some() {
            piece.flaw = Some(line.offset as u64);
            break;
        }
        if piece.documents.is_multiple_of(EVERY) {
            piece.offsets.push(line.offset as u64);
        }
        piece.documents += 1;
    }
    piece
}

/// Returns the pieces of a file in order, up to `most` documents and the first flaw. Scans pieces that no other
/// process scans, and stores them in `folder`; blocks while others scan the rest. Returns the result of `done` instead
/// once it is `Some`: another process has joined the pieces. Fails if the folder cannot be used.
pub fn look_together<T>(
    map: &[u8],
    most: u64,
    folder: &Path,
    done: impl Fn() -> Option<T>,
) -> io::Result<ScanResult<T>> {
    fs::create_dir_all(folder)?;
    let mut pieces: Vec<Option<Piece>> = vec![None; count(map.len())];
    loop {
        if let Some(done) = done() {
            return Ok(ScanResult::Done(done));
        }
        let mut taken = None;
        let mut before = 0;
        for (number, known) in pieces.iter_mut().enumerate() {
            if before >= most {
                break;
            }
            if known.is_none() {
                match take(map, folder, number) {
                    Ok(Some(piece)) => *known = Some(piece),
                    Ok(None) => taken = taken.or(Some(number)),
                    // The process that joins the pieces deletes the folder.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => break,
                    Err(error) => return Err(error),
                }
            }
            before += known.as_ref().map_or(0, |piece| piece.documents);
            if known.as_ref().is_some_and(|piece| piece.flaw.is_some()) {
                break;
            }
        }
        if let Some(first) = first_ones(&pieces, most) {
            return Ok(ScanResult::Pieces(first));
        }
        match taken {
            // Wait until the holder finishes or dies.
            Some(number) => drop(lock(folder, number, FlockOperation::LockExclusive)?),
            None => fs::create_dir_all(folder)?,
        }
    }
}

/// Result of scanning a file.
pub enum ScanResult<T> {
    /// Its pieces, from the first.
    Pieces(Vec<Piece>),
    /// Another process has joined the pieces.
    Done(T),
}

/// Returns the pieces up to `most` documents or the first flaw; `None` unless all of them are known.
fn first_ones(pieces: &[Option<Piece>], most: u64) -> Option<Vec<Piece>> {
    let mut first = Vec::new();
    let mut documents = 0;
    for piece in pieces {
        if documents >= most {
            break;
        }
        let piece = piece.clone()?;
        documents += piece.documents;
        let ends = piece.flaw.is_some();
        first.push(piece);
        if ends {
            break;
        }
    }
    Some(first)
}

/// Reads or scans piece `number`, and stores a scanned one in `folder`; returns `None` while another process holds it.
/// Fails if the folder cannot be used.
fn take(map: &[u8], folder: &Path, number: usize) -> io::Result<Option<Piece>> {
    let place = folder.join(format!("{number}"));
    if let Some(piece) = read(&place) {
        return Ok(Some(piece));
    }
    let lock = match lock(folder, number, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        lock => lock?,
    };
    if let Some(piece) = read(&place) {
        return Ok(Some(piece));
    }
    let piece = look(map, number);
    let partial = folder.join(format!("{number}.partial"));
    fs::write(&partial, postcard::to_allocvec(&piece).map_err(io::Error::other)?)?;
    fs::rename(&partial, &place)?;
    drop(lock);
    Ok(Some(piece))
}

/// Reads a stored piece; `None` if it is missing or invalid.
fn read(place: &Path) -> Option<Piece> {
    postcard::from_bytes(&fs::read(place).ok()?).ok()
}

/// Locks piece `number` until the returned file is dropped. `how`: whether to block while another process holds it, or
/// to fail with `WouldBlock`.
fn lock(folder: &Path, number: usize, how: FlockOperation) -> io::Result<File> {
    let file = File::create(folder.join(format!("{number}.lock")))?;
    flock(&file, how)?;
    Ok(file)
}

/// Returns the folder of the pieces for an index at `place`.
/// `bytes`, `changed`: size and modification time, in nanoseconds since 1970, of the indexed file.
pub fn folder(place: &Path, bytes: u64, changed: i64) -> PathBuf {
    let mut folder = place.as_os_str().to_owned();
    folder.push(format!(".pieces-{bytes}-{changed}"));
    PathBuf::from(folder)
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;

    #[test]
    fn pieces_have_every_line_once() {
        let text: String = (0..1000).map(|n| format!("{{\"n\": {n}}}{}", "\n".repeat(n % 3 + 1))).collect();
        let whole = look_at(text.as_bytes(), text.len(), 0);
        assert_eq!(whole.documents, 1000);
        for bytes in [1, 9, 10, 11, 64, 1000, text.len() - 1] {
            let pieces: Vec<Piece> =
                (0..text.len().div_ceil(bytes)).map(|number| look_at(text.as_bytes(), bytes, number)).collect();
            assert_eq!(pieces.iter().map(|piece| piece.documents).sum::<u64>(), 1000, "{bytes}");
            let offsets: Vec<u64> = pieces.iter().flat_map(|piece| piece.offsets.clone()).collect();
            assert!(offsets.is_sorted_by(|one, two| one < two));
            assert!(offsets.iter().all(|offset| text[*offset as usize..].starts_with('{')));
        }
    }

    /// Concurrent scans share the pieces, return the same result, and take over the piece of a dead process.
    #[test]
    fn processes_that_look_together_share_the_pieces_and_find_the_same() {
        let folder = Folder::new("pieces");
        let line = format!("{{\"n\": \"{}\"}}\n", "x".repeat(1000));
        let text = line.repeat(5 * BYTES / line.len()).into_bytes();
        let place = folder.0.join("together");
        let looked: Vec<Vec<Piece>> = std::thread::scope(|scope| {
            let process = || {
                scope.spawn(|| match look_together(&text, u64::MAX, &place, || None::<()>).unwrap() {
                    ScanResult::Pieces(pieces) => pieces,
                    ScanResult::Done(()) => unreachable!(),
                })
            };
            let processes = [process(), process(), process()];
            processes.into_iter().map(|process| process.join().unwrap()).collect()
        });
        let alone: Vec<Piece> = (0..count(text.len())).map(|number| look(&text, number)).collect();
        assert!(looked.iter().all(|pieces| *pieces == alone));
        // A piece held by another process is waited for, and taken over if that process ends without a
        // result.
        fs::remove_file(place.join("2")).unwrap();
        let held = lock(&place, 2, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(take(&text, &place, 2).unwrap(), None);
        let again = std::thread::scope(|scope| {
            let waits = scope.spawn(|| look_together(&text, u64::MAX, &place, || None::<()>));
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(!waits.is_finished());
            drop(held);
            waits.join().unwrap().unwrap()
        });
        assert!(matches!(again, ScanResult::Pieces(pieces) if pieces == alone));
        // Few documents need only the first piece.
        let few = folder.0.join("few");
        let ScanResult::Pieces(pieces) = look_together(&text, 10, &few, || None::<()>).unwrap() else { unreachable!() };
        assert_eq!((pieces.len(), few.join("1").exists()), (1, false));
        let done = look_together(&text, 10, &few, || Some(5)).unwrap();
        assert!(matches!(done, ScanResult::Done(5)));
    }
}
