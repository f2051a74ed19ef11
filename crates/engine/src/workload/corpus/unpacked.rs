//! Compressed files and dumps, unpacked once into the cache as lines, which are mapped like other files.
//!
//! A stream of gzip, bzip2, Zstandard or XML can only be read from the beginning, but a corpus needs random
//! access. Memory use is bounded. Truncated files and checksum errors are refused.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::cache;
use super::cache::Stamp;
use super::mediawiki;
use super::mediawiki::NoDump;
use super::progress::Progress;
use crate::plan::PlanError;

const BUFFER: usize = 1 << 20;

/// Returns the path of the file itself if it is not packed, otherwise of its unpacked copy in the cache.
/// Writes the copy if it is missing. `revisions`: the file is a MediaWiki dump, and this many revisions are needed.
/// Refuses truncated and invalid files.
pub fn unpacked(path: &Path, revisions: Option<u64>) -> Result<PathBuf, PlanError> {
    match cache::folder() {
        Some(folder) => unpacked_in(path, &folder, revisions),
        None if Format::of(path).is_none() && revisions.is_none() => Ok(path.to_owned()),
        None => Err(PlanError::new(format!(
            "{}: unpacking it requires a cache folder; set LOADFRAME_CACHE",
            path.display()
        ))),
    }
}

/// Implements [`unpacked`]. `folder`: the folder of the unpacked copy. Blocks while another process unpacks the same
/// file. Fails for invalid files, and without disk space.
pub fn unpacked_in(path: &Path, folder: &Path, revisions: Option<u64>) -> Result<PathBuf, PlanError> {
    let format = Format::of(path);
    if format.is_none() && revisions.is_none() {
        return Ok(path.to_owned());
    }
    let wrong = |error: io::Error| {
        let no_dump = error.get_ref().is_some_and(|inner| inner.is::<NoDump>());
        let cause = match (error.kind(), format) {
            (io::ErrorKind::UnexpectedEof, _) => "the file is truncated".to_owned(),
            (io::ErrorKind::InvalidData, _) if no_dump => format!("the file is not a valid MediaWiki dump: {error}"),
            (io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other, Some(format)) => {
                format!("the file is not valid {}: {error}", format.name())
            }
            (io::ErrorKind::StorageFull, _) => format!("no disk space left to unpack it in {}", folder.display()),
            _ => error.to_string(),
        };
        PlanError::new(format!("{}: {cause}", path.display()))
    };
    let source = File::open(path).map_err(wrong)?;
    let stamp = Stamp::of(&source.metadata().map_err(wrong)?);
    if stamp.bytes == 0 {
        return Err(PlanError::new(format!("{}: the file is empty", path.display())));
    }
    let ending = match revisions {
        None => ".ndjson".to_owned(),
        Some(u64::MAX) => ".revisions.ndjson".to_owned(),
        Some(most) => format!(".{most}-revisions.ndjson"),
    };
    let target = folder.join(cache::name(path, stamp, &ending));
    let away = |error: io::Error| PlanError::new(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(away)?;
    // Other generators on this machine wait while one unpacks.
    let lock = File::create(target.with_extension("lock")).map_err(away)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| away(error.into()))?;
    if !target.exists() {
        let partial = target.with_extension("partial");
        let path = path.to_owned();
        let source = Watched { file: source, path, bytes: stamp.bytes, read: 0, progress: Progress::new() };
        let source = BufReader::with_capacity(BUFFER, source);
        let written = unpack(source, format, revisions, &partial).and_then(|()| fs::rename(&partial, &target));
        if let Err(error) = written {
            let _ = fs::remove_file(&partial);
            return Err(wrong(error));
        }
    }
    Ok(target)
}

#[derive(Clone, Copy)]
enum Format {
    Gzip,
    Bzip2,
    Zstandard,
}

impl Format {
    /// Returns the compression by a file name's extension; `None` for an uncompressed file.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some(Self::Gzip),
            "bz2" => Some(Self::Bzip2),
            "zst" => Some(Self::Zstandard),
            _ => None,
        }
    }

    /// Returns the compression's name for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstandard => "Zstandard",
        }
    }
}

/// Decompresses `source` into the new file `target`; of a MediaWiki dump, the first `revisions` as lines of JSON.
/// `format`: `None` if it is not compressed. Fails if `source` is truncated or invalid.
fn unpack(
    source: impl BufRead + 'static,
    format: Option<Format>,
    revisions: Option<u64>,
    target: &Path,
) -> io::Result<()> {
    let mut plain = BufReader::with_capacity(BUFFER, plain(source, format)?);
    let mut target = BufWriter::with_capacity(BUFFER, File::create(target)?);
    match revisions {
        None => io::copy(&mut plain, &mut target).map(drop)?,
        Some(most) => mediawiki::to_lines(plain, &mut target, most)?,
    }
    target.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Returns a reader of the decompressed bytes of a stream, which may consist of several compressed streams. `format`:
/// `None` returns the bytes as they are. Fails if a Zstandard stream does not begin with a frame; reading fails for
/// other invalid streams.
fn plain(source: impl BufRead + 'static, format: Option<Format>) -> io::Result<Box<dyn Read>> {
    Ok(match format {
        None => Box::new(source),
        Some(Format::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Some(Format::Bzip2) => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        Some(Format::Zstandard) => Box::new(Frames(Some(frame(source)?))),
    })
}

/// Returns whether the extension of `path` names a compression that [`stream`] decompresses.
pub fn is_packed(path: &Path) -> bool {
    Format::of(path).is_some()
}

/// Returns a reader of a file's decompressed bytes, according to the extension of `path`; other extensions return the
/// bytes as they are.
pub fn stream(source: impl BufRead + 'static, path: &Path) -> io::Result<Box<dyn Read>> {
    plain(source, Format::of(path))
}

/// Consecutive Zstandard frames; `None` after the last.
struct Frames<R: BufRead>(Option<StreamingDecoder<R, FrameDecoder>>);

/// Opens the next Zstandard frame of a stream; fails if it is not one.
fn frame<R: BufRead>(source: R) -> io::Result<StreamingDecoder<R, FrameDecoder>> {
    StreamingDecoder::new(source).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

impl<R: BufRead> Read for Frames<R> {
    /// Reads decompressed bytes, across the ends of frames; returns 0 at the end of the last.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if let Some(ended) = self.0.take() {
                let mut source = ended.into_inner();
                self.0 = if source.fill_buf()?.is_empty() { None } else { Some(frame(source)?) };
            }
        }
        Ok(0)
    }
}

/// A file that shows the reading progress on the terminal.
struct Watched {
    file: File,
    path: PathBuf,
    bytes: u64,
    read: u64,
    progress: Progress,
}

impl Read for Watched {
    /// Reads from the file and shows the progress on a terminal.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        let share = || self.read as f64 / self.bytes as f64 * 100.0;
        self.progress.tell(|| format!("unpacking {}: {:.0} %", self.path.display(), share()));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::folder::Folder;
    use super::*;

    /// Two streams each, one after the other, as parallel compressors write them.
    fn packed(texts: [&[u8]; 2]) -> [(&'static str, Vec<u8>); 3] {
        let gzip = texts.map(|text| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        });
        let bzip2 = texts.map(|text| {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        });
        let zstandard =
            texts.map(|text| ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest));
        [("d.json.gz", gzip.concat()), ("d.json.BZ2", bzip2.concat()), ("d.json.zst", zstandard.concat())]
    }

    #[test]
    fn each_format_comes_out_as_it_went_in_with_all_its_streams() {
        let folder = Folder::new("unpacked");
        let texts = [b"{\"n\": 1}\n".repeat(100_000), b"{\"n\": 2}\n".repeat(3)];
        for (name, bytes) in packed([&texts[0], &texts[1]]) {
            let path = folder.file(name, &bytes);
            let target = unpacked_in(&path, &folder.0.join("cache"), None).unwrap();
            assert_eq!(fs::read(&target).unwrap(), texts.concat(), "{name}");
            // An up-to-date copy is reused; a changed file is unpacked again.
            fs::write(&target, "as it was").unwrap();
            assert_eq!(unpacked_in(&path, &folder.0.join("cache"), None).unwrap(), target);
            assert_eq!(fs::read(&target).unwrap(), b"as it was");
        }
        let plain = folder.file("d.json", b"{}");
        assert_eq!(unpacked_in(&plain, &folder.0, None).unwrap(), plain);
    }

    #[test]
    fn truncated_or_damaged_files_are_refused_and_leave_nothing_behind() {
        let folder = Folder::new("spoilt");
        let cache = folder.0.join("cache");
        let text = (0..20_000).map(|n| format!("{{\"n\": {n}}}\n")).collect::<String>();
        for (name, bytes) in packed([text.as_bytes(), b"{}"]) {
            let cut = folder.file(name, &bytes[..bytes.len() / 2]);
            let error = unpacked_in(&cut, &cache, None).unwrap_err().message;
            assert!(error.starts_with(&format!("{}: the file ", cut.display())), "{error}");
            let foreign = folder.file(name, b"{\"n\": 1}\n{\"n\": 2}\n");
            let error = unpacked_in(&foreign, &cache, None).unwrap_err().message;
            assert!(error.contains("the file is not valid") || error.contains("truncated"), "{error}");
        }
        let left: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| path.extension().unwrap() == "lock"), "{left:?}");
        assert!(
            unpacked_in(&folder.file("empty.gz", b""), &cache, None)
                .unwrap_err()
                .message
                .ends_with("the file is empty")
        );
        assert!(unpacked_in(&folder.0.join("gone.gz"), &cache, None).is_err());
    }
}
