//! Revisions of Wikipedia pages with synthetic text and names. The numbers of revisions per page and their
//! lengths follow the published distributions of the English Wikipedia, from a 2014 study of a sharded
//! document store.

use super::Generate;
use super::quantiles::Quantiles;
use super::words::{Pool, push_name};
use crate::util::digits::push_u64;
use crate::util::draw::{Draw, hash_name, mix};
use crate::util::math;
use crate::workload::text::push_second;

/// (share of pages, revisions): published minimum, quartiles and maximum. The point between the last two
/// yields the published mean, 904.8.
const REVISIONS: [(f64, f64); 6] =
    [(0.0, 0.0), (0.25, 32.0), (0.5, 230.0), (0.75, 903.0), (0.97, 2997.0), (1.0, 16_827.0)];

/// (share of revisions, bytes): likewise, for a mean of 14,550.
const BYTES: [(f64, f64); 6] =
    [(0.0, 281.0), (0.25, 1620.0), (0.5, 7432.0), (0.75, 20_400.0), (0.97, 40_800.0), (1.0, 157_100.0)];

/// Period of the pages: this many have the distribution's shape, and the following ones repeat it.
const PAGES: u64 = 4096;

/// Seconds since 1970 of the first revision and of the study: 15 January 2001, 1 January 2014.
const FROM: f64 = 979_516_800.0;
const TO: f64 = 1_388_534_400.0;

/// Generator of revisions.
#[derive(Debug)]
pub struct WikipediaRevision {
    seed: u64,
    stream: u64,
    bytes: Quantiles,
    pool: Pool,
    /// Number of each page's first revision, and the total at the end.
    first: Box<[u64]>,
}

impl WikipediaRevision {
    /// Creates a generator; `seed` determines its documents. Builds its tables and its text pool.
    pub fn new(seed: u64) -> Self {
        let revisions = Quantiles::new(&REVISIONS);
        let mut first = vec![0];
        let mut sum = 0;
        for page in 0..PAGES {
            // An odd factor permutes a power of two, so that long and short histories alternate.
            let rank = (page * 1597 + 1) % PAGES;
            sum += revisions.at((rank as f64 + 0.5) / PAGES as f64).round() as u64;
            first.push(sum);
        }
        Self {
            seed,
            stream: hash_name("wikipedia_revision"),
            bytes: Quantiles::new(&BYTES),
            pool: Pool::new(seed),
            first: first.into(),
        }
    }
}

impl Generate for WikipediaRevision {
    /// Appends revision `number`, a JSON object. Successive numbers are successive revisions of a page.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        let begin = out.len();
        let all = self.first[self.first.len() - 1];
        let (round, place) = (number / all, number % all);
        let page = self.first.partition_point(|first| *first <= place) as u64 - 1;
        let within = place - self.first[page as usize];
        let count = self.first[page as usize + 1] - self.first[page as usize];
        let page = round * PAGES + page + 1;
        let bytes = self.bytes.at(draw.unit(1)) as usize;

        out.extend_from_slice(b"{\"id\":");
        push_u64(out, number + 1);
        out.extend_from_slice(b",\"page\":");
        push_u64(out, page);
        out.extend_from_slice(b",\"timestamp\":\"");
        // A page's revisions are in order of time.
        push_second(out, (FROM + (TO - FROM) * (within as f64 + draw.unit(2)) / count as f64) as i64);
        out.extend_from_slice(b"\",\"contributor\":{\"id\":");
        // Few contributors write much: the logarithm of a contributor's rank is uniform.
        let contributor = math::exp(math::ln(1e6f64) * draw.unit(3)) as u64;
        push_u64(out, contributor);
        out.extend_from_slice(b",\"username\":\"");
        push_name(out, mix(contributor));
        out.extend_from_slice(b"\"},\"comment\":\"");
        self.pool.push(out, draw.bits(4), (draw.bits(5) % 64) as usize);
        out.extend_from_slice(b"\",\"model\":\"wikitext\",\"format\":\"text/x-wiki\",\"sha1\":\"");
        for salt in 6..8 {
            let mut bits = draw.bits(salt);
            // 31 digits of base 36, as MediaWiki writes the hash.
            for _ in 0..if salt == 6 { 12 } else { 19 } {
                out.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(bits % 36) as usize]);
                bits = mix(bits / 36 + 1);
            }
        }
        out.extend_from_slice(b"\",\"text\":\"");
        let length = bytes.saturating_sub(out.len() - begin + 2);
        self.pool.push(out, draw.bits(8), length);
        out.extend_from_slice(b"\"}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn revisions_have_the_published_fields_and_sizes() {
        let generator = WikipediaRevision::new(1);
        let mut sizes: Vec<f64> = Vec::new();
        for number in 0..4000 {
            let mut out = Vec::new();
            generator.append(number * 977, &mut out);
            sizes.push(out.len() as f64);
            let revision: Value = serde_json::from_slice(&out).unwrap();
            let mut names: Vec<_> = revision.as_object().unwrap().keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["comment", "contributor", "format", "id", "model", "page", "sha1", "text", "timestamp"]);
            assert_eq!(revision["sha1"].as_str().unwrap().len(), 31);
        }
        sizes.sort_by(f64::total_cmp);
        let mean = sizes.iter().sum::<f64>() / 4000.0;
        assert!((mean / 14_550.0 - 1.0).abs() < 0.06, "{mean}");
        for (share, bytes) in [(0.25, 1620.0), (0.5, 7432.0), (0.75, 20_400.0)] {
            let size = sizes[(share * 4000.0) as usize];
            assert!((size / bytes - 1.0).abs() < 0.12, "{share}: {size}");
        }
        assert!(sizes[0] >= 250.0 && sizes[3999] <= 157_100.0);
    }

    #[test]
    fn pages_have_the_published_numbers_of_revisions_which_rise_in_time() {
        let generator = WikipediaRevision::new(1);
        let mut counts: Vec<u64> = generator.first.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = counts.iter().sum::<u64>() as f64 / PAGES as f64;
        assert!((mean / 904.8 - 1.0).abs() < 0.02, "{mean}");
        counts.sort_unstable();
        for (share, revisions) in [(0.25, 32.0), (0.5, 230.0), (0.75, 903.0)] {
            let count = counts[(share * PAGES as f64) as usize] as f64;
            assert!((count / revisions - 1.0).abs() < 0.03, "{share}: {count}");
        }
        assert!(counts[0] <= 1 && (16_000..=16_827).contains(&counts[PAGES as usize - 1]));
        let mut last: BTreeMap<u64, String> = BTreeMap::new();
        for number in 0..3000 {
            let mut out = Vec::new();
            generator.append(number, &mut out);
            let revision: Value = serde_json::from_slice(&out).unwrap();
            let time = revision["timestamp"].as_str().unwrap().to_owned();
            let before = last.insert(revision["page"].as_u64().unwrap(), time.clone());
            assert!(before.is_none_or(|before| before <= time));
        }
        assert!(last.len() > 1);
    }
}
