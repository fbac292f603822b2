//! Times of records, as a person reads them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `12 s`, `5 min`, `3 h`, `2 d`: how long ago a time in seconds since 1970 was.
pub(crate) fn age(at: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.unwrap_or_default().as_secs_f64() - at;
    match seconds.max(0.0) as u64 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `2026-01-31 08:30 UTC`.
pub(crate) fn date(at: f64) -> String {
    let since_1970 = Duration::try_from_secs_f64(at).unwrap_or_default();
    let minutes = since_1970.as_secs() / 60;
    let (days, hour, minute) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    // Days are counted in eras of 400 years that begin on the first of March, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_calendar() {
        let dates = [
            0.0,
            951_782_399.0,
            951_782_400.0,
            1_709_164_800.0,
            1_767_225_599.9,
        ]
        .map(date);
        assert_eq!(
            dates,
            [
                "1970-01-01 00:00 UTC",
                "2000-02-28 23:59 UTC",
                "2000-02-29 00:00 UTC",
                "2024-02-29 00:00 UTC",
                "2025-12-31 23:59 UTC",
            ]
        );
    }
}
