//! The contents of replies that need no cell.

use super::KernelAbout;
use crate::message::PROTOCOL_VERSION;
use cellblock_protocol::{Completeness, CompletenessStatus, Completions, CursorHelp};
use serde_json::{Value, json};

/// The contents of `kernel_info_reply`.
pub(super) fn kernel_info(about: &KernelAbout) -> Value {
    let major = about.python_version.split('.').next().unwrap_or("3");
    json!({
        "status": "ok",
        "protocol_version": PROTOCOL_VERSION,
        "implementation": "cellblock",
        "implementation_version": about.version,
        "language_info": {
            "name": "python",
            "version": about.python_version,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": format!("ipython{major}"),
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": format!(
            "Cellblock {}: a sealed Python {}. A cell that crashes leaves the variables as they were; %undo takes a cell back.",
            about.version, about.python_version
        ),
        "debugger": false,
        "supported_features": [],
        "help_links": [{"text": "Python", "url": "https://docs.python.org/3"}],
    })
}

/// The type of the reply to a request; none where the message is no request.
pub(super) fn reply_kind(request: &str) -> Option<String> {
    let name = request.strip_suffix("_request")?;
    Some(format!("{name}_reply"))
}

/// The contents of the reply to a request that this kernel does not know, such as those of a debugger.
pub(super) fn not_offered(request: &str) -> Value {
    error(
        "NotImplementedError",
        &format!("the Cellblock kernel does not offer {request}"),
    )
}

/// The contents of the reply to a request that failed.
pub(super) fn error(name: &str, message: &str) -> Value {
    json!({
        "status": "error",
        "ename": name,
        "evalue": message,
        "traceback": [format!("{name}: {message}")],
    })
}

/// The contents of `complete_reply`. Positions are code points.
pub(super) fn completions(found: Completions, cursor: u64) -> Value {
    let start = found.matches.iter().map(|found| found.start).min();
    let start = start.unwrap_or(cursor);
    // The protocol has one place for all matches: those that begin elsewhere are left out of the list, and kept in the metadata.
    let matches: Vec<&str> = found
        .matches
        .iter()
        .filter(|found| found.start == start)
        .map(|found| found.text.as_str())
        .collect();
    let end = found.matches.first().map_or(cursor, |found| found.end);
    json!({
        "status": "ok",
        "matches": matches,
        "cursor_start": start,
        "cursor_end": end,
        "metadata": {"_jupyter_types_experimental": found.matches},
    })
}

/// The contents of `inspect_reply`.
pub(super) fn inspection(help: &CursorHelp) -> Value {
    json!({"status": "ok", "found": help.found, "data": help.mime, "metadata": {}})
}

/// The contents of `is_complete_reply`.
pub(super) fn completeness(verdict: &Completeness) -> Value {
    match verdict.status {
        CompletenessStatus::Incomplete => {
            json!({"status": "incomplete", "indent": verdict.indent})
        }
        status => json!({"status": status}),
    }
}
