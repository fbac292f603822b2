//! A trace as folded stacks, which programs for flame graphs read: `run;step;cell 1234`, in microseconds.

use crate::{Record, Trace};
use std::collections::BTreeMap;

impl Trace {
    /// One line for each way down, with the time that was spent there and not further down.
    pub fn folded(&self) -> String {
        let mut stacks: BTreeMap<String, f64> = BTreeMap::new();
        for (index, record) in self.records().iter().enumerate() {
            let Some(time) = record.ms else { continue };
            *stacks.entry(self.stack(index)).or_default() += time;
            if let Some(parent) = self.upwards(index).nth(1) {
                *stacks.entry(self.stack(parent)).or_default() -= time;
            }
        }
        let lines = stacks.into_iter().map(|(stack, ms)| {
            // Children that ran at the same time may have more time together than their parent.
            let microseconds = (ms.max(0.0) * 1000.0).round();
            format!("{stack} {microseconds}\n")
        });
        lines.collect()
    }

    fn stack(&self, index: usize) -> String {
        let frames = self
            .upwards(index)
            .map(|index| frame(&self.records()[index]));
        let mut names: Vec<_> = frames.collect();
        names.reverse();
        names.join(";")
    }
}

fn frame(span: &Record) -> String {
    let tool = span.text("tool").map(|tool| format!(":{tool}"));
    let name = format!("{}{}", span.name, tool.unwrap_or_default());
    name.replace([';', ' ', '\n'], "_")
}
