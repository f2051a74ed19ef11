//! Time buckets: one collection per day, for stores without templates.
//!
//! In these stores a pending write could recreate a deleted collection. The driver therefore creates each collection
//! once per process, before its first event. Deleting days waits until no event is in flight, so each event finds its
//! day or is refused.

pub(crate) mod generations;

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::calendar::DAY;
use loadframe_engine::workload::event::{Batch, Event};
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::daily::generations::{DELETED, Generations, Style, clock};
use crate::exchanges::Exchanges;
use crate::form::Form;
use crate::ingest::{Ingest, chosen};
use crate::tally::Tally;

/// Name of the operation that deletes days.
pub const DELETE_DAYS: &str = "delete_days";
/// Its recorded parts: listing the days, and each deletion.
pub const PARTS: [&str; 2] = ["look", "delete"];
/// Index of the listing among the parts.
const LOOK: usize = 0;
/// Index of a deletion among the parts.
const DELETE: usize = 1;

/// A client's requests about days, in the form of its store.
pub trait Days {
    /// Returns the exchanges so far.
    fn exchanges(&mut self) -> &mut Exchanges;

    /// Lists the starts of the days in the store, in milliseconds since 1970. Fails if the store cannot be queried.
    fn begins(&mut self) -> impl Future<Output = Result<Vec<i64>, Failure>>;

    /// Drops the collection of the day that starts at `begin`, in milliseconds since 1970. Fails if the store does not
    /// do so.
    fn drop(&mut self, begin: i64) -> impl Future<Output = Result<(), Failure>>;

    /// Runs once after days were dropped; does nothing by default. If it fails, the deletion fails.
    fn dropped(&mut self) -> impl Future<Output = Result<(), Failure>> {
        ready(Ok(()))
    }
}

/// The days of one collection.
#[derive(Debug)]
pub struct Buckets {
    /// The day of each event; each day is one generation.
    pub generations: Generations,
    /// Starts of the days created so far.
    made: Mutex<BTreeSet<i64>>,
    /// Held while a day is created.
    making: tokio::sync::Mutex<()>,
    /// Read-locked by events in flight, write-locked by a deletion.
    flow: RwLock<()>,
}

/// The events of a request, grouped by day.
pub struct Dealt<'a> {
    /// By start of the day.
    pub days: BTreeMap<i64, Bucket<'a>>,
    /// Prevents the deletion of days.
    _flowing: RwLockReadGuard<'a, ()>,
}

/// The events of one day.
pub struct Bucket<'a> {
    /// Name of the day's collection.
    pub name: String,
    /// The events, each with its position in the request.
    pub events: Vec<(u32, &'a Event)>,
}

impl Bucket<'_> {
    /// Returns the positions of the events in the request.
    pub fn places(&self) -> Vec<u32> {
        self.events.iter().map(|(place, _)| *place).collect()
    }
}

impl Buckets {
    /// Creates the days of a collection, with names in this style. Does not query the store.
    pub fn new(collection: &str, style: Style) -> Self {
        let generations = Generations::new(collection, style);
        Self { generations, made: Mutex::default(), making: tokio::sync::Mutex::default(), flow: RwLock::default() }
    }

    /// Locks and returns the starts of the days created so far.
    fn made(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Groups the events of a batch, or those at the indices `only`, by day, with their positions among them.
    /// Events of deleted days count in `tally` as refused. Waits while all days are deleted; no day is deleted while
    /// the result exists.
    pub async fn deal<'a>(
        &'a self,
        form: &Ingest,
        batch: &'a Batch,
        only: Option<&'a [u32]>,
        tally: &mut Tally,
    ) -> Dealt<'a> {
        let flowing = self.flow.read().await;
        let list = self.generations.place(form, batch, only);
        let mut names = self.generations.names(&list);
        let mut days: BTreeMap<i64, Bucket<'a>> = BTreeMap::new();
        for (place, event) in (0..).zip(chosen(batch, only)) {
            let Some(instant) = form.instant(event) else { continue };
            if names.of(instant).is_none() {
                tally.fail_at(&[place], Failure::new(ErrorClass::Client, DELETED));
                continue;
            }
            let begin = names.begin();
            let bucket = || Bucket { name: self.generations.name(begin), events: Vec::new() };
            days.entry(begin).or_insert_with(bucket).events.push((place, event));
        }
        Dealt { days, _flowing: flowing }
    }

    /// Creates the day that starts at `begin`, in milliseconds since 1970, with `make`, at most once per process.
    /// Waits while another day is created. After a failure, which it returns, the next call tries again.
    pub async fn make(&self, begin: i64, make: impl AsyncFnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.made().contains(&begin) {
            return Ok(());
        }
        let _one = self.making.lock().await;
        if !self.made().contains(&begin) {
            make().await?;
            self.made().insert(begin);
        }
        Ok(())
    }

    /// Deletes all days, or those that ended at least `keep` milliseconds of event time ago. Continues after a failure;
    /// the outcome is the first failure. The reply's parts are the listing and each deletion.
    pub async fn delete(&self, mut days: impl Days, keep: Option<i64>) -> Reply {
        let outcome = self.delete_by(&mut days, keep).await;
        Reply { outcome, ..std::mem::take(days.exchanges()).finish() }
    }

    /// Deletes days for `delete`, and adds the exchanges and parts to `days`. Returns the first failure.
    async fn delete_by(&self, days: &mut impl Days, keep: Option<i64>) -> Result<(), Failure> {
        let begun = days.exchanges().begin();
        let begins = days.begins().await;
        days.exchanges().end(LOOK, begun, class(&begins));
        let begins = begins?;
        let (ending, still) = self.ending(&begins, keep).await;
        // With `keep`, only events of the deleted days are affected, so others need not wait. Without it, waiting
        // events recreate their days afterwards.
        let _still = still.filter(|_| keep.is_none());
        let mut outcome = Ok(());
        for begin in &ending {
            let begun = days.exchanges().begin();
            let dropped = days.drop(*begin).await;
            days.exchanges().end(DELETE, begun, class(&dropped));
            outcome = outcome.and(dropped);
        }
        if ending.is_empty() { outcome } else { outcome.and(days.dropped().await) }
    }

    /// Returns the days to delete among the starts `begins`: all, or those that ended at least `keep` milliseconds of
    /// event time ago. Waits until no event is in flight; none is while the guard is held. Later events of the returned
    /// days are refused, or recreate their day if all are deleted. Without days to delete, events do not wait.
    ///
    /// The start of the newest day is a lower bound of the event time, because an earlier process may have placed newer
    /// documents.
    async fn ending(&self, begins: &[i64], keep: Option<i64>) -> (Vec<i64>, Option<RwLockWriteGuard<'_, ()>>) {
        let Some(keep) = keep else {
            let still = self.flow.write().await;
            self.made().clear();
            return (begins.to_vec(), Some(still));
        };
        self.generations.note(begins.iter().copied());
        let Some(until) = self.generations.now(clock()).map(|now| now - keep) else { return (Vec::new(), None) };
        let ending: Vec<i64> = begins.iter().copied().filter(|begin| begin + DAY <= until).collect();
        let still = if ending.is_empty() { None } else { Some(self.flow.write().await) };
        self.generations.delete(until);
        (ending, still)
    }
}

/// Returns the error class of an outcome; `None` for a success.
fn class<T>(outcome: &Result<T, Failure>) -> Option<ErrorClass> {
    outcome.as_ref().err().map(|failure| failure.class)
}

/// Reads `{"collection": NAME, "keep": SECONDS}`. Returns the collection, and how long to keep days, in milliseconds.
/// Without `keep`, returns `None`: all days are deleted. Refuses unknown keys and wrong types.
pub fn deletion(argument: &Value) -> Result<(String, Option<i64>), PlanError> {
    let form = Form::new(argument, &["collection", "keep"])?;
    Ok((form.text("collection")?.to_owned(), form.milliseconds("keep")?))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;
    use crate::ingest::Daily;
    use crate::ingest::tests::batch;

    const NOON: i64 = 1_488_369_600_000; // 2017-03-01T12:00:00Z
    const NONE: [i64; 0] = [];

    /// Returns an ingest into the days of the collection `ads`, by the time of the events.
    fn form() -> Ingest {
        Ingest { collection: "ads".into(), daily: Some(Daily::Event), times: [].into() }
    }

    /// Groups the events of a batch by day. Returns each day's name and event positions, and the positions of refused
    /// events.
    async fn dealt(buckets: &Buckets, batch: &Batch, only: Option<&[u32]>) -> (Vec<(String, Vec<u32>)>, Vec<u32>) {
        let mut tally = Tally::default();
        let days = buckets.deal(&form(), batch, only, &mut tally).await.days;
        let now = Instant::now();
        (days.values().map(|day| (day.name.clone(), day.places())).collect(), tally.settle(now, now).refused)
    }

    #[tokio::test]
    async fn events_keep_their_index_in_the_request_when_dealt_to_days() {
        let buckets = Buckets::new("ads", Style::Underscored);
        let batch =
            batch(&[(0, "a", NOON + DAY, ""), (0, "b", NOON, ""), (1, "a", NOON + DAY, ""), (1, "c", NOON, "")]);
        let (first, second) = ("ads_2017_03_01".to_owned(), "ads_2017_03_02".to_owned());
        let all = vec![(first.clone(), vec![1, 3]), (second.clone(), vec![0, 2])];
        assert_eq!(dealt(&buckets, &batch, None).await, (all, vec![]));
        assert_eq!(dealt(&buckets, &batch, Some(&[2, 3])).await.0, [(first, vec![1]), (second, vec![0])]);
    }

    #[tokio::test]
    async fn a_day_is_made_once_unless_that_fails() {
        let buckets = Buckets::new("ads", Style::Dotted);
        let made = Cell::new(0);
        let make = async || {
            made.set(made.get() + 1);
            tokio::task::yield_now().await;
            if made.get() == 1 { Err(Failure::new(ErrorClass::Connect, "nobody there")) } else { Ok(()) }
        };
        assert!(buckets.make(NOON, make).await.is_err());
        let (one, other) = tokio::join!(buckets.make(NOON, make), buckets.make(NOON, make));
        assert_eq!((one.is_ok(), other.is_ok(), made.get()), (true, true, 2), "one made it for both");
        buckets.make(NOON, make).await.unwrap();
        assert_eq!(made.get(), 2);
    }

    #[tokio::test]
    async fn days_end_by_the_time_of_the_events_and_their_late_events_are_refused() {
        let buckets = Buckets::new("ads", Style::Dotted);
        let midnight = NOON - DAY / 2;
        let days: Vec<i64> = (0..4).map(|day| midnight + day * DAY).collect();
        let ending = async |keep| buckets.ending(&days, keep).await.0;
        assert_eq!(ending(Some(DAY)).await, days[..2], "the newest day has begun at least");
        let late = batch(&[(0, "a", NOON, ""), (0, "b", NOON + 3 * DAY, "")]);
        let (kept, refused) = dealt(&buckets, &late, None).await;
        assert_eq!((kept, refused), (vec![("ads-2017.03.04".to_owned(), vec![1])], vec![0]));
        assert_eq!(ending(Some(DAY / 2)).await, days[..3], "an event at noon has come since");
        let ahead = [clock() + 10 * DAY];
        assert_eq!(
            Buckets::new("ads", Style::Dotted).ending(&ahead, Some(1)).await.0,
            NONE,
            "a wrong date ages nothing"
        );
    }

    #[tokio::test]
    async fn no_event_is_under_way_while_days_are_deleted() {
        let buckets = Buckets::new("ads", Style::Dotted);
        let batch = batch(&[(0, "a", NOON, "")]);
        let (form, mut tally) = (form(), Tally::default());
        let under_way = buckets.deal(&form, &batch, None, &mut tally).await;
        assert!(buckets.ending(&[], Some(1)).await.1.is_none(), "there is nothing to wait for");
        let days = [NOON - 3 * DAY / 2];
        let deleting = buckets.ending(&days, Some(1));
        tokio::pin!(deleting);
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, &mut deleting).await.is_err());
        drop(under_way);
        drop(deleting.await);
    }

    #[tokio::test]
    async fn deleted_days_are_created_again() {
        let buckets = Buckets::new("ads", Style::Dotted);
        let begins = [NOON - DAY / 2];
        buckets.make(begins[0], async || Ok(())).await.unwrap();
        assert_eq!(buckets.ending(&begins, None).await.0, begins);
        let mut again = false;
        let make = async || {
            again = true;
            Ok(())
        };
        buckets.make(begins[0], make).await.unwrap();
        assert!(again);
        assert_eq!(dealt(&buckets, &batch(&[(0, "a", NOON, "")]), None).await.1, vec![0; 0], "none is refused");
    }

    /// A store with some days that refuses to drop the first.
    struct Stubborn(Vec<i64>, Exchanges);

    impl Days for Stubborn {
        /// Returns the exchanges so far.
        fn exchanges(&mut self) -> &mut Exchanges {
            &mut self.1
        }

        /// Returns the days; fails if there are none.
        async fn begins(&mut self) -> Result<Vec<i64>, Failure> {
            let failure = Failure::new(ErrorClass::Connect, "nobody there");
            if self.0.is_empty() {
                return Err(self.1.unsent(failure));
            }
            self.1.join(Reply::new(Instant::now(), Instant::now(), Ok(())));
            Ok(self.0.clone())
        }

        /// Refuses to drop the first day.
        async fn drop(&mut self, begin: i64) -> Result<(), Failure> {
            if begin == self.0[0] { Err(Failure::new(ErrorClass::Server, "not this one")) } else { Ok(()) }
        }
    }

    /// Checks that the other days are deleted after one failed.
    #[tokio::test]
    async fn a_day_that_cannot_be_deleted_keeps_no_other_from_it() {
        let buckets = Buckets::new("ads", Style::Dotted);
        let days = (0..3).map(|day| day * DAY).collect();
        let reply = buckets.delete(Stubborn(days, Exchanges::default()), None).await;
        let parts: Vec<_> = reply.parts.iter().map(|part| (part.name, part.failed)).collect();
        assert_eq!(parts, [(LOOK, None), (DELETE, Some(ErrorClass::Server)), (DELETE, None), (DELETE, None)]);
        assert_eq!(reply.outcome.unwrap_err().message, "not this one");
        let reply = buckets.delete(Stubborn(Vec::new(), Exchanges::default()), Some(1)).await;
        assert_eq!(reply.outcome.unwrap_err().class, ErrorClass::Connect);
        assert_eq!(reply.parts.len(), 1, "looking has failed");
    }
}
