//! A sparse index of a file's documents: of every [`EVERY`] one offset, which serves any number of generators.
//!
//! It is made in one pass, at the speed of the disk, and kept next to a large file, or in the cache where the folder
//! cannot be written to. The file's size and the time of its last change tell whether it still holds.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::cache::{self, Stamp};
use super::lines::{Lines, Reading, flaw};
use crate::plan::PlanError;

/// One offset is kept for this many documents: 8 bytes for about 32 KiB of file.
pub const EVERY: u64 = 64;

/// A smaller file is read again in less time than anybody notices.
const KEPT_FROM: u64 = 64 << 20;

const MAGIC: &[u8; 24] = b"loadframe offsets, 64 /1";

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub struct Index {
    pub documents: u64,
    /// Lines that are not documents and were set aside.
    pub broken: u64,
    /// Where documents 0, `EVERY`, 2 `EVERY`, ... begin.
    pub offsets: Vec<u64>,
}

impl Index {
    /// The index of the file `plain`, which has the bytes `map`: the one that is kept, or a new one, which is then
    /// kept. `named` is how the user calls the file; after `most` documents a new one may end.
    pub fn open(
        plain: &Path,
        named: &Path,
        map: &[u8],
        stamp: Stamp,
        most: u64,
        reading: Reading,
    ) -> Result<Self, PlanError> {
        if stamp.bytes < KEPT_FROM {
            return Self::scan(named, map, most, reading);
        }
        let places = places(plain, stamp);
        if let Some(kept) = places.iter().find_map(|place| Self::load(place, stamp, reading)) {
            return Ok(kept);
        }
        let index = Self::scan(named, map, most, reading)?;
        if index.documents < most {
            // Where none can be kept it is made again the next time.
            let _kept = places.iter().any(|place| index.save(place, stamp, reading).is_ok());
        }
        Ok(index)
    }

    /// Reads the lines once.
    pub fn scan(named: &Path, map: &[u8], most: u64, reading: Reading) -> Result<Self, PlanError> {
        let wrong = |number: u64, what: &str, text: &[u8]| {
            let start = String::from_utf8_lossy(&text[..text.len().min(40)]);
            PlanError::new(format!("{}:{number}: {what}: {start:?}", named.display()))
        };
        let mut index = Self { documents: 0, broken: 0, offsets: Vec::new() };
        let mut aside = None;
        let mut lines = Lines::new(map, 0);
        while index.documents < most {
            let Some(mut line) = lines.next() else { break };
            if reading.actions {
                if !is_action(line.text) {
                    return Err(wrong(line.number, "a line with an action, index or create, was expected", line.text));
                }
                let missing = || wrong(line.number, "the action has no document", line.text);
                line = lines.next().ok_or_else(missing)?;
            }
            match flaw(line.text) {
                Some(flaw) if !reading.set_aside => {
                    let what = wrong(line.number, flaw, line.text);
                    return Err(PlanError::new(format!("{what}; correct it, or say broken: set_aside")));
                }
                Some(flaw) => {
                    let kept = keep_aside(&mut aside, named, map.len(), line.number, flaw, line.text);
                    kept.map_err(|error| wrong(line.number, &format!("it cannot be kept aside ({error})"), line.text))?;
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
            return Err(PlanError::new(format!("{}: the file has no documents", named.display())));
        }
        Ok(index)
    }

    /// The index that is kept at `place`, if it is whole and of this state of the file.
    pub fn load(place: &Path, stamp: Stamp, reading: Reading) -> Option<Self> {
        let mut bytes = Vec::new();
        File::open(place).ok()?.read_to_end(&mut bytes).ok()?;
        let words = bytes.strip_prefix(MAGIC)?;
        let words = words.chunks(8).map(|word| word.try_into().ok().map(u64::from_le_bytes));
        let mut words = words.collect::<Option<Vec<u64>>>()?.into_iter();
        let head = Self::head(stamp, reading);
        let same = head.iter().all(|word| words.next() == Some(*word));
        let (documents, broken) = (words.next()?, words.next()?);
        let offsets: Vec<u64> = words.collect();
        let whole = offsets.len() as u64 == documents.div_ceil(EVERY) && offsets.iter().all(|at| *at < stamp.bytes);
        (same && whole).then_some(Self { documents, broken, offsets })
    }

    /// Keeps the index; it appears complete or not.
    pub fn save(&self, place: &Path, stamp: Stamp, reading: Reading) -> io::Result<()> {
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/")))?;
        let partial = place.with_extension(format!("partial-{}", std::process::id()));
        let write = || {
            let mut file = BufWriter::new(File::create(&partial)?);
            file.write_all(MAGIC)?;
            for word in Self::head(stamp, reading).iter().chain(&[self.documents, self.broken]).chain(&self.offsets) {
                file.write_all(&word.to_le_bytes())?;
            }
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&partial, place)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })
    }

    fn head(stamp: Stamp, reading: Reading) -> [u64; 3] {
        [stamp.bytes, stamp.changed as u64, u64::from(reading.actions) | u64::from(reading.set_aside) << 1]
    }
}

/// Where an index may be kept: next to the file, or in the cache.
fn places(plain: &Path, stamp: Stamp) -> Vec<PathBuf> {
    let mut beside = plain.as_os_str().to_owned();
    beside.push(".offsets");
    let cached = cache::folder().map(|folder| folder.join(cache::name(plain, stamp, ".offsets")));
    [Some(PathBuf::from(beside)), cached].into_iter().flatten().collect()
}

fn is_action(text: &[u8]) -> bool {
    let key = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
    key.starts_with(b"\"index\"") || key.starts_with(b"\"create\"")
}

/// Where those lines of a file of `bytes` bytes are kept that are not documents.
pub fn aside(named: &Path, bytes: usize) -> Option<PathBuf> {
    let stamp = Stamp { bytes: bytes as u64, changed: 0 };
    cache::folder().map(|folder| folder.join(cache::name(named, stamp, ".broken")))
}

/// Writes a line that is not a document into a file of the cache, with its number and what is wrong with it.
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
    fn a_kept_index_is_what_was_made_and_holds_for_one_state_and_reading_of_the_file() {
        let folder = Folder::new("index");
        let text: String = (0..1000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
        let reading = Reading::default();
        let stamp = Stamp { bytes: text.len() as u64, changed: -5 };
        let index = Index::scan(Path::new("d.json"), text.as_bytes(), u64::MAX, reading).unwrap();
        assert_eq!((index.documents, index.offsets.len()), (1000, 16));
        let place = folder.0.join("deep/d.json.offsets");
        index.save(&place, stamp, reading).unwrap();
        assert_eq!(Index::load(&place, stamp, reading), Some(index));
        assert_eq!(Index::load(&place, Stamp { changed: -4, ..stamp }, reading), None);
        assert_eq!(Index::load(&place, Stamp { bytes: stamp.bytes + 1, ..stamp }, reading), None);
        assert_eq!(Index::load(&place, stamp, Reading { actions: true, ..reading }), None);
        let bytes = fs::read(&place).unwrap();
        for end in [0, 10, 40, bytes.len() - 8, bytes.len() - 1] {
            fs::write(&place, &bytes[..end]).unwrap();
            assert_eq!(Index::load(&place, stamp, reading), None, "cut at {end}");
        }
    }
}
