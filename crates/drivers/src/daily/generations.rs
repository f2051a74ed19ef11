//! Generations: a day's documents are stored in one or several indices, each for a range of event times.
//!
//! The first generation of a day starts at midnight and has a name such as `ads-2017.03.01`. The name of a later one
//! includes its start: `ads-2017.03.01-14.30.05.123`. The generation of a document follows from its instant and from
//! these starts. A late event thus finds the generation of its document without stored state.
//!
//! This requires that a new generation starts after every instant placed so far. One lock therefore covers the newest
//! instants and the list of starts. The store keeps the starts in the names of its indices.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use loadframe_engine::util::calendar;
use loadframe_engine::util::calendar::DAY;
use loadframe_engine::workload::event::Batch;
use tokio::sync::OnceCell;

use crate::ingest::{Days, Ingest, chosen};

/// The first and the last instant of the years 0 to 9999; others have no name.
const NAMED: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

/// Reason for refusing an event of a deleted generation.
pub const DELETED: &str = "the day of its document was deleted";

/// Format of the names of generations.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// `ads-2017.03.01`
    Dotted,
    /// `ads_2017_03_01`, for stores that allow neither dots nor hyphens in names.
    Underscored,
}

impl Style {
    /// Returns the separator before the date and before the time, and the separator within each.
    fn separators(self) -> (char, char) {
        match self {
            Self::Dotted => ('-', '.'),
            Self::Underscored => ('_', '_'),
        }
    }
}

/// State per collection, shared by all operations on the collection.
#[derive(Debug)]
pub struct Register<T>(Mutex<BTreeMap<String, Arc<T>>>);

impl<T> Default for Register<T> {
    /// Creates a register without collections.
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Register<T> {
    /// Returns the state of a collection, shared by all callers. The first call creates it with `make`. Panics if a
    /// thread panicked in `make`.
    pub fn of(&self, collection: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.lock().expect("no thread panics while it holds the lock");
        all.entry(collection.to_owned()).or_insert_with(|| Arc::new(make())).clone()
    }
}

/// The generations of one collection.
#[derive(Debug)]
pub struct Generations {
    /// Prefix of their names.
    pub collection: String,
    style: Style,
    state: Mutex<State>,
    /// Set once the existing generations were read from the store.
    pub listed: OnceCell<()>,
    /// Set once the newest documents were read from the store.
    pub dated: OnceCell<()>,
}

/// What changes during the load.
#[derive(Debug, Default)]
struct State {
    list: Arc<List>,
    /// The newest placed instant of each day.
    newest: BTreeMap<i64, i64>,
}

/// The generations at one time.
#[derive(Clone, Debug)]
pub struct List {
    /// Starts other than midnight, ascending.
    begins: Vec<i64>,
    /// Generations that end by this instant were deleted.
    deleted: i64,
}

impl Default for List {
    /// Creates a list in which each day is one generation, and none was deleted.
    fn default() -> Self {
        Self { begins: Vec::new(), deleted: i64::MIN }
    }
}

impl List {
    /// Returns whether any generation was deleted, by [`Generations::delete`].
    pub fn deletes(&self) -> bool {
        self.deleted > i64::MIN
    }

    /// Returns the start (inclusive) and the end (exclusive) of the generation that contains `instant`. All are in
    /// milliseconds since 1970 in UTC. A generation lies within one day.
    pub fn span(&self, instant: i64) -> (i64, i64) {
        let midnight = instant.div_euclid(DAY) * DAY;
        let after = self.begins.partition_point(|begin| *begin <= instant);
        let from = after.checked_sub(1).map_or(midnight, |last| self.begins[last].max(midnight));
        let until = self.begins.get(after).map_or(midnight + DAY, |next| (*next).min(midnight + DAY));
        (from, until)
    }
}

impl Generations {
    /// Creates the generations of a collection, with names in this style. Does not query the store.
    pub fn new(collection: &str, style: Style) -> Self {
        let state = Mutex::new(State::default());
        Self { collection: collection.to_owned(), style, state, listed: OnceCell::new(), dated: OnceCell::new() }
    }

    /// Locks and returns the state. Panics if a thread panicked while it held the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Returns the current generations; later changes do not affect the returned list.
    pub fn list(&self) -> Arc<List> {
        self.state().list.clone()
    }

    /// Records the newest instant per day of the events, and returns the generations to place them in.
    /// `only`: indices of the events, or `None` for all. `form` defines an event's instant; without days, nothing is
    /// recorded. Generations created later start after the newest of these events.
    pub fn place(&self, form: &Ingest, batch: &Batch, only: Option<&[u32]>) -> Arc<List> {
        let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
        let (mut from, mut last) = (0, -1);
        for instant in chosen(batch, only).filter_map(|event| form.instant(event)).map(named) {
            if instant > last || instant < from {
                from = instant.div_euclid(DAY) * DAY;
                let day = newest.entry(from).or_insert(instant);
                *day = instant.max(*day);
                last = *day;
            }
        }
        let mut state = self.state();
        state.note(newest);
        state.list.clone()
    }

    /// Raises the newest instant of each day to the newest of `instants` on that day; never lowers it.
    /// `instants`: times of the store's documents, or lower bounds of them, in milliseconds since 1970, in any order.
    pub fn note(&self, instants: impl Iterator<Item = i64>) {
        self.state().note(instants.map(named).map(|instant| (instant.div_euclid(DAY) * DAY, instant)));
    }

    /// Adds the generations with these names of indices or aliases. Ignores names that are not of this collection and
    /// style.
    pub fn learn<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let begins = names.filter_map(|name| self.begin_of(name));
        self.state().change(|list| list.begins.extend(begins.filter(|begin| begin.rem_euclid(DAY) != 0)));
    }

    /// Starts a generation after all documents of the day of `instant`, and returns its start.
    /// Both are in milliseconds since 1970. Returns `None` and changes nothing if the day has no documents yet, no
    /// millisecond left, or a generation with this start.
    pub fn begin(&self, instant: i64) -> Option<i64> {
        let day = instant.div_euclid(DAY) * DAY;
        let mut state = self.state();
        let begin = state.newest.get(&day)? + 1;
        if begin >= day + DAY || state.list.span(begin).0 == begin {
            return None;
        }
        state.change(|list| list.begins.push(begin));
        Some(begin)
    }

    /// Marks generations that end by `until`, in milliseconds since 1970, as deleted: their later events are refused.
    /// Does not delete in the store.
    pub fn delete(&self, until: i64) {
        self.state().change(|list| list.deleted = list.deleted.max(until));
    }

    /// Returns the time of the events in milliseconds since 1970: the newest placed instant, but at most `clock`, the
    /// current time. So an event with a wrong date does not age all others. `None` if no document is on or before the
    /// day of `clock`.
    pub fn now(&self, clock: i64) -> Option<i64> {
        let state = self.state();
        state.newest.range(..=clock).next_back().map(|(_, newest)| (*newest).min(clock))
    }

    /// Returns the newest placed instant of the same day; `None` if the day has no events.
    pub fn newest(&self, instant: i64) -> Option<i64> {
        self.state().newest.get(&(instant.div_euclid(DAY) * DAY)).copied()
    }

    /// Returns the name of the generation that starts at `begin`, in milliseconds since 1970.
    pub fn name(&self, begin: i64) -> String {
        let mut name = Vec::new();
        write_name(&mut name, (&self.collection, self.style), begin, &mut Days::default());
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Returns a formatter of the names of the generations in `list`, for successive events.
    pub fn names<'a>(&'a self, list: &'a List) -> Names<'a> {
        Names::new(&self.collection, self.style, list)
    }

    /// Returns the start, in milliseconds since 1970, of the generation with this index or alias name; `None` for other
    /// names.
    pub fn begin_of(&self, name: &str) -> Option<i64> {
        let (before, within) = self.style.separators();
        let (day, time) = name.strip_prefix(&self.collection)?.strip_prefix(before)?.split_at_checked(10)?;
        let date = day.replace(within, "-");
        let milliseconds = match time.strip_prefix(before) {
            None if time.is_empty() => calendar::milliseconds(&date)?,
            None => return None,
            Some(time) => {
                let (clock, thousandths) = time.rsplit_once(within).filter(|(_, last)| last.len() == 3)?;
                calendar::milliseconds(&format!("{date}T{}.{thousandths}", clock.replace(within, ":")))?
            }
        };
        Some(milliseconds).filter(|begin| self.name(*begin) == name)
    }
}

impl State {
    /// Raises the newest instant of each day to the given (start of the day, instant); never lowers it.
    fn note(&mut self, newest: impl IntoIterator<Item = (i64, i64)>) {
        for (day, instant) in newest {
            let known = self.newest.entry(day).or_insert(instant);
            *known = instant.max(*known);
        }
    }

    /// Changes the list by `change`, then sorts its starts and removes duplicates. Lists returned earlier stay
    /// unchanged.
    fn change(&mut self, change: impl FnOnce(&mut List)) {
        let list = Arc::make_mut(&mut self.list);
        change(list);
        list.begins.sort_unstable();
        list.begins.dedup();
    }
}

/// Returns the current time in milliseconds since 1970, or 0 if the system's clock is before 1970.
pub fn clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Limits an instant, in milliseconds since 1970, to the years 0 to 9999.
fn named(instant: i64) -> i64 {
    instant.clamp(NAMED.0, NAMED.1)
}

/// Replaces `name` by the name of the generation that starts at `begin`, in milliseconds since 1970. `days` caches the
/// text of a day.
fn write_name(name: &mut Vec<u8>, (collection, style): (&str, Style), begin: i64, days: &mut Days) {
    let (before, within) = style.separators();
    name.clear();
    name.extend_from_slice(collection.as_bytes());
    name.push(before as u8);
    name.extend(days.of(begin).bytes().map(|byte| if byte == b'.' { within as u8 } else { byte }));
    let since = begin.rem_euclid(DAY);
    if since > 0 {
        let (hours, minutes) = (since / 3_600_000, since / 60_000 % 60);
        let (seconds, milliseconds) = (since / 1000 % 60, since % 1000);
        let time = format!("{before}{hours:02}{within}{minutes:02}{within}{seconds:02}{within}{milliseconds:03}");
        name.extend_from_slice(time.as_bytes());
    }
}

/// Formats the generation names of successive events. Keeps the last name, because most events share it.
#[derive(Debug)]
pub struct Names<'a> {
    collection: &'a str,
    style: Style,
    list: &'a List,
    span: (i64, i64),
    name: Vec<u8>,
    days: Days,
}

impl<'a> Names<'a> {
    /// Creates a formatter for a collection's generations.
    pub fn new(collection: &'a str, style: Style, list: &'a List) -> Self {
        let name = Vec::with_capacity(collection.len() + "-2017.03.01-00.00.00.000".len());
        Self { collection, style, list, span: (0, 0), name, days: Days::default() }
    }

    /// Returns the name of the generation of an instant, in milliseconds since 1970; `None` if it was deleted. Years
    /// outside 0 to 9999 count as the first or last generation of that range.
    pub fn of(&mut self, instant: i64) -> Option<&[u8]> {
        if instant < self.span.0 || instant >= self.span.1 {
            self.span = self.list.span(named(instant));
            write_name(&mut self.name, (self.collection, self.style), self.span.0, &mut self.days);
        }
        Some(&self.name[..]).filter(|_| self.span.1 > self.list.deleted)
    }

    /// Returns the start, in milliseconds since 1970, of the generation that `of` named last, also if it was deleted.
    pub fn begin(&self) -> i64 {
        self.span.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Daily;
    use crate::ingest::tests::batch;

    const NOON: i64 = 1_488_369_600_000; // 2017-03-01T12:00:00Z

    /// Places events at these instants. Returns the names of their generations, or "deleted".
    fn placed(generations: &Generations, instants: &[i64]) -> Vec<String> {
        let events: Vec<_> = instants.iter().map(|instant| (0, "a", *instant, "{}")).collect();
        let form = Ingest { collection: "ads".into(), daily: Some(Daily::Event), times: [].into() };
        let list = generations.place(&form, &batch(&events), None);
        let mut names = generations.names(&list);
        let text = |name: Option<&[u8]>| name.map_or("deleted".into(), |name| String::from_utf8_lossy(name).into());
        instants.iter().map(|instant| text(names.of(*instant))).collect()
    }

    #[test]
    fn a_document_stays_in_its_generation_when_others_begin() {
        let generations = Generations::new("ads", Style::Dotted);
        assert_eq!(generations.begin(NOON), None, "no document, no generation");
        let events = [NOON + 5, NOON - 7_200_000, NOON, NOON - DAY, NOON + DAY];
        let before = placed(&generations, &events);
        assert_eq!(before[0], "ads-2017.03.01");
        let begin = generations.begin(NOON).unwrap();
        assert_eq!(begin, NOON + 6, "behind the newest document of that day");
        assert_eq!(generations.begin(NOON), None, "it holds nothing yet");
        assert_eq!(placed(&generations, &events), before);
        let later = [begin, begin - 1, begin + 100];
        let names = ["ads-2017.03.01-12.00.00.006", "ads-2017.03.01", "ads-2017.03.01-12.00.00.006"];
        assert_eq!(placed(&generations, &later), names);
        assert_eq!(generations.begin(NOON), Some(begin + 101));
        assert_eq!(placed(&generations, &later), names);
        assert_eq!(placed(&generations, &events), before);
    }

    #[test]
    fn in_any_order_of_events_and_beginnings_each_instant_has_one_name() {
        let mut state: u64 = 19;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let generations = Generations::new("ads", Style::Dotted);
        let mut names: BTreeMap<i64, String> = BTreeMap::new();
        let mut begun = 0;
        for round in 0..2_000 {
            // Bids arrive in order; a third of the events refer to earlier bids, up to hours before and across
            // midnight.
            let clock = NOON + round * 60_000;
            let instants: Vec<i64> =
                (0..5).map(|_| clock - if draw(3) == 0 { draw(14_400_000) as i64 } else { draw(50) as i64 }).collect();
            for (instant, name) in instants.iter().zip(placed(&generations, &instants)) {
                assert_eq!(names.entry(*instant).or_insert_with(|| name.clone()), &name);
            }
            begun += i32::from(draw(20) == 0 && generations.begin(clock).is_some());
        }
        assert!(begun > 50);
        let again = Generations::new("ads", Style::Dotted);
        again.learn(names.values().map(String::as_str));
        for (instant, name) in &names {
            assert_eq!(placed(&again, &[*instant]), [name.as_str()], "the names say all");
        }
    }

    #[test]
    fn no_generation_begins_outside_of_its_day() {
        let generations = Generations::new("ads", Style::Dotted);
        placed(&generations, &[NOON / DAY * DAY + DAY - 1]);
        assert_eq!(generations.begin(NOON), None);
        placed(&generations, &[i64::MAX, i64::MIN]);
        assert_eq!(generations.begin(i64::MAX), None);
        assert_eq!(placed(&generations, &[i64::MAX, i64::MIN]), ["ads-9999.12.31", "ads-0000.01.01"]);
    }

    /// Checks that only names in the format of a generation have a start.
    #[test]
    fn names_that_are_not_of_a_generation_say_nothing() {
        let generations = Generations::new("ads", Style::Dotted);
        for (name, begin) in [
            ("ads-2017.03.01", Some(NOON - DAY / 2)),
            ("ads-2017.03.01-12.00.00.000", Some(NOON)),
            ("ads-2017.03.01-00.00.00.000", None),
            ("ads-2017.03.01-12.00.00", None),
            ("ads-2017-03-01", None),
            ("ads-2017.13.01", None),
            ("ads-2017.03.01-1", None),
            ("shrunk-ads-2017.03.01", None),
            ("ads", None),
            ("adsx-2017.03.01", None),
        ] {
            assert_eq!(generations.begin_of(name), begin, "{name}");
        }
    }

    /// Checks the names of days in the underscored style.
    #[test]
    fn where_names_have_no_dots_a_day_is_known_all_the_same() {
        let generations = Generations::new("ads", Style::Underscored);
        assert_eq!(placed(&generations, &[NOON]), ["ads_2017_03_01"]);
        assert_eq!(generations.begin_of("ads_2017_03_01"), Some(NOON - DAY / 2));
        for other in ["ads", "ads_2017_03", "ads-2017.03.01", "ads_2017_03_01_", "ads_2017_13_01"] {
            assert_eq!(generations.begin_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_time_of_the_events_is_not_ahead_of_the_clock() {
        let generations = Generations::new("ads", Style::Dotted);
        assert_eq!(generations.now(NOON), None);
        placed(&generations, &[NOON - 10, NOON + 300 * DAY]);
        assert_eq!(generations.now(NOON), Some(NOON - 10));
        assert_eq!(generations.now(NOON + 300 * DAY - 1), Some(NOON + 300 * DAY - 1));
    }

    #[test]
    fn events_of_deleted_generations_are_not_placed() {
        let generations = Generations::new("ads", Style::Dotted);
        placed(&generations, &[NOON]);
        generations.begin(NOON);
        generations.delete(NOON + 1);
        assert_eq!(placed(&generations, &[NOON, NOON + 1]), ["deleted", "ads-2017.03.01-12.00.00.001"]);
        generations.delete(NOON);
        assert_eq!(placed(&generations, &[NOON - DAY]), ["deleted"], "what is deleted stays deleted");
    }
}
