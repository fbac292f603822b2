//! Records for tests.

use crate::journal::record::{
    EndedRecord, JournalLine, JournalRecord, OpenedRecord, PythonUsed, VERSION,
};
use cellblock_protocol::{CellResult, SessionOptions};
use serde_json::json;
use std::path::PathBuf;

/// A session that was opened.
pub(super) fn opened() -> JournalRecord {
    JournalRecord::Opened(Box::new(OpenedRecord {
        version: VERSION,
        cellblock: "0.1.0".to_owned(),
        session: "default".to_owned(),
        options: SessionOptions::named("default"),
        workspace: PathBuf::from("/w"),
        workspace_was_empty: true,
        python: PythonUsed {
            executable: PathBuf::from("/usr/bin/python3"),
            version: "3.11.2".to_owned(),
            packages: false,
        },
        isolation: "full".to_owned(),
        pid: 7,
    }))
}

/// A cell that began.
pub(super) fn begun(cell: u64) -> JournalRecord {
    JournalRecord::Begun {
        cell,
        code: format!("x = {cell}"),
        timeout: None,
        atomic: None,
        env: Default::default(),
        silent: false,
        keep_value: false,
        key: None,
    }
}

/// A cell that ended like this, and where the state stood then.
pub(super) fn ended(cell: u64, status: &str, outcome: &str, stands: u64) -> JournalRecord {
    JournalRecord::Ended(Box::new(EndedRecord {
        stands,
        result: result(cell, status, outcome),
        ..ended_of(cell)
    }))
}

/// How a cell ended that was kept.
pub(crate) fn ended_of(cell: u64) -> EndedRecord {
    EndedRecord {
        cell,
        stands: cell,
        result: result(cell, "success", "kept"),
        calls: Vec::new(),
        inputs: Vec::new(),
        left_out: Vec::new(),
    }
}

/// A cell that was kept: both of its records.
pub(super) fn kept(cell: u64) -> [JournalRecord; 2] {
    [begun(cell), ended(cell, "success", "kept", cell)]
}

/// A result with next to nothing in it.
pub(super) fn result(cell: u64, status: &str, outcome: &str) -> CellResult {
    let nothing = json!({"added": [], "changed": [], "removed": []});
    let whole = json!({
        "session": "default", "cell": cell, "status": status, "exit_code": null, "signal": null,
        "stdout": "", "stderr": "", "output": "", "truncated": null, "value": null, "displays": [], "error": null,
        "variables": nothing, "files": {"created": [], "changed": [], "deleted": []},
        "state": {"outcome": outcome, "checkpoint": {"status": "armed", "behind": 0, "reason": null}},
        "usage": {"wall_ms": 1.0, "cpu_ms": 1.0, "peak_bytes": 1, "stdout_bytes": 0, "stderr_bytes": 0},
        "tool_calls": [], "strategy": "process", "backend": "local", "isolation": "full",
    });
    serde_json::from_value(whole).unwrap()
}

/// The text of a journal with these records.
pub(super) fn text(records: impl IntoIterator<Item = JournalRecord>) -> Vec<u8> {
    let mut text = Vec::new();
    for (n, record) in records.into_iter().enumerate() {
        let line = JournalLine {
            n: n as u64,
            at: 1e9 + n as f64,
            record,
        };
        text.extend(serde_json::to_vec(&line).unwrap());
        text.push(b'\n');
    }
    text
}
