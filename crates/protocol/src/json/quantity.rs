//! Sizes and times as people write them: `512MB`, `2GiB`, `1.5s`.

use std::time::Duration;

use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::{Invalid, shown, shown_text};

/// Reads a size as people write it: `512MB` (million), `2GiB` or `2G` (1024³), `4096` (bytes).
///
/// The bare letters mean powers of 1024, as they do for Docker and systemd.
pub fn parse_size(text: &str) -> Result<u64, Invalid> {
    size_from_text("size", text)
}

/// Reads a length of time as people write it: `30s`, `500ms`, `5min`, `1h`, `2.5` (seconds).
pub fn parse_duration(text: &str) -> Result<Duration, Invalid> {
    duration_of_seconds("duration", seconds_from_text("duration", text)?)
}

/// Reads an age as people write it, such as `30d`: a length of time, at most ten years.
pub fn parse_age(text: &str) -> Result<Duration, Invalid> {
    const MAX_SECONDS: f64 = 3650.0 * 24.0 * 3600.0;
    let seconds = seconds_from_text("age", text)?;
    if seconds.is_finite() && seconds > 0.0 && seconds <= MAX_SECONDS {
        return to_duration("age", seconds);
    }
    let expected = "a positive length of time, at most 3650d";
    Err(Invalid::value("age", expected, shown_text(text)))
}

/// Reads a number of seconds; `field` is what an error calls it. Refuses zero, what is no number, and more than 7 days.
pub fn duration_of_seconds(field: &str, seconds: f64) -> Result<Duration, Invalid> {
    check_seconds(field, seconds)?;
    to_duration(field, seconds)
}

/// The longest time that anything can be allowed to take. More is a slip of the unit.
pub(crate) const MAX_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

pub(crate) fn check_seconds(field: &str, seconds: f64) -> Result<(), Invalid> {
    if seconds.is_finite() && seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(());
    }
    let expected = "a positive number of seconds, at most 604800 (7 days)";
    Err(Invalid::value(field, expected, seconds.to_string()))
}

pub(crate) fn to_duration(field: &str, seconds: f64) -> Result<Duration, Invalid> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Invalid::value(field, Seconds::EXPECTED, seconds.to_string()))
}

/// Bytes: a number, or a text such as `512MB`.
pub(crate) struct Bytes(pub(crate) u64);

impl Field for Bytes {
    const EXPECTED: &'static str =
        "a positive number of bytes, or a text such as \"512MB\" or \"2GiB\"";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match &value {
            Value::Number(number) => number
                .as_u64()
                .map(Self)
                .ok_or_else(|| Self::refuse(name, &value)),
            Value::String(text) => size_from_text(name, text).map(Self),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

/// Seconds: a number, or a text such as `30s`. Whether it makes sense is [`check_seconds`]'s to say.
pub(crate) struct Seconds(pub(crate) f64);

impl Field for Seconds {
    const EXPECTED: &'static str =
        "a positive number of seconds, or a text such as \"30s\" or \"5min\"";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match &value {
            Value::Number(number) => number
                .as_f64()
                .map(Self)
                .ok_or_else(|| Self::refuse(name, &value)),
            Value::String(text) => seconds_from_text(name, text).map(Self),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

/// A number of processors, which need not be whole. Whether it makes sense is [`check_cpus`]'s to say.
pub(crate) struct Cpus(pub(crate) f64);

impl Field for Cpus {
    const EXPECTED: &'static str = "a number of processors";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        value
            .as_f64()
            .map(Self)
            .ok_or_else(|| Invalid::value(name, Self::EXPECTED, shown(&value)))
    }
}

pub(crate) fn check_cpus(field: &str, cpus: f64) -> Result<(), Invalid> {
    if (0.01..=1024.0).contains(&cpus) {
        return Ok(());
    }
    let expected = "a number of processors, from 0.01 to 1024";
    Err(Invalid::value(field, expected, cpus.to_string()))
}

/// How many of something: a positive whole number.
pub(crate) struct Count(pub(crate) u64);

impl Field for Count {
    const EXPECTED: &'static str = "a positive whole number";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        value
            .as_u64()
            .map(Self)
            .ok_or_else(|| Invalid::value(name, Self::EXPECTED, shown(&value)))
    }
}

fn size_from_text(field: &str, text: &str) -> Result<u64, Invalid> {
    let refused = || Invalid::value(field, Bytes::EXPECTED, shown_text(text));
    let (number, unit) = number_and_unit(text).ok_or_else(refused)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u64.pow(2),
        "gb" => 1000_u64.pow(3),
        "tb" => 1000_u64.pow(4),
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(refused()),
    };
    // Whole numbers exactly; fractions ("1.5GiB") by way of a float, which is exact enough for them.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(refused);
    }
    let bytes = number.parse::<f64>().map_err(|_| refused())? * factor as f64;
    if bytes.is_finite() && bytes < 2f64.powi(63) {
        Ok(bytes.round() as u64)
    } else {
        Err(refused())
    }
}

fn seconds_from_text(field: &str, text: &str) -> Result<f64, Invalid> {
    let refused = || Invalid::value(field, Seconds::EXPECTED, shown_text(text));
    let (number, unit) = number_and_unit(text).ok_or_else(refused)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "ms" => 0.001,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return Err(refused()),
    };
    Ok(number.parse::<f64>().map_err(|_| refused())? * factor)
}

/// `"512 MB"` is `("512", "MB")`. No sign and no exponent: a number with a unit is a plain number.
fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then_some((number, unit.trim()))
}
