//! How much of a cell a journal keeps.

use crate::journal::record::EndedRecord;
use cellblock_protocol::{CellResult, Cut, MimeBundle, Truncated};
use serde_json::Value;

/// The bytes of standard output, and of standard error, that are kept of one cell.
pub const MAX_STREAM_BYTES: usize = 256 << 10;
/// The bytes of all displays and of the value's forms together that are kept of one cell.
pub const MAX_DISPLAY_BYTES: usize = 8 << 20;
/// The calls and questions that are kept of one cell.
pub const MAX_CALLS: usize = 10_000;
/// The bytes of the arguments and answers of all calls that are kept of one cell.
pub const MAX_CALLS_BYTES: usize = 16 << 20;
/// The largest file of `put_file` whose content is kept.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// The longest journal. When it is reached, nothing more is written.
pub const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// The part of a result that is kept. Only that part is copied: the caller waits for it.
pub(super) fn ended(result: &CellResult, stands: u64) -> EndedRecord {
    let mut left_out = Vec::new();
    let mut cuts = result.truncated.clone().unwrap_or_default();
    let stdout = stream("stdout", &result.stdout, &mut cuts.stdout, &mut left_out);
    let stderr = stream("stderr", &result.stderr, &mut cuts.stderr, &mut left_out);
    let output = stream("output", &result.output, &mut cuts.output, &mut left_out);
    let mut room = MAX_DISPLAY_BYTES;
    let value = result.value.as_ref().map(|value| {
        let mime = bundle("the value", &value.mime, &mut room, &mut left_out);
        cellblock_protocol::CellValue {
            repr: value.repr.clone(),
            mime,
        }
    });
    let displays = result.displays.iter().enumerate().map(|(at, display)| {
        bundle(
            &format!("display {}", at + 1),
            display,
            &mut room,
            &mut left_out,
        )
    });
    let displays = displays.collect();
    let result = CellResult {
        session: result.session.clone(),
        cell: result.cell,
        status: result.status,
        exit_code: result.exit_code,
        signal: result.signal,
        stopped_at: result.stopped_at.clone(),
        stdout,
        stderr,
        output,
        truncated: Truncated::any(cuts.stdout, cuts.stderr, cuts.output),
        value,
        displays,
        error: result.error.clone(),
        variables: result.variables.clone(),
        files: result.files.clone(),
        state: result.state.clone(),
        usage: result.usage,
        tool_calls: Vec::new(),
        strategy: result.strategy,
        backend: result.backend,
        isolation: result.isolation.clone(),
        isolation_note: result.isolation_note.clone(),
    };
    EndedRecord {
        cell: result.cell,
        stands,
        result,
        calls: Vec::new(),
        inputs: Vec::new(),
        left_out,
    }
}

fn stream(name: &str, text: &str, cut: &mut Option<Cut>, left_out: &mut Vec<String>) -> String {
    if text.len() <= MAX_STREAM_BYTES {
        return text.to_owned();
    }
    let end = (0..=MAX_STREAM_BYTES)
        .rev()
        .find(|at| text.is_char_boundary(*at));
    let end = end.unwrap_or(0);
    let before = cut.map_or(0, |cut| cut.left_out);
    let missing = (text.len() - end) as u64;
    *cut = Some(Cut {
        kept: end as u64,
        left_out: before + missing,
    });
    left_out.push(format!("{missing} bytes of {name}"));
    text[..end].to_owned()
}

fn bundle(
    what: &str,
    mime: &MimeBundle,
    room: &mut usize,
    left_out: &mut Vec<String>,
) -> MimeBundle {
    let mut kept = MimeBundle::new();
    for (kind, content) in mime.iter() {
        let size = content.bytes();
        if size <= *room {
            *room -= size;
            kept.insert(kind, content.clone());
        } else {
            left_out.push(format!("{kind} of {what}, {size} bytes"));
        }
    }
    kept
}

/// About what a value takes as text.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + weight(item)).sum::<usize>(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, item)| key.len() + 4 + weight(item));
            2 + entries.sum::<usize>()
        }
        _ => 8,
    }
}
