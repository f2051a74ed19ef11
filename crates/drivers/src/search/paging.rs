//! Reads an answer page by page, each page from where the last one ended: scrolls, searches after the last hit's sort
//! values, and composite aggregations. So results can be read that are longer than one answer may be.
//!
//! A page that fails ends the scan; what the store keeps for it (a scroll, a point in time) is closed all the same.

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

/// The parts of a scan; those that a way of paging does not have are cut off.
pub const PARTS: [&str; 3] = ["page", "close", "open"];
/// The place of a page among them.
pub const PAGE: usize = 0;
const CLOSE: usize = 1;
const OPEN: usize = 2;

/// Closing after a failure takes no longer than this.
const CLOSING: Duration = Duration::from_secs(5);

/// The pages of an operation. The first is the operation's own step.
#[derive(Debug)]
pub struct Paging {
    /// Opens the point in time that the pages are read from, and where the answer has its id.
    pub open: Option<(SearchStep, Pointer)>,
    /// Asks for each page after the first, if it is not asked for as the first is.
    pub next: Option<SearchStep>,
    /// Closes what the store keeps for the scan.
    pub close: Option<SearchStep>,
    /// How a page goes on from the last one.
    pub way: Way,
    /// The scan ends after this many pages, whether there are more or not.
    pub pages: Option<u64>,
}

/// How a page goes on from the last one.
#[derive(Debug)]
pub enum Way {
    /// By the scroll's id.
    Scroll {
        /// Hits of a page; one with fewer is the last.
        size: u64,
    },
    /// By the values that the last hit was sorted by.
    SearchAfter {
        /// Hits of a page; one with fewer is the last.
        size: u64,
        /// What stands before the id of the point in time, and behind it.
        view: Option<(String, &'static str)>,
    },
    /// By the key of the last bucket; a page without one is the last.
    Composite {
        /// Where the answer has it.
        after: Pointer,
    },
}

/// Where a scan is, in JSON as the store wrote it.
#[derive(Default)]
struct PagePosition {
    /// Of the scroll or the point in time.
    id: Vec<u8>,
    /// What the next page comes after.
    after: Vec<u8>,
}

impl Paging {
    /// The parts that are recorded.
    pub fn parts(&self) -> &'static [&'static str] {
        match (&self.open, &self.close) {
            (Some(_), _) => &PARTS,
            (None, Some(_)) => &PARTS[..=CLOSE],
            (None, None) => &PARTS[..=PAGE],
        }
    }

    /// Reads all pages. The timeout is that of each exchange; what is asserted of hits is asserted of all pages
    /// together, what is asserted of fields of the first.
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

    /// What the next page's request takes along.
    fn carry(&self, PagePosition { id, after }: &PagePosition, carried: &mut Vec<u8>) {
        carried.clear();
        match &self.way {
            Way::Scroll { .. } => carried.extend_from_slice(id),
            Way::SearchAfter { view, .. } => {
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
            Way::Composite { .. } if after.is_empty() => {}
            Way::Composite { .. } => {
                carried.extend_from_slice(b",\"after\":");
                carried.extend_from_slice(after);
            }
        }
    }

    /// Reads from a page where the next one begins; says whether there is one.
    fn turn(&self, body: &[u8], documents: u64, place: &mut PagePosition) -> Result<bool, Unexpected> {
        let PagePosition { id, after } = place;
        let keep = |kept: &mut Vec<u8>, json: &[u8]| {
            kept.clear();
            kept.extend_from_slice(json);
        };
        match &self.way {
            Way::Scroll { size } => {
                keep(id, Cursor::member(body, b"_scroll_id")?.ok_or(Unexpected)?.value()?);
                Ok(documents >= *size)
            }
            Way::SearchAfter { size, view } => {
                if view.is_some()
                    && let Some(mut pit_id) = Cursor::member(body, b"pit_id")?
                {
                    // It may change from page to page.
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
            Way::Composite { after: pointer } => Ok(match pointer.find(body)? {
                Some(key) => {
                    keep(after, key);
                    true
                }
                None => false,
            }),
        }
    }
}

fn unexpected(message: &str) -> Failure {
    Failure::new(ErrorClass::Server, message)
}
