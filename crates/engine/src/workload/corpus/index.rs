//! Sparse index of a file's documents: one offset per [`EVERY`] documents, for any number of generators.
//!
//! One pass at disk speed builds it, divided among all processes of a machine that open the file at the same
//! time. It is stored next to a large file, or in the cache if the folder is not writable. The file's size
//! and modification time show whether it is still valid.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::cache;
use super::cache::Stamp;
use super::lines::{LineOptions, Lines, flaw};
use super::pieces;
pub use super::pieces::EVERY;
use super::pieces::{Piece, ScanResult};
use crate::plan::PlanError;

/// Minimum size of a file whose index is stored; smaller files are scanned quickly.
const KEPT_FROM: u64 = 64 << 20;

const MAGIC: &[u8; 24] = b"loadframe offsets, 64 /2";

/// Index of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub documents: u64,
    /// Number of lines that are not documents and were set aside.
    pub broken: u64,
    /// For each stretch of the file, the number of its first document, and the index of its first offset.
    stretches: Vec<(u64, usize)>,
    /// Offsets of documents 0, `EVERY`, 2 `EVERY`, ... of each stretch.
    offsets: Vec<u64>,
}

impl Index {
    /// Opens the index of the file `plain` with the bytes `map`: the stored one, or a new one, which is then stored
    /// if it is complete and the file large. `named`: the user's name for the file. A new index may end after `most`
    /// documents. Refuses a line that is not a document, unless such lines are set aside.
    pub fn open(
        plain: &Path,
        named: &Path,
        map: &[u8],
        stamp: Stamp,
        most: u64,
        reading: LineOptions,
    ) -> Result<Self, PlanError> {
        if stamp.bytes < KEPT_FROM {
            return Self::scan(named, map, most, reading);
        }
        let places = places(plain, stamp);
        if let Some(kept) = places.iter().find_map(|place| Self::load(place, stamp, reading)) {
            return Ok(kept);
        }
        // Processes can share the work only in a writable folder with locks.
        let together = places.iter().find_map(|place| Self::make(place, named, map, stamp, most, reading).ok());
        together.unwrap_or_else(|| Self::scan(named, map, most, reading))
    }

    /// Builds the index of the first `most` documents together with other processes that open the file.
    /// Stores it at the path `place` if it is complete. Returns the stored index if another process has stored it by
    /// then. The outer error concerns the place, the inner one the documents.
    fn make(
        place: &Path,
        named: &Path,
        map: &[u8],
        stamp: Stamp,
        most: u64,
        reading: LineOptions,
    ) -> io::Result<Result<Self, PlanError>> {
        let folder = pieces::folder(place, stamp.bytes, stamp.changed);
        if reading.actions || reading.set_aside {
            // Action lines and the numbers of lines to set aside require a scan from the beginning.
            fs::create_dir_all(&folder)?;
            let alone = File::create(folder.join("lock"))?;
            flock(&alone, FlockOperation::LockExclusive)?;
            if let Some(kept) = Self::load(place, stamp, reading) {
                return Ok(Ok(kept));
            }
            let index = Self::scan(named, map, most, reading);
            if let Ok(index) = &index
                && index.documents < most
            {
                index.save(place, stamp, reading)?;
            }
            // Waiting processes have the file open; later ones read the stored index.
            let _ = fs::remove_dir_all(&folder);
            return Ok(index);
        }
        let known = pieces::look_together(map, most, &folder, || Self::load(place, stamp, reading))?;
        let pieces = match known {
            ScanResult::Done(kept) => return Ok(Ok(kept)),
            ScanResult::Pieces(pieces) => pieces,
        };
        let whole = pieces.len() == pieces::count(map.len()) && pieces.iter().all(|piece| piece.flaw.is_none());
        let index = Self::of(pieces).complete(named, map, most);
        if let (Ok(index), true) = (&index, whole) {
            index.save(place, stamp, reading)?;
            // Leave the pieces of an incomplete index for the next process.
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(index)
    }

    /// Builds the index by a scan of all lines, up to `most` documents. Writes lines to set aside to a file in the
    /// cache. Refuses other lines that are not documents, and a file without documents.
    pub fn scan(named: &Path, map: &[u8], most: u64, reading: LineOptions) -> Result<Self, PlanError> {
        let mut index = Self { stretches: vec![(0, 0)], ..Self::default() };
        let mut aside = None;
        let mut lines = Lines::new(map, 0);
        while index.documents < most {
            let Some(mut line) = lines.next() else { break };
            if reading.actions {
                if !is_action(line.text) {
                    let what = "a line with an action, index or create, was expected";
                    return Err(wrong(named, line.number, what, line.text));
                }
                let missing = || wrong(named, line.number, "the action lacks a document", line.text);
                line = lines.next().ok_or_else(missing)?;
            }
            match flaw(line.text) {
                Some(flaw) if !reading.set_aside => return Err(refused(named, line.number, flaw, line.text)),
                Some(flaw) => {
                    let kept = keep_aside(&mut aside, named, map.len(), line.number, flaw, line.text);
                    kept.map_err(|error| {
                        wrong(named, line.number, &format!("it cannot be set aside ({error})"), line.text)
                    })?;
                    index.broken += 1;
                }
                None => {
                    if index.documents.is_multiple_of(EVERY) {
                        index.offsets.push(line.offset as u64);
                    }
                    index.documents += 1;
                }
            }
        }
        if index.documents == 0 && most > 0 {
            return Err(empty(named));
        }
        Ok(index)
    }

    /// Joins consecutive pieces into one index, up to the first line that is not a document.
    fn of(pieces: Vec<Piece>) -> JoinedPieces {
        let mut joined = JoinedPieces { index: Self::default(), flaw: None };
        for piece in pieces {
            let index = &mut joined.index;
            index.stretches.push((index.documents, index.offsets.len()));
            index.documents += piece.documents;
            index.offsets.extend(piece.offsets);
            joined.flaw = piece.flaw;
        }
        joined
    }

    /// Returns the offset of an indexed document at or before document `number`, and the number of documents from
    /// that one to document `number`. `None` beyond the end.
    pub fn find(&self, number: u64) -> Option<(u64, u64)> {
        let after = self.stretches.partition_point(|(first, _)| *first <= number);
        let (first, place) = *self.stretches.get(after.checked_sub(1)?)?;
        let end = self.stretches.get(after).map_or(self.offsets.len(), |(_, place)| *place);
        let within = number - first;
        let offset = self.offsets[place..end].get((within / EVERY) as usize)?;
        Some((*offset, within % EVERY))
    }

    /// Reads the stored index at `place`; `None` unless it is complete and belongs to this state of the file and these
    /// options.
    pub fn load(place: &Path, stamp: Stamp, reading: LineOptions) -> Option<Self> {
        let mut bytes = Vec::new();
        File::open(place).ok()?.read_to_end(&mut bytes).ok()?;
        let words = bytes.strip_prefix(MAGIC)?;
        let words = words.chunks(8).map(|word| word.try_into().ok().map(u64::from_le_bytes));
        let mut words = words.collect::<Option<Vec<u64>>>()?.into_iter();
        let head = Self::head(stamp, reading);
        let same = head.iter().all(|word| words.next() == Some(*word));
        let (documents, broken, count) = (words.next()?, words.next()?, words.next()?);
        let mut stretches = Vec::new();
        let (mut first, mut place) = (0u64, 0u64);
        for _ in 0..count {
            stretches.push((first, usize::try_from(place).ok()?));
            let documents = words.next()?;
            first = first.checked_add(documents)?;
            place = place.checked_add(documents.div_ceil(EVERY))?;
        }
        let offsets: Vec<u64> = words.collect();
        let whole = first == documents && offsets.len() as u64 == place && offsets.iter().all(|at| *at < stamp.bytes);
        (same && whole).then_some(Self { documents, broken, stretches, offsets })
    }

    /// Stores the index in the file `place`, whose folder it creates; the file appears whole or not at all. Fails if
    /// it cannot be written.
    pub fn save(&self, place: &Path, stamp: Stamp, reading: LineOptions) -> io::Result<()> {
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/")))?;
        let partial = place.with_extension(format!("partial-{}", std::process::id()));
        let ends = self.stretches.iter().skip(1).map(|(first, _)| *first).chain([self.documents]);
        let lengths = self.stretches.iter().zip(ends).map(|((first, _), end)| end - first);
        let counts = [self.documents, self.broken, self.stretches.len() as u64];
        let words =
            Self::head(stamp, reading).into_iter().chain(counts).chain(lengths).chain(self.offsets.iter().copied());
        let write = || {
            let mut file = BufWriter::new(File::create(&partial)?);
            file.write_all(MAGIC)?;
            for word in words {
                file.write_all(&word.to_le_bytes())?;
            }
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&partial, place)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })
    }

    /// Returns the numbers at the beginning of a stored index, which show whether it matches the file.
    fn head(stamp: Stamp, reading: LineOptions) -> [u64; 3] {
        [stamp.bytes, stamp.changed as u64, u64::from(reading.actions) | u64::from(reading.set_aside) << 1]
    }
}

/// Consecutive pieces, joined.
struct JoinedPieces {
    index: Index,
    flaw: Option<u64>,
}

impl JoinedPieces {
    /// Returns the index of the first `most` documents. Fails for a file without documents, and for a line among them
    /// that is not a document.
    fn complete(self, named: &Path, map: &[u8], most: u64) -> Result<Index, PlanError> {
        if let Some(at) = self.flaw
            && self.index.documents < most
        {
            let line = Lines::new(map, at as usize).next();
            let (text, flaw) = line.map(|line| (line.text, flaw(line.text).unwrap_or_default())).unwrap_or_default();
            let number = 1 + memchr::memchr_iter(b'\n', &map[..at as usize]).count() as u64;
            return Err(refused(named, number, flaw, text));
        }
        if self.index.documents == 0 && most > 0 {
            return Err(empty(named));
        }
        Ok(self.index)
    }
}

/// Returns the error `what` for line `number` of a file, with the beginning of the line's text. `named`: the user's
/// name for the file.
fn wrong(named: &Path, number: u64, what: &str, text: &[u8]) -> PlanError {
    let start = String::from_utf8_lossy(&text[..text.len().min(40)]);
    PlanError::new(format!("{}:{number}: {what}: {start:?}", named.display()))
}

/// Returns the error `flaw` for line `number`, which is not a document, with the remedy. `named`: the user's name for
/// the file.
fn refused(named: &Path, number: u64, flaw: &str, text: &[u8]) -> PlanError {
    PlanError::new(format!("{}; correct it, or say broken: set_aside", wrong(named, number, flaw, text)))
}

/// Returns the error for a file without documents. `named`: the user's name for the file.
fn empty(named: &Path) -> PlanError {
    PlanError::new(format!("{}: the file contains no documents", named.display()))
}

/// Returns the candidate paths of an index: next to the file, then in the cache.
fn places(plain: &Path, stamp: Stamp) -> Vec<PathBuf> {
    let mut sibling = plain.as_os_str().to_owned();
    sibling.push(".offsets");
    let cached = cache::folder().map(|folder| folder.join(cache::name(plain, stamp, ".offsets")));
    [Some(PathBuf::from(sibling)), cached].into_iter().flatten().collect()
}

/// Returns whether a line is an action `index` or `create` of a bulk request.
fn is_action(text: &[u8]) -> bool {
    let key = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
    key.starts_with(b"\"index\"") || key.starts_with(b"\"create\"")
}

/// Returns the cache file for lines set aside, of a file of `bytes` bytes; `None` without a cache folder.
pub fn aside(named: &Path, bytes: usize) -> Option<PathBuf> {
    let stamp = Stamp { bytes: bytes as u64, changed: 0 };
    cache::folder().map(|folder| folder.join(cache::name(named, stamp, ".broken")))
}

/// Appends a line that is not a document to its cache file, with the line's number and the problem `flaw`.
/// The first call creates the file. `aside`: the open cache file. `bytes`: size of the file `named`. Fails without a
/// cache folder.
fn keep_aside(
    aside: &mut Option<BufWriter<File>>,
    named: &Path,
    bytes: usize,
    number: u64,
    flaw: &str,
    text: &[u8],
) -> io::Result<()> {
    let file = match aside {
        Some(file) => file,
        None => {
            let place = self::aside(named, bytes).ok_or_else(|| io::Error::other("set LOADFRAME_CACHE"))?;
            fs::create_dir_all(place.parent().unwrap_or(Path::new("/")))?;
            aside.insert(BufWriter::new(File::create(place)?))
        }
    };
    write!(file, "{number}: {flaw}: ")?;
    file.write_all(text)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;

    #[test]
    fn an_index_of_several_pieces_finds_every_document() {
        let folder = Folder::new("index-pieces");
        let line = |n: usize| format!("{{\"n\": {n}, \"text\": \"{}\"}}\n", "x".repeat(n % 7000));
        let text: String = (0..50_000).map(line).collect();
        let stamp = Stamp { bytes: text.len() as u64, changed: 1 };
        let named = Path::new("d.json");
        let make = |most| {
            Index::make(&folder.0.join("d"), named, text.as_bytes(), stamp, most, LineOptions::default())
                .unwrap()
                .unwrap()
        };
        let few = make(100);
        assert!((100..50_000).contains(&few.documents), "{}", few.documents);
        let index = make(u64::MAX);
        assert_eq!((index.documents, index.stretches.len()), (50_000, 3));
        for number in (0..50_000).step_by(17).chain([0, 1, 63, 64, 49_999]) {
            let (offset, further) = index.find(number).unwrap();
            assert!(further < EVERY);
            let line = Lines::new(text.as_bytes(), offset as usize).nth(further as usize).unwrap();
            assert!(line.text.starts_with(format!("{{\"n\": {number},").as_bytes()));
        }
        assert_eq!(index.find(u64::MAX), None);
        assert_eq!(Index::load(&folder.0.join("d"), stamp, LineOptions::default()), Some(index));
        let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["d"], "the pieces are cleared away");
    }

    #[test]
    fn a_line_that_is_not_a_document_is_named_wherever_it_is() {
        let folder = Folder::new("index-flaw");
        let line = format!("{{\"n\": \"{}\"}}\n", "x".repeat(9989));
        let mut text = line.repeat(14_000).into_bytes();
        let at = 13_000 * line.len();
        text[at] = b'[';
        let stamp = Stamp { bytes: text.len() as u64, changed: 1 };
        let make = |most| {
            let place = folder.0.join("d");
            Index::make(&place, Path::new("d.json"), &text, stamp, most, LineOptions::default()).unwrap()
        };
        let error = make(u64::MAX).unwrap_err().message;
        assert_eq!(
            error,
            Index::scan(Path::new("d.json"), &text, u64::MAX, LineOptions::default()).unwrap_err().message
        );
        assert!(error.starts_with("d.json:13001: the line is not a JSON object: \"[\\\"n"), "{error}");
        assert!(make(13_000).is_ok());
        assert!(make(13_001).is_err());
    }

    #[test]
    fn a_stored_index_is_valid_for_one_state_and_reading_of_the_file() {
        let folder = Folder::new("index");
        let text: String = (0..1000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
        let reading = LineOptions::default();
        let stamp = Stamp { bytes: text.len() as u64, changed: -5 };
        let index = Index::scan(Path::new("d.json"), text.as_bytes(), u64::MAX, reading).unwrap();
        assert_eq!((index.documents, index.offsets.len()), (1000, 16));
        let place = folder.0.join("deep/d.json.offsets");
        index.save(&place, stamp, reading).unwrap();
        assert_eq!(Index::load(&place, stamp, reading), Some(index));
        assert_eq!(Index::load(&place, Stamp { changed: -4, ..stamp }, reading), None);
        assert_eq!(Index::load(&place, Stamp { bytes: stamp.bytes + 1, ..stamp }, reading), None);
        assert_eq!(Index::load(&place, stamp, LineOptions { actions: true, ..reading }), None);
        let bytes = fs::read(&place).unwrap();
        for end in [0, 10, 40, bytes.len() - 8, bytes.len() - 1] {
            fs::write(&place, &bytes[..end]).unwrap();
            assert_eq!(Index::load(&place, stamp, reading), None, "cut at {end}");
        }
    }
}
