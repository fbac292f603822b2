//! How a [`Duration`] stands in JSON. Rust code has the type; JSON has a number, and the name of its field says the unit.
//!
//! Each module here is for `#[serde(with = "…")]`.

use std::time::Duration;

/// The milliseconds of a time as a number in JSON, with up to six digits after the point: exact to the nanosecond for a hundred days.
pub fn as_milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// A number from outside. What cannot be a time is the nearest one: zero for a negative number, the longest for a number that is too large.
fn from_milliseconds(milliseconds: f64) -> Duration {
    let seconds = milliseconds / 1e3;
    Duration::try_from_secs_f64(seconds).unwrap_or(match seconds > 0.0 {
        true => Duration::MAX,
        false => Duration::ZERO,
    })
}

/// A number of seconds: `1.5`.
pub mod seconds {
    use serde::Serializer;
    use std::time::Duration;

    /// Writes the seconds.
    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }
}

/// A number of seconds, or null.
pub mod optional_seconds {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::time::Duration;

    /// Writes the seconds, or null.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&time.as_secs_f64()),
            None => to.serialize_none(),
        }
    }

    /// Reads a number of seconds that is not negative, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        let time = seconds.map(Duration::try_from_secs_f64).transpose();
        time.map_err(serde::de::Error::custom)
    }
}

/// A number of milliseconds with a fraction: `1.2`.
pub mod milliseconds {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::time::Duration;

    /// Writes the milliseconds.
    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(super::as_milliseconds(*time))
    }

    /// Reads milliseconds. A negative number is zero, so that a wrong clock in the guest does not cost the whole result.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        f64::deserialize(from).map(super::from_milliseconds)
    }
}

/// A whole number of milliseconds, or null: `12`.
pub mod optional_whole_milliseconds {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::time::Duration;

    /// Writes the milliseconds without their fraction, or null.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            None => to.serialize_none(),
        }
    }

    /// Reads a whole number of milliseconds, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
