//! Log of an advertiser: bids, of which one in ten wins. One win in a hundred is clicked.
//!
//! Kinds of events, shares, delays and the distributions of all fields follow a study published in 2017. Bid
//! number *k*, with its win and click, is a pure function of (seed, start, rate, *k*). Generators that stride
//! the bids therefore produce the same log together as a single one. A generator keeps its pending wins and
//! clicks, and emits all events in order of time.

mod places;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Generate, GeneratorOptions};
use crate::pacing::profile::Profile;
use crate::pacing::schedule::Stride;
use crate::plan::{NEVER, PlanError};
use crate::util::calendar;
use crate::util::digits::{pair, push_u64};
use crate::util::draw::{Draw, hash_name, mix};
use crate::util::math;
use places::{COUNTRIES, regions};

const SECOND: i64 = 1_000_000_000;
/// Largest distance of a start from 1970, 230 years. The log may continue for 30 years in 64 bits of nanoseconds.
const FARTHEST: i64 = 7_258_118_400 * SECOND;
const WON: f64 = 0.1;
const CLICKED: f64 = 0.01;

const CAMPAIGN: Exponential = Exponential::new(1.0, 1000.0);
const AD: Exponential = Exponential::new(1.0, 100.0);
const PUBLISHER: Exponential = Exponential::new(10.0, 1000.0);
const COUNTRY: Exponential = Exponential::new(100.0, COUNTRIES.len() as f64);
const ZIP: Exponential = Exponential::new(100.0, 10_000.0);
/// Thousandths.
const PRICE: Exponential = Exponential::new(10.0, 20_000.0);
/// Seconds after the bid.
const WIN_DELAY: Exponential = Exponential::new(100.0, 300.0);
const CLICK_DELAY: Exponential = Exponential::new(100.0, 3600.0);

/// Three kinds of devices with three systems each, equally frequent. The study names only the kinds.
const DEVICES: [(&str, [&str; 3]); 3] = [
    ("mobile", ["Android", "iOS", "Windows Phone"]),
    ("desktop", ["Windows", "macOS", "Linux"]),
    ("tablet", ["Android", "iOS", "Windows"]),
];

/// Weights; the gender of most people is unknown.
const GENDERS: [(u32, &str); 4] = [(100, ""), (50, "male"), (55, "female"), (1, "other")];
const AGES: [(u32, &str); 8] =
    [(100, ""), (10, "12-17"), (20, "18-24"), (30, "25-34"), (20, "35-44"), (15, "45-54"), (10, "55-64"), (5, "65+")];

/// Exponential distribution with mean `max / rate`, redrawn while it exceeds `max`, by inversion.
#[derive(Clone, Copy, Debug)]
struct Exponential {
    rate: f64,
    max: f64,
}

impl Exponential {
    /// Creates the exponential distribution with mean `max / rate`, redrawn while it exceeds `max`, which lowers the
    /// mean. Both must be above 0, which is not checked.
    const fn new(rate: f64, max: f64) -> Self {
        Self { rate, max }
    }

    /// Returns the quantile of a share `unit`, in [0, 1): a number from 0 to `max`.
    #[inline]
    fn at(self, unit: f64) -> f64 {
        // 1 - e^-rate is the share of draws that are not redrawn.
        let kept = -math::exp_m1(-self.rate);
        -math::ln(1.0 - unit * kept) * (self.max / self.rate)
    }

    /// Returns the quantile of a share `unit` as an index in a list of `max` entries.
    #[inline]
    fn place(self, unit: f64) -> usize {
        (self.at(unit) as usize).min(self.max as usize - 1)
    }
}

/// A pending win or click, ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    /// Nanoseconds since 1970, as is `bid`.
    time: i64,
    bid: i64,
    /// Price of a win, thousandths; `None` for a click.
    price: Option<u64>,
}

/// Generator of the log, or of one share of it.
#[derive(Debug)]
pub struct Adbids {
    seed: u64,
    stream: u64,
    start: i64,
    /// Suffix of ids, after the bid's nanoseconds since 1970.
    log: u64,
    rate: Profile,
    documents: u64,
    share: Stride,
    /// Number and time of the next bid, ns since 1970; `None` after the last.
    next: Option<(u64, i64)>,
    /// When the last event was due, nanoseconds since 1970.
    last: i64,
    pending: BinaryHeap<Reverse<Pending>>,
    clock: Clock,
}

impl Adbids {
    /// Creates the generator of a share of the log. Refuses a start outside the years 1740 to 2199.
    pub fn new(order: &GeneratorOptions<'_>) -> Result<Self, PlanError> {
        let stream = hash_name("adbids");
        let start = order.start.checked_mul(1_000_000).filter(|start| (-FARTHEST..FARTHEST).contains(start));
        let start = start.ok_or_else(|| {
            let start = calendar::at(order.start).map_or_else(|| order.start.to_string(), |start| start.to_string());
            PlanError::new(format!("start must be in the years 1740 to 2199; got {start}"))
        })?;
        let mut adbids = Self {
            seed: order.seed,
            stream,
            start,
            // Two logs may have bids at the same times: with different seeds, with clocks that differ, or
            // when one log runs ahead of the clock.
            log: mix(mix(order.seed ^ stream) ^ start as u64) >> 44,
            rate: order.rate.clone(),
            documents: order.documents.unwrap_or(u64::MAX),
            share: order.share,
            next: None,
            last: start,
            pending: BinaryHeap::new(),
            clock: Clock::default(),
        };
        adbids.next = adbids.bid(order.share.index);
        Ok(adbids)
    }

    /// Returns `number` and the time of this bid, nanoseconds since 1970; `None` beyond the last, and from 30 years
    /// after the start.
    fn bid(&self, number: u64) -> Option<(u64, i64)> {
        let seconds = (number < self.documents).then(|| self.rate.inverse(number as f64))??;
        (seconds < NEVER).then(|| (number, self.start + (seconds * SECOND as f64) as i64))
    }

    /// Appends bid `number` as JSON, and draws its win and click, which are added to the pending events. `time`:
    /// nanoseconds since 1970.
    fn push_bid(&mut self, number: u64, time: i64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        let mut salt = 0;
        let mut unit = || {
            salt += 1;
            draw.unit(salt)
        };
        let country = COUNTRY.place(unit());
        let regions = regions(country);
        let region = unit();
        let region =
            if regions.is_empty() { "" } else { regions[Exponential::new(100.0, regions.len() as f64).place(region)] };
        let zip = ZIP.place(unit());
        let (device, systems) = DEVICES[(unit() * DEVICES.len() as f64) as usize];
        let system = systems[(unit() * systems.len() as f64) as usize];
        let gender = weighted(&GENDERS, unit());
        let age = weighted(&AGES, unit());
        let (domain, page) = (PUBLISHER.place(unit()), PUBLISHER.place(unit()));
        let (campaign, ad) = (CAMPAIGN.place(unit()), AD.place(unit()));
        let price = (PRICE.at(unit()) as u64).max(1);

        out.reserve(512);
        out.extend_from_slice(b"{\"type\":\"bid\",\"id\":\"");
        self.push_id(time, out);
        out.extend_from_slice(b"\",\"time\":\"");
        self.clock.push(time, out);
        out.extend_from_slice(b"\",\"targeting\":{\"geo\":{\"country\":\"");
        out.extend_from_slice(COUNTRIES[country].as_bytes());
        out.extend_from_slice(b"\",\"region\":\"");
        out.extend_from_slice(region.as_bytes());
        out.extend_from_slice(b"\",\"zip\":\"");
        if country == 0 {
            push_u64(out, zip as u64);
        }
        out.extend_from_slice(b"\"},\"device\":{\"type\":\"");
        out.extend_from_slice(device.as_bytes());
        out.extend_from_slice(b"\",\"os\":\"");
        out.extend_from_slice(system.as_bytes());
        out.extend_from_slice(b"\"},\"demographic\":{\"gender\":\"");
        out.extend_from_slice(gender.as_bytes());
        out.extend_from_slice(b"\",\"age_range\":\"");
        out.extend_from_slice(age.as_bytes());
        out.extend_from_slice(b"\"}},\"publisher\":\"https://");
        push_u64(out, domain as u64);
        out.extend_from_slice(b".example.com/");
        push_u64(out, page as u64);
        out.extend_from_slice(b".html\",\"campaign_id\":");
        push_u64(out, campaign as u64);
        out.extend_from_slice(b",\"ad_url\":\"https://ad.zemanta.com/");
        push_u64(out, (campaign * 100 + ad) as u64);
        out.extend_from_slice(b"\",\"bid_price\":");
        push_thousandths(out, price);
        out.push(b'}');

        if unit() < WON {
            let at = time + nanoseconds(WIN_DELAY.at(unit()));
            let paid = ((price as f64 * (unit() / 2.0 + 0.5)) as u64).max(1);
            self.pending.push(Reverse(Pending { time: at, bid: time, price: Some(paid) }));
            if unit() < CLICKED {
                let at = time + nanoseconds(CLICK_DELAY.at(unit()));
                self.pending.push(Reverse(Pending { time: at, bid: time, price: None }));
            }
        }
    }

    /// Appends a win (if it has a price) or a click as JSON.
    fn push_later(&mut self, Pending { time, bid, price }: Pending, out: &mut Vec<u8>) {
        let kind: &[u8] = if price.is_some() { b"win" } else { b"click" };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind);
        out.extend_from_slice(b"\",\"bid_id\":\"");
        self.push_id(bid, out);
        out.extend_from_slice(b"\",\"bid_time\":\"");
        self.clock.push(bid, out);
        out.extend_from_slice(b"\",\"time\":\"");
        self.clock.push(time, out);
        out.push(b'"');
        if let Some(price) = price {
            out.extend_from_slice(b",\"win_price\":");
            push_thousandths(out, price);
        }
        out.push(b'}');
    }

    /// Appends the unique id of the bid at `time`, nanoseconds since 1970.
    fn push_id(&self, time: i64, out: &mut Vec<u8>) {
        push_u64(out, time as u64);
        push_u64(out, self.log);
    }
}

impl Generate for Adbids {
    /// Appends the next event by time. Returns its due time after the log's start; `None` at the end.
    ///
    /// With a number of documents, wins and clicks pending at the last bid are due with it, but keep their
    /// own times. Otherwise the last click could be due an hour later.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Duration> {
        let pending = self.pending.peek().map(|Reverse(pending)| *pending);
        match (self.next, pending) {
            (Some((number, time)), pending) if pending.is_none_or(|pending| time <= pending.time) => {
                self.last = time;
                self.next = number.checked_add(self.share.of).and_then(|number| self.bid(number));
                self.push_bid(number, time, out);
            }
            (next, Some(pending)) => {
                self.pending.pop();
                if next.is_some() {
                    self.last = pending.time;
                }
                self.push_later(pending, out);
            }
            (_, None) => return None,
        }
        Some(Duration::from_nanos((self.last - self.start) as u64))
    }
}

/// Formats times. It keeps the text of the last second, since events are in order of time.
#[derive(Debug)]
struct Clock {
    second: i64,
    text: [u8; 20],
}

impl Default for Clock {
    /// Creates a formatter at the start of 1970.
    fn default() -> Self {
        Self { second: 0, text: *b"1970-01-01T00:00:00." }
    }
}

impl Clock {
    /// Appends a time, given in nanoseconds since 1970, as `2017-03-01T12:00:00.123456789Z`.
    #[inline]
    fn push(&mut self, time: i64, out: &mut Vec<u8>) {
        let second = time.div_euclid(SECOND);
        if second != self.second {
            let at = calendar::at(second * 1000).expect("64 bits of nanoseconds since 1970 end in 2262");
            let text = format!("{at}.");
            self.text = text.as_bytes().try_into().expect("a date and a time of whole seconds have 19 characters");
            self.second = second;
        }
        let mut rest = time.rem_euclid(SECOND) as u64;
        let mut fraction = *b"000000000Z";
        fraction[8] += (rest % 10) as u8;
        rest /= 10;
        for place in (0..4).rev() {
            fraction[place * 2..place * 2 + 2].copy_from_slice(pair(rest % 100));
            rest /= 100;
        }
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&fraction);
    }
}

/// Appends an amount in thousandths as a decimal number: `1.234`.
fn push_thousandths(out: &mut Vec<u8>, amount: u64) {
    push_u64(out, amount / 1000);
    let rest = amount % 1000;
    out.push(b'.');
    out.extend_from_slice(pair(rest / 10));
    out.push(b'0' + (rest % 10) as u8);
}

/// Converts seconds to nanoseconds.
fn nanoseconds(seconds: f64) -> i64 {
    (seconds * SECOND as f64) as i64
}

/// Returns the entry that `unit`, in [0, 1), selects in proportion to the weights.
fn weighted(entries: &[(u32, &'static str)], unit: f64) -> &'static str {
    let all: u32 = entries.iter().map(|(weight, _)| weight).sum();
    let mut place = unit * f64::from(all);
    for (weight, entry) in entries {
        place -= f64::from(*weight);
        if place < 0.0 {
            return entry;
        }
    }
    entries[0].1
}

#[cfg(test)]
mod tests;
