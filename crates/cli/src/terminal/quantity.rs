//! Numbers with units, as a person reads them.

/// `340 bytes`, `12 kB`, `1.4 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        // Whole numbers exactly: no float comes near them.
        Some((name, unit)) if bytes / unit >= 10 => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => plural(bytes, "byte"),
    }
}

/// `0.42 ms`, `12.3 ms`, `431 ms`, `2.1 s`.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        _ if ms < 1.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1000.0),
    }
}

/// `1 file`, `2 files`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_makes_it_short() {
        let sizes = [0, 1, 999, 1_000, 9_949, 12_345, 1_440_000, 2_000_000_000].map(size);
        let expected = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.0 kB",
            "9.9 kB",
            "12 kB",
            "1.4 MB",
            "2.0 GB",
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_time_has_three_digits() {
        let times = [0.421, 12.34, 431.2, 2100.0].map(milliseconds);
        assert_eq!(times, ["0.42 ms", "12.3 ms", "431 ms", "2.1 s"]);
    }
}
