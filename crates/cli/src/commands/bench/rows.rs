//! What is promised.

use serde_json::{Value, json};

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    PooledSession,
    SessionOnDemand,
    DirectCell,
    ArmedCell,
    UnchangingCell,
    ChangingCell,
    Segfault,
    TimeOut,
    OutOfMemory,
    Undo,
    Fork,
    Spawn,
    ToolCall,
    ThousandCalls,
    OverlappingCalls,
    Checking,
    Mcp,
    Proxy,
    ProxyThroughput,
    CachedEnvironment,
    WarmEnvironment,
    IdleSession,
    Flood,
    Exec,
    LargeFrame,
    AgentStep,
    AgentMemory,
    RunsAtOnce,
    FirstRequest,
    ServerCell,
    ServerMemory,
    ServerFirstByte,
    PackageImport,
    PackageSession,
    PackageCell,
    PackageTool,
    PackageSpawn,
    PackageFileIn,
    PackageFileOut,
}

/// What a row promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Promise {
    /// A bound in the unit of the row.
    Bound(f64),
    /// At most this many times what a bare Python takes that computes `1+1` from a pipe after the same pause: a machine that
    /// wakes its processors slowly is slow for both.
    TimesBarePython(f64),
}

impl Promise {
    /// The bound, where the bare Python took `bare` milliseconds.
    pub(crate) fn bound(self, bare: f64) -> f64 {
        match self {
            Promise::Bound(bound) => bound,
            Promise::TimesBarePython(times) => times * bare,
        }
    }
}

/// A row with what was measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) samples: Samples,
    /// What the row's promise means on this machine, in its unit.
    pub(crate) bound: f64,
}

/// Whether a promise holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Missed,
}

impl Row {
    pub(crate) const ALL: [Row; 39] = [
        Row::PooledSession,
        Row::SessionOnDemand,
        Row::DirectCell,
        Row::ArmedCell,
        Row::UnchangingCell,
        Row::ChangingCell,
        Row::Segfault,
        Row::TimeOut,
        Row::OutOfMemory,
        Row::Undo,
        Row::Fork,
        Row::Spawn,
        Row::ToolCall,
        Row::ThousandCalls,
        Row::OverlappingCalls,
        Row::Checking,
        Row::Mcp,
        Row::Proxy,
        Row::ProxyThroughput,
        Row::CachedEnvironment,
        Row::WarmEnvironment,
        Row::IdleSession,
        Row::Flood,
        Row::Exec,
        Row::LargeFrame,
        Row::AgentStep,
        Row::AgentMemory,
        Row::RunsAtOnce,
        Row::FirstRequest,
        Row::ServerCell,
        Row::ServerMemory,
        Row::ServerFirstByte,
        Row::PackageImport,
        Row::PackageSession,
        Row::PackageCell,
        Row::PackageTool,
        Row::PackageSpawn,
        Row::PackageFileIn,
        Row::PackageFileOut,
    ];

    /// The name by which the Python package measures the row; `None` for rows that this program measures.
    pub(crate) fn measured_by_package(self) -> Option<&'static str> {
        Some(match self {
            Row::PackageImport => "import",
            Row::PackageSession => "session",
            Row::PackageCell => "cell",
            Row::PackageTool => "tool",
            Row::PackageSpawn => "spawn",
            Row::PackageFileIn => "file_in",
            Row::PackageFileOut => "file_out",
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::PooledSession => "session from the pool, with its first cell",
            Row::SessionOnDemand => "session on demand, with its first cell",
            Row::DirectCell => "cell `1+1`, strategy direct",
            Row::ArmedCell => "cell `x = 1`, armed, 20 ms apart",
            Row::UnchangingCell => "cell `1+1`, armed, back to back",
            Row::ChangingCell => "cell `x = 1`, armed, back to back",
            Row::Segfault => "segfault to the next cell",
            Row::TimeOut => "time-out to the next cell",
            Row::OutOfMemory => "memory kill to the next cell",
            Row::Undo => "undo",
            Row::Fork => "fork",
            Row::Spawn => "process beside the interpreter, to its end",
            Row::ToolCall => "tool call from inside a cell",
            Row::ThousandCalls => "1 000 tool calls in one cell",
            Row::OverlappingCalls => "100 tool calls of 20 ms at the same time",
            Row::Checking => "checking the arguments of a tool call",
            Row::Mcp => "what MCP adds to a cell `x = 1`",
            Row::Proxy => "what the network's guard adds to a request",
            Row::ProxyThroughput => "1 GB through the network's guard",
            Row::CachedEnvironment => "environment that was made before",
            Row::WarmEnvironment => {
                "session from the pool of another environment, with its first cell"
            }
            Row::IdleSession => "memory of one more idle session",
            Row::Flood => "100 MB printed",
            Row::Exec => "`cellblock exec -c 1+1`, the whole command",
            Row::LargeFrame => "cell `x = 1` beside 1 GB of data, minus the same without",
            Row::AgentStep => "what the agent adds to each of 200 steps",
            Row::AgentMemory => "memory of `cellblock ask` above an idle `cellblock`",
            Row::RunsAtOnce => "50 runs of the agent at once, until all have answered",
            Row::FirstRequest => "start of `cellblock ask` to its first request",
            Row::ServerCell => "cell `x = 1` over HTTP, above `cellblock pipe`",
            Row::ServerMemory => "memory of an idle `cellblock serve` above `cellblock pipe`",
            Row::ServerFirstByte => "first byte of a model's reply through `cellblock serve`",
            Row::PackageImport => "Python package: `from cellblock import Session`",
            Row::PackageSession => "Python package: `Session()` with a warm host",
            Row::PackageCell => "Python package: cell `1 + 1`, back to back",
            Row::PackageTool => "Python package: tool call that Python answers",
            Row::PackageSpawn => "Python package: `spawn([\"true\"])` to its end",
            Row::PackageFileIn => "Python package: 1 GB into a file",
            Row::PackageFileOut => "Python package: 1 GB out of a file",
        }
    }

    pub(crate) fn promise(self) -> Promise {
        let bound = match self {
            Row::PooledSession | Row::WarmEnvironment | Row::ArmedCell => {
                return Promise::TimesBarePython(3.0);
            }
            Row::SessionOnDemand | Row::CachedEnvironment | Row::Undo | Row::LargeFrame => 5.0,
            Row::DirectCell | Row::ToolCall => 0.06,
            Row::ThousandCalls => 80.0,
            Row::Mcp | Row::Proxy | Row::ServerCell => 1.0,
            Row::ProxyThroughput => 500.0,
            Row::OverlappingCalls => 100.0,
            Row::Checking => 0.02,
            Row::UnchangingCell | Row::ChangingCell => 2.0,
            Row::Fork => 8.0,
            Row::Spawn => 5.0,
            Row::Segfault | Row::TimeOut => 10.0,
            Row::OutOfMemory => 20.0,
            Row::IdleSession => 6.0,
            Row::Flood => 200.0,
            Row::Exec => 60.0,
            Row::AgentStep => 0.2,
            Row::AgentMemory => 30.0,
            Row::RunsAtOnce => 5_000.0,
            Row::FirstRequest => 80.0,
            Row::ServerMemory => 40.0,
            Row::ServerFirstByte => 20.0,
            Row::PackageImport => 60.0,
            Row::PackageSession => 3.0,
            Row::PackageCell => 0.2,
            Row::PackageTool => 0.25,
            Row::PackageSpawn => 5.0,
            Row::PackageFileIn | Row::PackageFileOut => 300.0,
        };
        Promise::Bound(bound)
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Row::IdleSession | Row::AgentMemory | Row::ServerMemory => Unit::Megabytes,
            Row::Flood | Row::ProxyThroughput | Row::PackageFileIn | Row::PackageFileOut => {
                Unit::MegabytesPerSecond
            }
            _ => Unit::Milliseconds,
        }
    }

    /// The side of the promise that is good.
    pub(crate) fn side(self) -> &'static str {
        if self.unit() == Unit::MegabytesPerSecond {
            "≥"
        } else {
            "≤"
        }
    }
}

impl Measured {
    pub(crate) fn verdict(&self) -> Verdict {
        let median = self.samples.quantile(0.5);
        let kept = if self.row.unit() == Unit::MegabytesPerSecond {
            median >= self.bound
        } else {
            median <= self.bound
        };
        if kept { Verdict::Kept } else { Verdict::Missed }
    }

    /// The promise in words: `≤ 5.0 ms`.
    pub(crate) fn promise_text(&self) -> String {
        let (side, bound) = (self.row.side(), self.row.unit().show(self.bound));
        match self.row.promise() {
            Promise::Bound(_) => format!("{side} {bound}"),
            Promise::TimesBarePython(times) => {
                format!("{side} {times} × a bare Python ({bound})")
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Measured {
            row,
            samples,
            bound,
        } = self;
        json!({
            "name": row.name(),
            "unit": row.unit().name(),
            "promise": bound,
            "times_bare_python": match row.promise() {
                Promise::Bound(_) => None,
                Promise::TimesBarePython(times) => Some(times),
            },
            "bound": row.side(),
            "median": samples.quantile(0.5),
            "p10": samples.quantile(0.1),
            "p90": samples.quantile(0.9),
            "repetitions": samples.count(),
            "kept": self.verdict() == Verdict::Kept,
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(row: Row, median: f64, bare: f64) -> Measured {
        Measured {
            row,
            samples: Samples::new(vec![median]),
            bound: row.promise().bound(bare),
        }
    }

    #[test]
    fn a_promise_beside_a_bare_python_grows_with_it() {
        let fast = measured(Row::ArmedCell, 0.9, 0.29);
        let slow = measured(Row::ArmedCell, 0.9, 0.31);
        assert_eq!(fast.verdict(), Verdict::Missed);
        assert_eq!(slow.verdict(), Verdict::Kept);
        assert_eq!(slow.promise_text(), "≤ 3 × a bare Python (0.930 ms)");
    }

    #[test]
    fn a_promise_of_throughput_is_kept_from_the_bound_on() {
        let row = Row::Flood;
        assert_eq!(measured(row, 199.0, 0.0).verdict(), Verdict::Missed);
        assert_eq!(measured(row, 200.0, 0.0).verdict(), Verdict::Kept);
    }
}
