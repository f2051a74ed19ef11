//! Places like those in the GeoNames gazetteer: the same fields, about the same size (300 bytes), synthetic
//! names.
//!
//! Countries and feature classes have rounded shares of the gazetteer. Coordinates lie around a country's
//! centre.

use super::Generate;
use super::quantiles::pick;
use super::words::push_name;
use crate::util::digits::{push_f64, push_u64};
use crate::util::draw::{Draw, hash_name};
use crate::util::math;

/// (share of places, country)
const COUNTRIES: [(f64, Country); 12] = [
    (0.20, Country { code: "US", zone: "America/Chicago", middle: (-95.0, 38.0), spread: (22.0, 9.0) }),
    (0.12, Country { code: "CN", zone: "Asia/Shanghai", middle: (108.0, 32.0), spread: (14.0, 9.0) }),
    (0.10, Country { code: "IN", zone: "Asia/Kolkata", middle: (79.0, 22.0), spread: (8.0, 9.0) }),
    (0.09, Country { code: "NO", zone: "Europe/Oslo", middle: (11.0, 63.0), spread: (6.0, 5.0) }),
    (0.09, Country { code: "MX", zone: "America/Mexico_City", middle: (-101.0, 22.0), spread: (9.0, 5.0) }),
    (0.08, Country { code: "ID", zone: "Asia/Jakarta", middle: (114.0, -3.0), spread: (15.0, 5.0) }),
    (0.07, Country { code: "RU", zone: "Europe/Moscow", middle: (60.0, 57.0), spread: (30.0, 8.0) }),
    (0.06, Country { code: "CA", zone: "America/Toronto", middle: (-90.0, 51.0), spread: (28.0, 7.0) }),
    (0.06, Country { code: "PK", zone: "Asia/Karachi", middle: (69.0, 30.0), spread: (5.0, 5.0) }),
    (0.05, Country { code: "DE", zone: "Europe/Berlin", middle: (10.0, 51.0), spread: (4.0, 3.0) }),
    (0.05, Country { code: "FR", zone: "Europe/Paris", middle: (2.0, 47.0), spread: (4.0, 4.0) }),
    (0.03, Country { code: "AU", zone: "Australia/Sydney", middle: (140.0, -28.0), spread: (12.0, 8.0) }),
];

#[derive(Clone, Copy)]
struct Country {
    code: &'static str,
    zone: &'static str,
    /// Longitude and latitude, degrees.
    middle: (f64, f64),
    spread: (f64, f64),
}

/// (share of places, class, code)
const FEATURES: [(f64, (&str, &str)); 12] = [
    (0.38, ("P", "PPL")),
    (0.14, ("H", "STM")),
    (0.07, ("T", "HLL")),
    (0.06, ("T", "MT")),
    (0.06, ("S", "SCH")),
    (0.06, ("H", "LK")),
    (0.05, ("S", "CH")),
    (0.05, ("A", "ADM4")),
    (0.05, ("L", "LCTY")),
    (0.04, ("S", "FRM")),
    (0.03, ("R", "RD")),
    (0.01, ("V", "FRST")),
];

/// Generator of places.
#[derive(Debug)]
pub struct Geonames {
    seed: u64,
    stream: u64,
}

impl Geonames {
    /// Creates a generator; `seed` determines its documents.
    pub fn new(seed: u64) -> Self {
        Self { seed, stream: hash_name("geonames") }
    }
}

impl Generate for Geonames {
    /// Appends place `number`, a JSON object with the gazetteer's fields.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        let country = pick(&COUNTRIES, draw.unit(1));
        let (class, code) = pick(&FEATURES, draw.unit(2));
        let text = |out: &mut Vec<u8>, key: &str, value: &str| {
            for part in [",\"", key, "\":\"", value, "\""] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        out.extend_from_slice(b"{\"geonameid\":");
        push_u64(out, number + 1);
        for key in ["name", "asciiname"] {
            text(out, key, "");
            out.pop();
            push_name(out, draw.bits(3));
            if code != "PPL" {
                out.push(b' ');
                push_name(out, draw.bits(4));
            }
            out.push(b'"');
        }
        if draw.unit(5) < 0.4 {
            text(out, "alternatenames", "");
            out.pop();
            for other in 0..=draw.bits(6) % 4 {
                if other > 0 {
                    out.push(b',');
                }
                push_name(out, draw.bits(32 + other));
            }
            out.push(b'"');
        }
        text(out, "feature_class", class);
        text(out, "feature_code", code);
        text(out, "country_code", country.code);
        if draw.unit(7) < 0.02 {
            text(out, "cc2", country.code);
        }
        for (key, salt, most, share) in [
            ("admin1_code", 8, 50, 0.99),
            ("admin2_code", 9, 300, 0.7),
            ("admin3_code", 10, 900, 0.3),
            ("admin4_code", 11, 9000, 0.15),
        ] {
            if draw.unit(salt) < share {
                text(out, key, "");
                out.pop();
                push_u64(out, 1 + draw.bits(salt + 100) % most);
                out.push(b'"');
            }
        }
        out.extend_from_slice(b",\"population\":");
        // Few places have a population on record. The logarithm of a town's population is uniform.
        let populated = class == "P" && draw.unit(12) < 0.15;
        push_u64(out, if populated { math::exp(draw.unit(13) * math::ln(1e7f64)) as u64 } else { 0 });
        let root = draw.unit(14);
        let height = (root * root * root * 3500.0) as u64;
        if draw.unit(15) < 0.2 {
            out.extend_from_slice(b",\"elevation\":");
            push_u64(out, height);
        }
        text(out, "dem", "");
        out.pop();
        push_u64(out, height);
        out.push(b'"');
        text(out, "timezone", country.zone);
        // The sum of two uniform numbers concentrates places in the middle.
        let place = |middle: f64, spread: f64, salt: u64| {
            let at = middle + spread * (draw.unit(salt) + draw.unit(salt + 1) - 1.0);
            (at * 1e5).round() / 1e5
        };
        out.extend_from_slice(b",\"location\":[");
        push_f64(out, place(country.middle.0, country.spread.0, 16));
        out.push(b',');
        push_f64(out, place(country.middle.1, country.spread.1, 18));
        out.extend_from_slice(b"]}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn places_have_the_gazetteers_fields_size_and_skew() {
        let generator = Geonames::new(1);
        let (mut bytes, mut countries) = (0, BTreeMap::<String, u32>::new());
        for number in 0..20_000 {
            let mut out = Vec::new();
            generator.append(number, &mut out);
            bytes += out.len();
            let place: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(place["geonameid"], number + 1);
            let (longitude, latitude) =
                (place["location"][0].as_f64().unwrap(), place["location"][1].as_f64().unwrap());
            assert!(longitude.abs() <= 180.0 && latitude.abs() <= 90.0);
            for key in ["name", "asciiname", "feature_class", "feature_code", "timezone", "dem"] {
                assert!(!place[key].as_str().unwrap().is_empty(), "{key}");
            }
            assert!(place["population"].is_u64());
            *countries.entry(place["country_code"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let mean = bytes as f64 / 20_000.0;
        assert!((250.0..350.0).contains(&mean), "{mean} bytes a place; the gazetteer has 307");
        let shares: f64 = COUNTRIES.iter().map(|(share, _)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        let expected = |share: f64| share * 20_000.0;
        let chi2: f64 = COUNTRIES
            .iter()
            .map(|(share, country)| (f64::from(countries[country.code]) - expected(*share)).powi(2) / expected(*share))
            .sum();
        assert!(chi2 < 31.26, "chi-squared {chi2} with 11 degrees of freedom exceeds its 99.9 % quantile");
    }
}
