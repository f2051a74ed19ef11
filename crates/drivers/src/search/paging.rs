//! Paging through results that exceed one answer: scrolls, `search_after`, and composite aggregations. Each page starts
//! where the previous one ended.
//!
//! A failed page ends the scan. The driver still closes the scroll or point in time.

use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::workload::variables::Values;

use super::Search;
use super::request::SearchStep;
use crate::assertion::Assertion;
use crate::exchanges::Exchanges;
use crate::http1::Connection;
use crate::http1::request::Request;
use crate::net::deadline::Limit;
use loadframe_engine::util::json::{Cursor, Unexpected};
use loadframe_engine::workload::json_pointer::Pointer;

/// The parts of a scan; unused ones at the end are omitted.
pub const PARTS: [&str; 3] = ["page", "close", "open"];
/// Index of the page part.
pub const PAGE: usize = 0;
/// Index of the close part.
const CLOSE: usize = 1;
/// Index of the open part.
const OPEN: usize = 2;

/// Time limit for closing after a failure.
const CLOSING: Duration = Duration::from_secs(5);

/// The pages of an operation. The operation's own step reads the first page.
#[derive(Debug)]
pub struct Paging {
    /// Opens the point in time for the pages, and locates its id in the answer.
    pub open: Option<(SearchStep, Pointer)>,
    /// Reads each page after the first, if its request differs from the first one's.
    pub next: Option<SearchStep>,
    /// Closes the scroll or point in time.
    pub close: Option<SearchStep>,
    /// How the scan continues after a page.
    pub continuation: Continuation,
    /// Largest number of pages.
    pub pages: Option<u64>,
}

/// How the scan continues after a page.
#[derive(Debug)]
pub enum Continuation {
    /// By the scroll id.
    Scroll {
        /// Hits per page; a shorter page is the last.
        size: u64,
    },
    /// By the sort values of the last hit.
    SearchAfter {
        /// Hits per page; a shorter page is the last.
        size: u64,
        /// JSON before and after the id of the point in time.
        view: Option<(String, &'static str)>,
    },
    /// By the key of the last bucket; a page without such a key is the last.
    Composite {
        /// Location of the key in the answer.
        after: Pointer,
    },
}

/// Position of a scan, in JSON as the store wrote it.
#[derive(Default)]
struct PagePosition {
    /// Id of the scroll or the point in time.
    id: Vec<u8>,
    /// Sort values or bucket key of the last entry.
    after: Vec<u8>,
}

impl Paging {
    /// Returns the names of the recorded parts.
    pub fn parts(&self) -> &'static [&'static str] {
        match (&self.open, &self.close) {
            (Some(_), _) => &PARTS,
            (None, Some(_)) => &PARTS[..=CLOSE],
            (None, None) => &PARTS[..=PAGE],
        }
    }

    /// Reads all pages: `first` reads the first one. Closes the scan, also after a failure. The timeout applies to each
    /// exchange. Assertions on hits apply to all pages together, assertions on fields to the first page. Calls `seen`
    /// with each request and its reply.
    pub async fn read(
        &self,
        search: &Search,
        connection: &mut Connection,
        (first, assertion): (&SearchStep, Option<&Assertion>),
        timeout: Duration,
        values: &Values<'_>,
        seen: &mut impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let (mut tally, mut place) = (Exchanges::default(), PagePosition::default());
        connection.carry().1.clear();
        let mut good = true;
        if let Some((open, id)) = &self.open {
            let mut reply = search.step(connection, open, None, Limit::starting_now(timeout), values).await;
            if reply.outcome.is_ok() {
                match id.find(connection.answer().body()) {
                    Ok(Some(id)) => place.id.extend_from_slice(id),
                    _ => reply.outcome = Err(unexpected("the answer has no id of a point in time")),
                }
            }
            seen(connection, &open.request, &reply);
            good = tally.add(OPEN, reply);
        }
        let mut more = good;
        let mut hits = 0;
        while more && self.pages.is_none_or(|most| tally.count(PAGE) < most) {
            let page = match &self.next {
                Some(next) if tally.count(PAGE) > 0 => next,
                _ => first,
            };
            self.carry(&place, connection.carry().1);
            let mut reply = search.step(connection, page, None, Limit::starting_now(timeout), values).await;
            more = false;
            if reply.outcome.is_ok() {
                let body = connection.answer().body();
                if let (Some(assertion), 0) = (assertion, tally.count(PAGE)) {
                    reply.outcome = first.judge.fields(assertion, values, body);
                }
                match self.turn(body, reply.documents, &mut place) {
                    Ok(on) => more = on && reply.outcome.is_ok(),
                    Err(Unexpected) => {
                        reply.outcome = Err(unexpected("the page does not say where the next one begins"));
                    }
                }
            }
            if reply.outcome.is_err() {
                reply.documents = 0;
            }
            hits += reply.documents;
            seen(connection, &page.request, &reply);
            good = tally.add(PAGE, reply);
        }
        if let (Some(close), false) = (&self.close, place.id.is_empty()) {
            let carried = connection.carry().1;
            carried.clear();
            carried.extend_from_slice(&place.id);
            let timeout = if good { timeout } else { timeout.min(CLOSING) };
            let reply = search.step(connection, close, None, Limit::starting_now(timeout), values).await;
            seen(connection, &close.request, &reply);
            good &= tally.add(CLOSE, reply);
        }
        let mut reply = tally.finish();
        if let (true, Some(assertion)) = (good, assertion) {
            reply.outcome = assertion.judge_hits(hits, "");
        }
        reply
    }

    /// Replaces `carried` by the JSON members or the id that place the next page's request at this position.
    /// Empty at the start of a scan without a point in time.
    fn carry(&self, PagePosition { id, after }: &PagePosition, carried: &mut Vec<u8>) {
        carried.clear();
        match &self.continuation {
            Continuation::Scroll { .. } => carried.extend_from_slice(id),
            Continuation::SearchAfter { view, .. } => {
                if let Some((before, behind)) = view {
                    carried.extend_from_slice(before.as_bytes());
                    carried.extend_from_slice(id);
                    carried.extend_from_slice(behind.as_bytes());
                }
                if !after.is_empty() {
                    carried.extend_from_slice(b",\"search_after\":");
                    carried.extend_from_slice(after);
                }
            }
            Continuation::Composite { .. } if after.is_empty() => {}
            Continuation::Composite { .. } => {
                carried.extend_from_slice(b",\"after\":");
                carried.extend_from_slice(after);
            }
        }
    }

    /// Reads the position of the next page from a page with this number of documents into `place`; returns whether
    /// there is a next page. Fails if a page of hits lacks the position.
    fn turn(&self, body: &[u8], documents: u64, place: &mut PagePosition) -> Result<bool, Unexpected> {
        let PagePosition { id, after } = place;
        let keep = |kept: &mut Vec<u8>, json: &[u8]| {
            kept.clear();
            kept.extend_from_slice(json);
        };
        match &self.continuation {
            Continuation::Scroll { size } => {
                keep(id, Cursor::member(body, b"_scroll_id")?.ok_or(Unexpected)?.value()?);
                Ok(documents >= *size)
            }
            Continuation::SearchAfter { size, view } => {
                if view.is_some()
                    && let Some(mut pit_id) = Cursor::member(body, b"pit_id")?
                {
                    // The id may change from page to page.
                    keep(id, pit_id.value()?);
                }
                if documents < *size {
                    return Ok(false);
                }
                let hits = Cursor::member(body, b"hits")?.ok_or(Unexpected)?.value()?;
                let mut last = None;
                Cursor::member(hits, b"hits")?.ok_or(Unexpected)?.array(|_, cursor| {
                    last = Some(cursor.value()?);
                    Ok(true)
                })?;
                keep(after, Cursor::member(last.ok_or(Unexpected)?, b"sort")?.ok_or(Unexpected)?.value()?);
                Ok(true)
            }
            Continuation::Composite { after: pointer } => Ok(match pointer.find(body)? {
                Some(key) => {
                    keep(after, key);
                    true
                }
                None => false,
            }),
        }
    }
}

/// Returns a failure of class Server, for an answer that lacks an expected field.
fn unexpected(message: &str) -> Failure {
    Failure::new(ErrorClass::Server, message)
}
