//! A trace for a person.

use crate::{Record, Report, Trace};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines of the timeline that are shown.
const MOST_LINES: usize = 500;

impl Trace {
    /// What happened when, a line each, indented by what is around it.
    pub fn timeline(&self) -> String {
        let begin = self.records().first().map_or(0.0, |record| record.at);
        let mut text = String::new();
        for (index, record) in self.records().iter().enumerate().take(MOST_LINES) {
            let since = (record.at - begin) * 1000.0;
            let indent = "  ".repeat(self.upwards(index).count() - 1);
            let took = record.ms.map(|ms| format!("  {}", milliseconds(ms)));
            let _ = writeln!(
                text,
                "{:>10}  {indent}{}{}{}",
                milliseconds(since),
                record.name,
                took.unwrap_or_default(),
                details(record)
            );
        }
        let more = self.records().len().saturating_sub(MOST_LINES);
        if more > 0 {
            let _ = writeln!(text, "(and {more} more)");
        }
        text
    }
}

impl Report {
    /// The numbers as a few tables.
    pub fn to_text(&self) -> String {
        let shares = &self.shares;
        let part = |ms: f64| {
            let percent = if shares.whole > 0.0 {
                ms / shares.whole * 100.0
            } else {
                0.0
            };
            format!("{} ({percent:.0} %)", milliseconds(ms))
        };
        let mut text = format!(
            "{} in all: model {}, code {}, overhead {}\n\n",
            milliseconds(shares.whole),
            part(shares.model),
            part(shares.code),
            part(shares.overhead)
        );
        let _ = writeln!(
            text,
            "{:<14}{:>7}{:>12}{:>12}{:>12}{:>12}{:>9}",
            "span", "count", "mean", "min", "max", "p95", "failed"
        );
        for spans in &self.spans {
            let times = [spans.mean, spans.min, spans.max, spans.p95].map(milliseconds);
            let [mean, min, max, p95] = times;
            let failed = format!("{:.0} %", spans.failure_rate * 100.0);
            let name = line(&spans.name, 13);
            let count = spans.count;
            let _ = writeln!(
                text,
                "{name:<14}{count:>7}{mean:>12}{min:>12}{max:>12}{p95:>12}{failed:>9}"
            );
        }
        section(
            &mut text,
            "The same call more than once",
            &self.repeated,
            |repeated| {
                format!(
                    "{} × {} {}",
                    repeated.times,
                    repeated.name,
                    line(&repeated.call, 80)
                )
            },
        );
        section(&mut text, "Slow", &self.slow, |slow| {
            let (at, ms) = (milliseconds(slow.at_ms), milliseconds(slow.ms));
            format!("{} at {at} took {ms}", slow.name)
        });
        let plans: Vec<_> = self.plans.iter().enumerate().collect();
        section(
            &mut text,
            "Versions of the plan",
            &plans,
            |(number, changes)| format!("{}. {}", number + 1, line(changes, 100)),
        );
        text
    }
}

fn section<T>(text: &mut String, title: &str, items: &[T], show: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for item in items {
        let _ = writeln!(text, "  {}", show(item));
    }
}

fn details(record: &Record) -> String {
    let mut text = String::new();
    let fields = record.fields.iter().filter(|(name, _)| *name != "run");
    // The order of a map depends on how the JSON library was built.
    for (name, value) in fields.collect::<BTreeMap<_, _>>() {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = write!(text, "  {name}={}", line(&value, 60));
    }
    text
}

/// The text on one line, without anything that a terminal would obey.
fn line(text: &str, most: usize) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut: String = one_line.clone().take(most).collect();
    if one_line.count() > most {
        cut + "…"
    } else {
        cut
    }
}

fn milliseconds(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.1} s", ms / 1000.0)
    } else {
        format!("{ms:.1} ms")
    }
}
