//! Generations: the indices that a day's documents are kept in, each from an instant of the events' time on.
//!
//! The first of a day begins at midnight and is called `ads-2017.03.01`; one that follows is called by its beginning, too,
//! `ads-2017.03.01-14.30.05.123`. Where a document belongs is a function of its instant and of these beginnings, so that a
//! late event finds the generation that its document is in, and nothing has to remember which one that was. That holds
//! because a generation begins after every instant that a document was ever placed by: the newest ones are noted, and the
//! beginnings changed, under one lock. The names of the indices hold the beginnings, so that the store remembers them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use loadframe_engine::calendar::{self, DAY};
use loadframe_engine::event::Batch;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::take_in::{Days, TakeIn, chosen};

/// What stands before the name of a generation in the name of the index that it was shrunk into. So a pattern such as
/// `ads-*` finds that index by its alias alone, which it gets when the one before goes.
pub const SHRUNK: &str = "shrunk-";

/// The first and the last instant of the years 0 to 9999, which alone have names.
const NAMED: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

/// The generations of each collection that operations name.
#[derive(Debug, Default)]
pub struct Register(Mutex<BTreeMap<String, Arc<Generations>>>);

impl Register {
    /// Those of one collection, which all operations on it share.
    pub fn of(&self, collection: &str) -> Arc<Generations> {
        let mut all = self.0.lock().expect("no thread panics while it holds the lock");
        all.entry(collection.to_owned()).or_insert_with(|| Arc::new(Generations::new(collection))).clone()
    }
}

/// The generations of one collection.
#[derive(Debug)]
pub struct Generations {
    collection: String,
    state: Mutex<State>,
    /// Set once the store has said which there are.
    pub listed: OnceCell<()>,
    /// Set once the store has said which documents are the newest.
    pub dated: OnceCell<()>,
}

#[derive(Debug, Default)]
struct State {
    list: Arc<List>,
    /// The newest instant of each day that a document was placed by.
    newest: BTreeMap<i64, i64>,
}

/// Which generations there are at one time.
#[derive(Clone, Debug)]
pub struct List {
    /// Beginnings other than midnight, ascending.
    begins: Vec<i64>,
    /// Generations that end by then were deleted.
    deleted: i64,
}

impl Default for List {
    fn default() -> Self {
        Self { begins: Vec::new(), deleted: i64::MIN }
    }
}

impl List {
    /// Whether some were deleted.
    pub fn deletes(&self) -> bool {
        self.deleted > i64::MIN
    }

    /// From when until when the generation of an instant lasts.
    pub fn span(&self, instant: i64) -> (i64, i64) {
        let midnight = instant.div_euclid(DAY) * DAY;
        let after = self.begins.partition_point(|begin| *begin <= instant);
        let from = after.checked_sub(1).map_or(midnight, |last| self.begins[last].max(midnight));
        let until = self.begins.get(after).map_or(midnight + DAY, |next| (*next).min(midnight + DAY));
        (from, until)
    }
}

impl Generations {
    fn new(collection: &str) -> Self {
        let state = Mutex::new(State::default());
        Self { collection: collection.to_owned(), state, listed: OnceCell::new(), dated: OnceCell::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Which generations there are.
    pub fn list(&self) -> Arc<List> {
        self.state().list.clone()
    }

    /// The generations by which all events of a request are to be placed. From then on none begins at or before the
    /// newest of their instants.
    pub fn place(&self, form: &TakeIn, batch: &Batch, only: Option<&[u32]>) -> Arc<List> {
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

    /// Takes note of the newest instants of documents that the store has.
    pub fn note(&self, instants: impl Iterator<Item = i64>) {
        self.state().note(instants.map(named).map(|instant| (instant.div_euclid(DAY) * DAY, instant)));
    }

    /// The generations that indices, or aliases, of these names are.
    pub fn learn<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let begins = names.filter_map(|name| self.begin_of(name));
        self.state().change(|list| list.begins.extend(begins.filter(|begin| begin.rem_euclid(DAY) != 0)));
    }

    /// Begins a generation behind all documents of the day of an instant, and says when; `None` if the day has no room
    /// for one.
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

    /// Takes note that generations that end by then are deleted: no event is placed in them from now on.
    pub fn delete(&self, until: i64) {
        self.state().change(|list| list.deleted = list.deleted.max(until));
    }

    /// The time of the events: the newest instant that a document was placed by. One ahead of the clock of this machine
    /// counts as now, so that an event with a wrong date does not age all others. `None` before the first document.
    pub fn now(&self, clock: i64) -> Option<i64> {
        let state = self.state();
        state.newest.range(..=clock).next_back().map(|(_, newest)| (*newest).min(clock))
    }

    /// The newest instant of the day of another one.
    pub fn newest(&self, instant: i64) -> Option<i64> {
        self.state().newest.get(&(instant.div_euclid(DAY) * DAY)).copied()
    }

    /// The name of the generation that begins at an instant.
    pub fn name(&self, begin: i64) -> String {
        let mut name = Vec::new();
        write_name(&mut name, &self.collection, begin, &mut Days::default());
        String::from_utf8_lossy(&name).into_owned()
    }

    /// When the generation begins that an index, or an alias, of this name is.
    pub fn begin_of(&self, name: &str) -> Option<i64> {
        let (day, time) = name.strip_prefix(&self.collection)?.strip_prefix('-')?.split_at_checked(10)?;
        let date = day.replace('.', "-");
        let milliseconds = match time.strip_prefix('-') {
            None if time.is_empty() => calendar::milliseconds(&date)?,
            None => return None,
            Some(time) => {
                let (clock, thousandths) = time.rsplit_once('.').filter(|(_, last)| last.len() == 3)?;
                calendar::milliseconds(&format!("{date}T{}.{thousandths}", clock.replace('.', ":")))?
            }
        };
        Some(milliseconds).filter(|begin| self.name(*begin) == name)
    }
}

impl State {
    fn note(&mut self, newest: impl IntoIterator<Item = (i64, i64)>) {
        for (day, instant) in newest {
            let known = self.newest.entry(day).or_insert(instant);
            *known = instant.max(*known);
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut List)) {
        let list = Arc::make_mut(&mut self.list);
        change(list);
        list.begins.sort_unstable();
        list.begins.dedup();
    }
}

fn named(instant: i64) -> i64 {
    instant.clamp(NAMED.0, NAMED.1)
}

fn write_name(name: &mut Vec<u8>, collection: &str, begin: i64, days: &mut Days) {
    name.clear();
    name.extend_from_slice(collection.as_bytes());
    name.push(b'-');
    name.extend_from_slice(days.of(begin).as_bytes());
    let since = begin.rem_euclid(DAY);
    if since > 0 {
        let (hours, minutes) = (since / 3_600_000, since / 60_000 % 60);
        let (seconds, milliseconds) = (since / 1000 % 60, since % 1000);
        name.extend_from_slice(format!("-{hours:02}.{minutes:02}.{seconds:02}.{milliseconds:03}").as_bytes());
    }
}

/// The names of the generations of one event after another. Most have that of the one before, whose name is kept.
#[derive(Debug)]
pub struct Names<'a> {
    collection: &'a str,
    list: &'a List,
    span: (i64, i64),
    name: Vec<u8>,
    days: Days,
}

impl<'a> Names<'a> {
    /// Names of a collection's generations.
    pub fn new(collection: &'a str, list: &'a List) -> Self {
        let name = Vec::with_capacity(collection.len() + "-2017.03.01-00.00.00.000".len());
        Self { collection, list, span: (0, 0), name, days: Days::default() }
    }

    /// The name of the generation of an instant, given in milliseconds since 1970; `None` if it was deleted. An instant
    /// outside of the years 0 to 9999 has the generation of their first or last one.
    pub fn of(&mut self, instant: i64) -> Option<&[u8]> {
        if instant < self.span.0 || instant >= self.span.1 {
            self.span = self.list.span(named(instant));
            write_name(&mut self.name, self.collection, self.span.0, &mut self.days);
        }
        Some(&self.name[..]).filter(|_| self.span.1 > self.list.deleted)
    }
}

/// An index that holds a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its own name.
    pub name: String,
    /// When its generation begins.
    pub begin: i64,
    /// Whether it has that of the generation as an alias, which it was shrunk for.
    pub shrunk: bool,
    /// Whether it takes no writes.
    pub blocked: bool,
    /// How many shards it has.
    pub shards: u64,
    /// How many copies of each shard it has besides.
    pub replicas: u64,
    /// Its aliases, as the store describes them.
    pub aliases: Map<String, Value>,
}

impl Index {
    /// All names that it has.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str()].into_iter().chain(self.aliases.keys().map(String::as_str))
    }
}

impl Generations {
    /// The indices that an answer describes, the oldest generation first; and those that were made of another index and
    /// have not taken its place.
    pub fn read(&self, answer: &Value) -> (Vec<Index>, Vec<String>) {
        let (mut indices, mut unfinished) = (Vec::new(), Vec::new());
        for (name, described) in answer.as_object().into_iter().flatten() {
            let aliases = described["aliases"].as_object().cloned().unwrap_or_default();
            let named = self.begin_of(name);
            let Some(begin) = named.or_else(|| aliases.keys().find_map(|alias| self.begin_of(alias))) else {
                if name.strip_prefix(SHRUNK).is_some_and(|source| self.begin_of(source).is_some()) {
                    unfinished.push(name.clone());
                }
                continue;
            };
            let setting = |name: &str| described["settings"][name].as_str();
            let number = |name: &str| setting(name).and_then(|text| text.parse().ok());
            indices.push(Index {
                name: name.clone(),
                begin,
                shrunk: named.is_none(),
                blocked: setting("index.blocks.write") == Some("true"),
                shards: number("index.number_of_shards").unwrap_or(1),
                replicas: number("index.number_of_replicas").unwrap_or(0),
                aliases,
            });
        }
        indices.sort_by_key(|index| index.begin);
        (indices, unfinished)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::take_in::Daily;
    use crate::take_in::tests::batch;

    const NOON: i64 = 1_488_369_600_000; // 2017-03-01T12:00:00Z

    fn placed(generations: &Generations, instants: &[i64]) -> Vec<String> {
        let events: Vec<_> = instants.iter().map(|instant| (0, "a", *instant, "{}")).collect();
        let form = TakeIn { collection: "ads".into(), daily: Some(Daily::Event) };
        let list = generations.place(&form, &batch(&events), None);
        let mut names = Names::new("ads", &list);
        let text = |name: Option<&[u8]>| name.map_or("deleted".into(), |name| String::from_utf8_lossy(name).into());
        instants.iter().map(|instant| text(names.of(*instant))).collect()
    }

    #[test]
    fn a_document_stays_in_its_generation_when_others_begin() {
        let generations = Register::default().of("ads");
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
        let generations = Register::default().of("ads");
        let mut names: BTreeMap<i64, String> = BTreeMap::new();
        let mut begun = 0;
        for round in 0..2_000 {
            // Bids come in order; a third of the events are for earlier ones, up to hours ago and over midnight.
            let clock = NOON + round * 60_000;
            let instants: Vec<i64> =
                (0..5).map(|_| clock - if draw(3) == 0 { draw(14_400_000) as i64 } else { draw(50) as i64 }).collect();
            for (instant, name) in instants.iter().zip(placed(&generations, &instants)) {
                assert_eq!(names.entry(*instant).or_insert_with(|| name.clone()), &name);
            }
            begun += i32::from(draw(20) == 0 && generations.begin(clock).is_some());
        }
        assert!(begun > 50);
        let again = Register::default().of("ads");
        again.learn(names.values().map(String::as_str));
        for (instant, name) in &names {
            assert_eq!(placed(&again, &[*instant]), [name.as_str()], "the names say all");
        }
    }

    #[test]
    fn no_generation_begins_outside_of_its_day() {
        let generations = Register::default().of("ads");
        placed(&generations, &[NOON / DAY * DAY + DAY - 1]);
        assert_eq!(generations.begin(NOON), None);
        placed(&generations, &[i64::MAX, i64::MIN]);
        assert_eq!(generations.begin(i64::MAX), None);
        assert_eq!(placed(&generations, &[i64::MAX, i64::MIN]), ["ads-9999.12.31", "ads-0000.01.01"]);
    }

    #[test]
    fn names_that_are_not_of_a_generation_say_nothing() {
        let generations = Register::default().of("ads");
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

    #[test]
    fn the_time_of_the_events_is_not_ahead_of_the_clock() {
        let generations = Register::default().of("ads");
        assert_eq!(generations.now(NOON), None);
        placed(&generations, &[NOON - 10, NOON + 300 * DAY]);
        assert_eq!(generations.now(NOON), Some(NOON - 10));
        assert_eq!(generations.now(NOON + 300 * DAY - 1), Some(NOON + 300 * DAY - 1));
    }

    #[test]
    fn events_of_deleted_generations_are_not_placed() {
        let generations = Register::default().of("ads");
        placed(&generations, &[NOON]);
        generations.begin(NOON);
        generations.delete(NOON + 1);
        assert_eq!(placed(&generations, &[NOON, NOON + 1]), ["deleted", "ads-2017.03.01-12.00.00.001"]);
        generations.delete(NOON);
        assert_eq!(placed(&generations, &[NOON - DAY]), ["deleted"], "what is deleted stays deleted");
    }

    #[test]
    fn a_generation_is_an_index_or_its_alias() {
        let settings =
            |blocked: bool| json!({"index.number_of_shards": "3", "index.blocks.write": blocked.to_string()});
        let answer = json!({
            "ads-2017.03.01": {"aliases": {"ad_data": {}}, "settings": settings(true)},
            "shrunk-ads-2017.02.28": {"aliases": {"ad_data": {}, "ads-2017.02.28": {}}, "settings": {}},
            "shrunk-ads-2017.03.01": {"aliases": {}, "settings": {}},
            "ads-old": {"aliases": {}, "settings": {}},
        });
        let generations = Register::default().of("ads");
        let (indices, unfinished) = generations.read(&answer);
        let said: Vec<_> = indices.iter().map(|i| (i.name.as_str(), i.shrunk, i.blocked, i.shards)).collect();
        assert_eq!(said, [("shrunk-ads-2017.02.28", true, false, 1), ("ads-2017.03.01", false, true, 3)]);
        assert_eq!(unfinished, ["shrunk-ads-2017.03.01"]);
    }
}
