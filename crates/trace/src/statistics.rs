//! Numbers about times.

/// Count, mean, least, most, and what 95 of 100 stay below.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) p95: f64,
}

pub(crate) fn summary(mut values: Vec<f64>) -> Summary {
    values.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
        return Summary::default();
    };
    let rank = (values.len() as f64 * 0.95).ceil() as usize;
    Summary {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min,
        max,
        p95: values[rank.clamp(1, values.len()) - 1],
    }
}

/// How much time these spans of time cover together; what overlaps counts once.
pub(crate) fn covered(mut times: Vec<(f64, f64)>) -> f64 {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let mut end = f64::NEG_INFINITY;
    for (from, to) in times {
        let from = from.max(end);
        if to > from {
            sum += to - from;
            end = to;
        }
    }
    sum
}
