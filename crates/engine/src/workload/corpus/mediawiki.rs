//! MediaWiki dumps: XML with pages and their revisions. Each revision becomes a document on a separate line,
//! with the fields of the generator `wikipedia_revision` and the page's title.
//!
//! The dump is read once, as a stream, with at most one revision in memory.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read, Write};

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::{Map, Value};

/// Maximum size of a revision; Wikipedia's limit is 2 MiB.
const LARGEST: u64 = 64 << 20;

/// Description of an error in the XML or its contents.
#[derive(Debug)]
pub struct NoDump(String);

impl fmt::Display for NoDump {
    /// Writes the description.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NoDump {}

/// Returns the error for a dump with invalid contents, described by `what`.
fn wrong(what: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, NoDump(what.to_string()))
}

/// Writes the first `most` revisions of a dump to `lines`, each as a line of JSON; all if there are fewer. Refuses a
/// truncated or invalid dump, one without revisions, and a revision above 64 MiB.
pub fn to_lines(dump: impl BufRead, lines: &mut impl Write, most: u64) -> io::Result<()> {
    let mut reader = Reader::from_reader(Bounded { dump, taken: 0 });
    let mut buffer = Vec::new();
    // Names of the open elements, outermost first.
    let mut path: Vec<Box<[u8]>> = Vec::new();
    let mut page = Page::default();
    let mut revision = None;
    let mut written = 0;
    while written < most {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer);
        let place = reader.buffer_position();
        match event.map_err(|error| broken(error, place))? {
            Event::Start(element) => {
                let name = element.local_name();
                match name.as_ref() {
                    b"mediawiki" => {}
                    other if path.is_empty() => {
                        return Err(wrong(format_args!("it begins with <{}>", String::from_utf8_lossy(other))));
                    }
                    b"page" => page = Page::default(),
                    b"revision" => revision = Some(Revision::default()),
                    _ => {}
                }
                path.push(name.as_ref().into());
            }
            Event::Text(text) => {
                let text = match text.unescape() {
                    Ok(text) => text,
                    // An incomplete escape at the end means that the dump is truncated.
                    Err(_) if reader.get_mut().fill_buf()?.is_empty() => {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    Err(error) => return Err(broken(error, place)),
                };
                keep(&path, &text, &mut page, revision.as_mut());
            }
            Event::CData(text) => {
                let text = text.decode().map_err(|error| broken(error.into(), place))?;
                keep(&path, &text, &mut page, revision.as_mut());
            }
            Event::End(_) => {
                if path.pop().as_deref() == Some(b"revision")
                    && let Some(ended) = revision.take()
                {
                    serde_json::to_writer(&mut *lines, &ended.document(&page, place)?)?;
                    lines.write_all(b"\n")?;
                    written += 1;
                }
            }
            Event::Eof if path.is_empty() && written > 0 => break,
            Event::Eof if path.is_empty() => return Err(wrong("it contains no revisions")),
            Event::Eof => return Err(io::ErrorKind::UnexpectedEof.into()),
            // Empty elements, comments and declarations carry no data.
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        if revision.is_none() {
            reader.get_mut().taken = 0;
        }
    }
    Ok(())
}

/// Converts an error of the XML or of its file; an unfinished element means that the file is truncated. `place`: byte
/// offset in the dump.
fn broken(error: quick_xml::Error, place: u64) -> io::Error {
    match error {
        quick_xml::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<NoDump>()) => wrong(error),
        quick_xml::Error::Io(error) => io::Error::new(error.kind(), error.to_string()),
        // An open element or an incomplete tag at the end.
        quick_xml::Error::Syntax(_) => io::ErrorKind::UnexpectedEof.into(),
        other => wrong(format_args!("at byte {place}: {other}")),
    }
}

#[derive(Default)]
struct Page {
    id: String,
    title: String,
}

#[derive(Default)]
struct Revision {
    id: String,
    timestamp: String,
    model: String,
    format: String,
    sha1: String,
    comment: String,
    text: String,
    contributor_id: String,
    username: String,
}

/// Appends text to the field of the element that contains it, the last of the open elements in `path`. Ignores other
/// elements. An element may have several texts.
fn keep(path: &[Box<[u8]>], text: &str, page: &mut Page, revision: Option<&mut Revision>) {
    let names: Vec<&[u8]> = path.iter().map(AsRef::as_ref).collect();
    let field = match (names.as_slice(), revision) {
        ([.., b"page", b"id"], None) => &mut page.id,
        ([.., b"page", b"title"], None) => &mut page.title,
        ([.., b"revision", b"contributor", b"id"], Some(revision)) => &mut revision.contributor_id,
        // Contributors without an account are identified by their address.
        ([.., b"revision", b"contributor", b"username" | b"ip"], Some(revision)) => &mut revision.username,
        ([.., b"revision", name], Some(revision)) => match *name {
            b"id" => &mut revision.id,
            b"timestamp" => &mut revision.timestamp,
            b"model" => &mut revision.model,
            b"format" => &mut revision.format,
            b"sha1" => &mut revision.sha1,
            b"comment" => &mut revision.comment,
            b"text" => &mut revision.text,
            _ => return,
        },
        _ => return,
    };
    field.push_str(text);
}

impl Revision {
    /// Returns the document. It lacks fields missing in the dump, such as the name of a hidden contributor. Refuses an
    /// invalid id. `place`: byte offset for the error.
    fn document(self, page: &Page, place: u64) -> io::Result<Value> {
        let number = |what: &str, digits: &str| match digits.parse::<u64>() {
            Ok(number) => Ok(Value::from(number)),
            Err(_) => Err(wrong(format_args!("at byte {place}: the id of a {what} is {digits:?}"))),
        };
        let mut contributor = Map::new();
        if !self.contributor_id.is_empty() {
            contributor.insert("id".into(), number("contributor", &self.contributor_id)?);
        }
        if !self.username.is_empty() {
            contributor.insert("username".into(), self.username.into());
        }
        let mut document = Map::new();
        document.insert("id".into(), number("revision", &self.id)?);
        document.insert("page".into(), number("page", &page.id)?);
        document.insert("contributor".into(), contributor.into());
        for (name, text) in [
            ("title", page.title.clone()),
            ("timestamp", self.timestamp),
            ("comment", self.comment),
            ("model", self.model),
            ("format", self.format),
            ("sha1", self.sha1),
            ("text", self.text),
        ] {
            if !text.is_empty() {
                document.insert(name.into(), text.into());
            }
        }
        Ok(document.into())
    }
}

/// Stops reading when one revision would take too much memory.
struct Bounded<R> {
    dump: R,
    taken: u64,
}

impl<R: BufRead> Read for Bounded<R> {
    /// Reads bytes and adds them to the count; fails if more than 64 MiB were read since the count was reset.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    /// Returns the buffered bytes; fails if more than 64 MiB were read since the count was reset.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken > LARGEST {
            return Err(wrong(format_args!("something in it is larger than {} MiB", LARGEST >> 20)));
        }
        self.dump.fill_buf()
    }

    /// Consumes buffered bytes and adds them to the count.
    fn consume(&mut self, count: usize) {
        self.taken += count as u64;
        self.dump.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::json;

    use super::*;

    const DUMP: &str = r#"<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo><sitename>Load</sitename><namespaces><namespace key="0" case="first-letter"/></namespaces></siteinfo>
  <page>
    <title>Frames &amp; loads</title><ns>0</ns><id>7</id>
    <revision>
      <id>71</id><timestamp>2001-01-15T13:15:00Z</timestamp>
      <contributor><username>Ann</username><id>3</id></contributor>
      <minor/><comment>first &lt;try&gt;</comment><model>wikitext</model><format>text/x-wiki</format>
      <text bytes="24" xml:space="preserve">A ''frame''
under "load" &#233; &lt;ref/&gt;</text><sha1>abc</sha1>
    </revision>
    <revision>
      <id>72</id><parentid>71</parentid><timestamp>2001-01-16T00:00:00Z</timestamp>
      <contributor><ip>192.0.2.1</ip></contributor><comment deleted="deleted"/>
      <text><![CDATA[<b>]]>x<!-- not this -->y</text>
    </revision>
  </page>
  <page><title>Two</title><ns>0</ns><id>8</id>
    <revision><id>81</id><contributor deleted="deleted"/><text/></revision></page>
</mediawiki>
"#;

    /// Returns the first `most` revisions of a dump.
    fn lines(dump: &str, most: u64) -> io::Result<Vec<Value>> {
        let mut out = Vec::new();
        // Use a small buffer, so that reads end at any position.
        to_lines(BufReader::with_capacity(16, dump.as_bytes()), &mut out, most)?;
        Ok(out.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    #[test]
    fn a_revision_becomes_a_document_with_its_pages_id_and_title() {
        let documents = lines(DUMP, u64::MAX).unwrap();
        assert_eq!(documents.len(), 3);
        assert_eq!(
            documents[0],
            json!({"id": 71, "page": 7, "contributor": {"id": 3, "username": "Ann"}, "title": "Frames & loads",
                "timestamp": "2001-01-15T13:15:00Z", "comment": "first <try>", "model": "wikitext",
                "format": "text/x-wiki", "sha1": "abc", "text": "A ''frame''\nunder \"load\" é <ref/>"})
        );
        assert_eq!(documents[1]["contributor"], json!({"username": "192.0.2.1"}));
        assert_eq!((&documents[1]["text"], documents[1].get("comment")), (&json!("<b>xy"), None));
        assert_eq!(documents[2], json!({"id": 81, "page": 8, "contributor": {}, "title": "Two"}));
    }

    #[test]
    fn no_more_is_read_than_is_asked_for() {
        let cut = DUMP.find("<page><title>Two").unwrap();
        assert_eq!(lines(&DUMP[..cut], 2).unwrap().len(), 2);
        assert_eq!(lines(DUMP, 1).unwrap(), lines(DUMP, 3).unwrap()[..1]);
    }

    #[test]
    fn invalid_dumps_are_refused_with_the_reason() {
        let error = |dump: &str| lines(dump, u64::MAX).unwrap_err().to_string();
        assert_eq!(error("<html><p>no</p></html>"), "it begins with <html>");
        assert_eq!(error("<mediawiki></mediawiki>"), "it contains no revisions");
        assert_eq!(error("{\"n\": 1}\n"), "it contains no revisions");
        assert!(error(&DUMP.replace("<id>72</id>", "<id>x</id>")).ends_with("the id of a revision is \"x\""));
        assert!(error(&DUMP.replace("</comment><model>", "</remark><model>")).contains("at byte"));
        assert!(error(&DUMP.replace("first &lt;", "first &nothing;")).contains("nothing"));
    }

    #[test]
    fn a_dump_that_was_cut_short_is_known_wherever_it_was() {
        for end in 1..DUMP.trim_end().len() {
            let error = lines(&DUMP[..end], u64::MAX).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {end}: {error}");
        }
    }

    #[test]
    fn one_revision_may_not_fill_the_memory() {
        let head = "<mediawiki><page><id>1</id><revision><id>2</id><text>";
        let endless = head.as_bytes().chain(io::repeat(b'x'));
        let error = to_lines(BufReader::new(endless), &mut io::sink(), 1).unwrap_err();
        assert_eq!(error.to_string(), "something in it is larger than 64 MiB");
    }
}
