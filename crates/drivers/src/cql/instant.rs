//! Instants as text, to and from what CQL counts: milliseconds since 1970, days, nanoseconds of a day. UTC throughout.

/// The day 1970-01-01 in CQL's count of days.
const EPOCH: i64 = 1 << 31;

/// `2015-01-31`, or that with `T` or a blank and a time of day, perhaps a `Z`, as milliseconds since 1970.
pub fn milliseconds(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = match text.get(10..11) {
        Some("T" | " ") => (&text[..10], nanoseconds(&text[11..])?),
        None => (text, 0),
        Some(_) => return None,
    };
    Some(days(date)? * 86_400_000 + time / 1_000_000)
}

/// `2015-01-31` in CQL's count of days.
pub fn date(text: &str) -> Option<u32> {
    u32::try_from(days(text)? + EPOCH).ok()
}

/// `23:59:59.5` as nanoseconds since midnight.
pub fn nanoseconds(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|part| digits(part, 2));
    let (hours, minutes) = (parts.next()??, parts.next()??);
    let seconds = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > 9 {
        return None;
    }
    let fraction = if fraction.is_empty() { 0 } else { digits(&format!("{fraction:0<9}"), 9)? };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction)
}

/// Milliseconds since 1970 as `2015-01-31T23:59:59.500Z`.
pub fn text(milliseconds: i64) -> String {
    let (day, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", day_text(day), rest % 1000)
}

/// A day in CQL's count as `2015-01-31`.
pub fn date_text(day: u32) -> String {
    day_text(i64::from(day) - EPOCH)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Days since 1970-01-01 of the proleptic Gregorian calendar. Years are counted from March, so that the leap day is a
/// year's last; 400 years have 146,097 days.
fn days(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468;
    (day_text(days) == text).then_some(days)
}

fn day_text(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_and_written() {
        assert_eq!(milliseconds("1970-01-01"), Some(0));
        assert_eq!(milliseconds("2015-01-31 00:34:42"), Some(1_422_664_482_000));
        assert_eq!(milliseconds("2015-01-31T00:34:42.5Z"), Some(1_422_664_482_500));
        assert_eq!(milliseconds("1969-12-31T23:59:59.999Z"), Some(-1));
        for given in ["2000-02-29T12:00:00.000Z", "1900-03-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(text(milliseconds(given).unwrap()), given);
        }
        assert_eq!(date("1970-01-01"), Some(1 << 31));
        assert_eq!(date_text(date("2024-02-29").unwrap()), "2024-02-29");
        assert_eq!(nanoseconds("00:01:02.000000003"), Some(62_000_000_003));
    }

    #[test]
    fn what_is_no_instant_is_none() {
        for given in ["", "today", "2015-13-01", "2015-02-29", "2015-1-1", "2015-01-01T", "2015-01-01T25:00:00", "1.5"]
        {
            assert_eq!(milliseconds(given), None, "{given}");
        }
    }
}
