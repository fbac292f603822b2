//! Measured values of one thing.

/// Repetitions, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut values: Vec<f64>) -> Samples {
        values.sort_by(f64::total_cmp);
        Samples(values)
    }

    /// The value below which this share of the repetitions lies.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.0.get(index).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Megabytes,
    MegabytesPerSecond,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::MegabytesPerSecond => "MB/s",
        }
    }

    /// With as many digits as say something.
    pub(crate) fn show(self, value: f64) -> String {
        let digits = if value.abs() < 1.0 {
            3
        } else {
            usize::from(value.abs() < 100.0)
        };
        format!("{value:.digits$} {}", self.name())
    }
}
