use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::*;
use crate::plan::Level;

/// 2017-03-01T12:00:00Z.
const START: i64 = 1_488_369_600 * SECOND;
const WHOLE: Stride = Stride { index: 0, of: 1 };

/// Creates the generator of a share of a log with a constant rate.
fn generator(seed: u64, rate: f64, documents: u64, share: Stride) -> Adbids {
    let rate = Profile::new(&Level::Constant(rate)).unwrap();
    Adbids::new(&GeneratorOptions {
        seed,
        rate,
        documents: Some(documents),
        start: START / 1_000_000,
        share,
        with: &Map::new(),
    })
    .unwrap()
}

/// Returns all lines, with their due times in ns.
fn log(mut generator: Adbids) -> Vec<(i64, String)> {
    let mut log = Vec::new();
    let mut out = Vec::new();
    while let Some(due) = generator.next(&mut out) {
        log.push((due.as_nanos() as i64, String::from_utf8(std::mem::take(&mut out)).unwrap()));
    }
    log
}

/// Returns the events of one kind.
fn of_kind(log: &[(i64, String)], kind: &str) -> Vec<Value> {
    let events = log.iter().map(|(_, line)| serde_json::from_str(line).unwrap());
    events.filter(|event| text(event, "/type") == kind).collect()
}

/// Returns the string at a JSON pointer in an event.
fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap()
}

/// Asserts that a share of `n` draws is within 4.5 standard errors of `expected`.
#[track_caller]
fn assert_share(share: usize, n: usize, expected: f64, what: &str) {
    let share = share as f64 / n as f64;
    let error = (expected * (1.0 - expected) / n as f64).sqrt();
    assert!(
        (share - expected).abs() < 4.5 * error,
        "{what}: {share} where {expected} is expected, standard error {error}"
    );
}

/// Asserts that values have a truncated exponential distribution, by its distribution function at four
/// values.
#[track_caller]
fn assert_exponential(values: &[f64], rate: f64, max: f64, what: &str) {
    assert!(values.iter().all(|value| (0.0..=max).contains(value)), "{what} is between 0 and {max}");
    for part in [0.2, 0.5, 1.0, 2.0] {
        let bound = (part * max / rate).ceil();
        let expected = (1.0 - (-bound * rate / max).exp()) / (1.0 - (-rate).exp());
        let below = values.iter().filter(|value| **value < bound).count();
        if expected < 1.0 {
            assert_share(below, values.len(), expected, &format!("{what} below {bound}"));
        }
    }
}

/// Parses a time as nanoseconds since 1970.
fn nanoseconds_of(time: &str) -> i64 {
    let time: jiff::Timestamp = time.parse().unwrap();
    time.as_nanosecond() as i64
}

#[test]
fn a_bid_has_the_published_fields_and_its_win_and_click_name_it() {
    let log = log(generator(1, 1000.0, 20_000, WHOLE));
    let bids: BTreeMap<String, Value> =
        of_kind(&log, "bid").into_iter().map(|bid| (text(&bid, "/id").to_owned(), bid)).collect();
    assert_eq!(bids.len(), 20_000, "each bid has a unique id");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for bid in bids.values() {
        assert_eq!(
            keys(bid),
            ["type", "id", "time", "targeting", "publisher", "campaign_id", "ad_url", "bid_price"].map(str::to_owned)
        );
        let campaign = bid["campaign_id"].as_u64().unwrap();
        let ad: u64 = text(bid, "/ad_url").strip_prefix("https://ad.zemanta.com/").unwrap().parse().unwrap();
        assert_eq!(ad / 100, campaign);
        assert!(bid["bid_price"].as_f64().unwrap() >= 0.001);
        let american = text(bid, "/targeting/geo/country") == "US";
        assert_eq!(american, !text(bid, "/targeting/geo/zip").is_empty());
    }
    for kind in ["win", "click"] {
        for event in of_kind(&log, kind) {
            let bid = &bids[text(&event, "/bid_id")];
            assert_eq!(text(&event, "/bid_time"), text(bid, "/time"));
            if kind == "win" {
                let (won, bid) = (event["win_price"].as_f64().unwrap(), bid["bid_price"].as_f64().unwrap());
                assert!(won >= 0.001 && won <= bid && won >= bid / 2.0 - 0.001, "won for {won} with a bid of {bid}");
            }
        }
    }
}

#[test]
fn events_come_in_the_order_of_their_times_and_bids_at_the_rate() {
    let log = log(generator(7, 200.0, 100_000, WHOLE));
    let events: Vec<Value> = log.iter().map(|(_, line)| serde_json::from_str(line).unwrap()).collect();
    let last = events.iter().rposition(|event| text(event, "/type") == "bid").unwrap();
    let times: Vec<i64> = events.iter().map(|event| nanoseconds_of(text(event, "/time"))).collect();
    assert!(times.is_sorted());
    for ((due, _), time) in log[..=last].iter().zip(&times) {
        assert_eq!(*due, time - START);
    }
    let end = log[last].0;
    assert_eq!(end, 99_999 * SECOND / 200);
    assert!(log[last..].iter().all(|(due, _)| *due == end), "what is still to come then is due with the last bid");
    assert!(log.len() > last + 1, "something is still to come");
}

#[test]
fn shares_make_the_same_log_as_one_generator() {
    let whole: BTreeSet<String> = log(generator(5, 1000.0, 10_001, WHOLE)).into_iter().map(|(_, line)| line).collect();
    for of in [2, 7] {
        let shares = (0..of).flat_map(|index| log(generator(5, 1000.0, 10_001, Stride { index, of })));
        let mut lines = 0;
        let union: BTreeSet<String> = shares.map(|(_, line)| line).inspect(|_| lines += 1).collect();
        assert_eq!(lines, whole.len());
        assert!(union == whole, "{of} shares make the same events");
    }
}

#[test]
fn logs_of_another_seed_or_start_have_other_ids_at_the_same_instants() {
    let ids = |seed, start| -> BTreeSet<String> {
        let rate = Profile::new(&Level::Constant(1000.0)).unwrap();
        let (start, with) = (START / 1_000_000 + start, Map::new());
        let order = GeneratorOptions { seed, rate, documents: Some(2000), start, share: WHOLE, with: &with };
        of_kind(&log(Adbids::new(&order).unwrap()), "bid").iter().map(|bid| text(bid, "/id").to_owned()).collect()
    };
    let first = ids(1, 0);
    assert_eq!(first.len(), 2000);
    assert!(first.is_disjoint(&ids(2, 0)));
    assert!(first.is_disjoint(&ids(1, 500)), "the second half of the one has the instants of the other's first");
}

/// Times are nanoseconds in 64 bits, which end in 2262.
#[test]
fn a_start_whose_times_do_not_fit_into_64_bits_is_refused() {
    let with = Map::new();
    let made = |start: &str| {
        let (start, rate) = (calendar::milliseconds(start).unwrap(), Profile::new(&Level::Constant(0.95e-8)).unwrap());
        Adbids::new(&GeneratorOptions { seed: 1, rate, documents: None, start, share: WHOLE, with: &with })
    };
    for start in ["0001-01-01", "2200-01-01", "2263-01-01T12:00:00", "9999-12-31"] {
        let error = made(start).unwrap_err().message;
        assert!(error.starts_with("start must be in the years 1740 to 2199; got "), "{error}");
        assert!(error.contains(start), "{error}");
    }
    // The log ends after 30 years.
    let bids = of_kind(&log(made("2199-12-31").unwrap()), "bid");
    let times: Vec<&str> = bids.iter().map(|bid| &text(bid, "/time")[..10]).collect();
    assert_eq!(times.len(), 10);
    assert_eq!((times[0], times[9]), ("2199-12-31", "2230-01-07"));
}

/// A rate that falls to 0 ends the log.
#[test]
fn a_level_that_ends_at_nothing_ends_the_log() {
    let level = serde_json::json!({"from": 100.0, "stages": [{"to": 100.0, "over": 2.0}, {"to": 0.0, "over": 0.0}]});
    let level: Level = serde_json::from_value(level).unwrap();
    let rate = Profile::new(&level).unwrap();
    let order = GeneratorOptions { seed: 1, rate, documents: None, start: 0, share: WHOLE, with: &Map::new() };
    assert_eq!(of_kind(&log(Adbids::new(&order).unwrap()), "bid").len(), 200);
}

#[test]
fn shares_and_delays_are_the_published_ones() {
    let log = log(generator(11, 10_000.0, 400_000, WHOLE));
    let (wins, clicks) = (of_kind(&log, "win"), of_kind(&log, "click"));
    assert_share(wins.len(), 400_000, 0.1, "wins of bids");
    assert_share(clicks.len(), wins.len(), 0.01, "clicks of wins");
    let delays = |events: &[Value]| -> Vec<f64> {
        let delay = |event: &Value| nanoseconds_of(text(event, "/time")) - nanoseconds_of(text(event, "/bid_time"));
        events.iter().map(|event| delay(event) as f64 / 1e9).collect()
    };
    assert_exponential(&delays(&wins), 100.0, 300.0, "the delay of a win");
    assert_exponential(&delays(&clicks), 100.0, 3600.0, "the delay of a click");
    let won: BTreeSet<&str> = wins.iter().map(|win| text(win, "/bid_id")).collect();
    assert!(clicks.iter().all(|click| won.contains(text(click, "/bid_id"))), "only won bids are clicked");
}

#[test]
fn fields_have_the_published_distributions() {
    const BIDS: usize = 100_000;
    let bids = of_kind(&log(generator(13, 10_000.0, BIDS as u64, WHOLE)), "bid");
    let count = |pointer: &str, value: &str| bids.iter().filter(|bid| text(bid, pointer) == value).count();

    // Shares from the study's own figures.
    let american = count("/targeting/geo/country", "US");
    assert_share(american, BIDS, 0.5715, "US");
    assert_share(count("/targeting/geo/country", "GB"), BIDS, 0.245, "GB");
    assert_share(count("/targeting/geo/country", "FR"), BIDS, 0.105, "FR");
    assert_share(count("/targeting/geo/region", "NY"), american, 0.00214, "New York in the US");
    for (share, kind) in [(1.0 / 3.0, "mobile"), (1.0 / 3.0, "desktop"), (1.0 / 3.0, "tablet")] {
        assert_share(count("/targeting/device/type", kind), BIDS, share, kind);
    }
    for (weight, gender) in [(100.0, ""), (50.0, "male"), (55.0, "female"), (1.0, "other")] {
        assert_share(count("/targeting/demographic/gender", gender), BIDS, weight / 206.0, gender);
    }
    for (weight, age) in [
        (100.0, ""),
        (10.0, "12-17"),
        (20.0, "18-24"),
        (30.0, "25-34"),
        (20.0, "35-44"),
        (15.0, "45-54"),
        (10.0, "55-64"),
        (5.0, "65+"),
    ] {
        assert_share(count("/targeting/demographic/age_range", age), BIDS, weight / 210.0, age);
    }

    let numbers = |number: &dyn Fn(&Value) -> f64| -> Vec<f64> { bids.iter().map(number).collect() };
    let campaigns = numbers(&|bid| bid["campaign_id"].as_f64().unwrap());
    assert_exponential(&campaigns, 1.0, 1000.0, "the campaign");
    let ad = |bid: &Value| text(bid, "/ad_url").rsplit('/').next().unwrap().parse::<u64>().unwrap() % 100;
    assert_exponential(&numbers(&|bid| ad(bid) as f64), 1.0, 100.0, "the ad");
    let publisher = |bid: &Value| {
        let rest = text(bid, "/publisher").strip_prefix("https://").unwrap().strip_suffix(".html").unwrap().to_owned();
        let (domain, page) = rest.split_once(".example.com/").unwrap();
        (domain.parse::<f64>().unwrap(), page.parse::<f64>().unwrap())
    };
    assert_exponential(&numbers(&|bid| publisher(bid).0), 10.0, 1000.0, "the publisher's domain");
    assert_exponential(&numbers(&|bid| publisher(bid).1), 10.0, 1000.0, "the publisher's page");
    assert_exponential(&numbers(&|bid| bid["bid_price"].as_f64().unwrap()), 10.0, 20.0, "the price of a bid");
    let zips = bids.iter().filter_map(|bid| text(bid, "/targeting/geo/zip").parse().ok()).collect::<Vec<f64>>();
    assert_eq!(zips.len(), american);
    assert_exponential(&zips, 100.0, 10_000.0, "the zip");
}

#[test]
fn instants_are_written_with_nanoseconds_and_a_zone() {
    let mut clock = Clock::default();
    for (time, text) in [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (START + 1, "2017-03-01T12:00:00.000000001Z"),
        (START + 123_456_789, "2017-03-01T12:00:00.123456789Z"),
        (START - 1, "2017-03-01T11:59:59.999999999Z"),
    ] {
        let mut out = Vec::new();
        clock.push(time, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn places_are_as_many_as_the_study_says_and_each_is_named_once() {
    for (list, length) in [(&COUNTRIES[..], 118), (regions(0), 50), (regions(1), 26), (regions(2), 18)] {
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), length);
    }
}
