//! Fields that answers of operations on shards have in common.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::util::json::{Cursor, Unexpected};

use super::{Verdict, failure, reason};

/// The fields of an answer that are common to all operations on shards.
#[derive(Default)]
pub(super) struct Shards {
    pub(super) timed_out: bool,
    pub(super) failed: u64,
    /// Shards that the operation concerns.
    of: u64,
    /// Shards that succeeded; `None` if the answer does not say.
    successful: Option<u64>,
    /// Hits that the store counted.
    pub(super) total: Option<u64>,
    /// Whether the store stopped counting.
    cut_off: bool,
    /// Hits returned.
    hits: Option<u64>,
}

impl Shards {
    /// Reads the fields of an answer; a missing field counts as no failure. Fails if the answer is not a JSON object or
    /// a field has another type.
    pub(super) fn read(body: &[u8]) -> Result<Self, Unexpected> {
        let mut shards = Self::default();
        Cursor::new(body).object(|name, cursor| {
            match name {
                b"timed_out" => shards.timed_out = cursor.boolean()?,
                b"_shards" => cursor.object(|name, cursor| {
                    match name {
                        b"failed" => shards.failed = cursor.whole()?,
                        b"total" => shards.of = cursor.whole()?,
                        b"successful" => shards.successful = Some(cursor.whole()?),
                        _ => cursor.skip()?,
                    }
                    Ok(true)
                })?,
                b"hits" => shards.read_hits(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(true)
        })?;
        Ok(shards)
    }

    /// Reads the value of `hits`: the number of hits returned and counted. Fails if it has another form.
    fn read_hits(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unexpected> {
        cursor.object(|name, cursor| {
            match name {
                b"hits" => self.hits = Some(cursor.objects_in_array()?),
                b"total" if cursor.at_object()? => cursor.object(|name, cursor| {
                    match name {
                        b"value" => self.total = Some(cursor.whole()?),
                        b"relation" => self.cut_off = *cursor.string()? == *b"gte",
                        _ => cursor.skip()?,
                    }
                    Ok(true)
                })?,
                // Elasticsearch 6 reports -1 without track_total_hits.
                b"total" => self.total = std::str::from_utf8(cursor.value()?).ok().and_then(|total| total.parse().ok()),
                _ => cursor.skip()?,
            }
            Ok(true)
        })
    }

    /// Returns a failure if the store ran out of time or a shard failed. `body` is the answer, for the reason.
    pub(super) fn outcome(&self, body: &[u8]) -> Result<(), Failure> {
        if self.timed_out {
            failure(ErrorClass::Timeout, "the store ran out of time: \"timed_out\" is true".to_owned())
        } else if self.failed > 0 {
            failure(ErrorClass::Server, format!("{} shards failed: {}", self.failed, reason(body)))
        } else {
            Ok(())
        }
    }

    /// Judges a search: like `outcome`, but also fails if fewer shards succeeded than exist.
    /// The store does not count a shard without an available copy among the failed ones. Other operations count all
    /// copies, also unassigned ones, so `outcome` cannot check this.
    pub(super) fn searched(&self, body: &[u8]) -> Result<(), Failure> {
        self.outcome(body)?;
        match self.successful {
            Some(successful) if successful < self.of => {
                let message = format!("{} of {} shards have no available copy", self.of - successful, self.of);
                failure(ErrorClass::Server, message)
            }
            _ => Ok(()),
        }
    }

    /// Judges the answer to a search: documents are the returned hits, and hits the number that the store counted.
    /// Without such a number, hits are the returned ones. Fails for an answer without a list of hits.
    pub(super) fn search(&self, body: &[u8]) -> Result<Verdict, Unexpected> {
        let documents = self.hits.ok_or(Unexpected)?;
        let verdict = Verdict::new(documents, self.searched(body));
        Ok(Verdict { hits: self.total.unwrap_or(documents), cut_off: self.cut_off, ..verdict })
    }
}
