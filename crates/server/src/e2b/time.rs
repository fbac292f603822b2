//! Times as E2B writes them: RFC 3339 in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as `2026-11-16T22:30:05.123Z`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The time that a text in RFC 3339 names, with any offset from UTC. `None` for other texts and for times before 1970.
pub(super) fn from_rfc3339(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number)
    };
    let bytes = text.as_bytes();
    let has_marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, mark)| bytes.get(*at) == Some(mark));
    let has_middle = matches!(bytes.get(10), Some(b'T' | b't' | b' '));
    let days = days_since_1970(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let local = days * 86_400 + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone);
    let fraction: f64 = match fraction.strip_prefix('.') {
        None if fraction.is_empty() => 0.0,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("0.{digits}0").parse().ok()?
        }
        _ => return None,
    };
    let utc = match zone.as_bytes() {
        [b'Z' | b'z'] => local,
        [sign, _, _, b':', _, _] => {
            let at = text.len() - 5;
            let offset = number(at, at + 2)? * 3600 + number(at + 3, at + 5)? * 60;
            match sign {
                b'+' => local.checked_sub(offset)?,
                _ => local + offset,
            }
        }
        _ => return None,
    };
    let fraction = Duration::try_from_secs_f64(fraction).ok()?;
    (has_marks && has_middle).then(|| UNIX_EPOCH + Duration::from_secs(utc) + fraction)
}

/// The days from 1970 to a date, the inverse of `civil_date`.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let shifted_year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era)
        .checked_sub(719_468)
        .filter(|_| is_date)
}

/// The time that is this many seconds after 1970.
pub(super) fn from_unix(seconds: f64) -> SystemTime {
    UNIX_EPOCH + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The whole seconds since 1970.
pub(super) fn unix(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The date of a day after 1970, by the algorithm of Howard Hinnant: years begin in March, so that the leap day is their last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_standard_says() {
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            rfc3339(from_unix(951_782_400.5)),
            "2000-02-29T00:00:00.500Z"
        );
        assert_eq!(
            rfc3339(from_unix(1_795_127_405.0)),
            "2026-11-19T22:30:05.000Z"
        );
    }

    #[test]
    fn times_are_read_with_fractions_and_offsets() {
        let seconds = |text: &str| {
            let time = from_rfc3339(text)?;
            Some(time.duration_since(UNIX_EPOCH).ok()?.as_millis())
        };
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T00:00:00.5Z"), Some(951_782_400_500));
        for text in [
            "2026-11-19T22:30:05.000Z",
            "2026-11-19T22:30:05+00:00",
            "2026-11-20T00:30:05.000000+02:00",
            "2026-11-19T17:00:05-05:30",
        ] {
            assert_eq!(seconds(text), Some(1_795_127_405_000), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-11-19",
            "2026-11-19T22:30:05",
            "2026-13-19T22:30:05Z",
            "2026-11-00T22:30:05Z",
            "2026-11-19T22:30:05.xZ",
            "2026-11-19T22:30:05.9e19Z",
            "2026-11-19T22:30:+5Z",
            "1960-11-19T22:30:05Z",
            "2026-11-19T22:30:05+ä:00",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
