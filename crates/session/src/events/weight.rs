//! How much memory an event takes, about. Code of a session decides what is in its events, so each part that can be long is counted.

use cellblock_protocol::{CellError, CellResult, Event, VariableChange};

/// What an event takes beside its texts.
const EVENT: usize = 256;
/// What one entry of a list takes beside its texts.
const ENTRY: usize = 96;

pub(super) fn weight(event: &Event) -> usize {
    EVENT
        + match event {
            Event::Stdout { text } | Event::Stderr { text } | Event::Log { text } => text.len(),
            Event::Begun { code, .. } => code.len(),
            Event::Display(display) => {
                let metadata = display.metadata.as_ref();
                display.mime.bytes() + metadata.map_or(0, |it| it.as_json().len())
            }
            Event::Comm(message) => {
                let buffers: usize = message.buffers.iter().map(|it| ENTRY + it.len()).sum();
                let metadata = message.metadata.as_ref();
                message.data.as_json().len() + metadata.map_or(0, |it| it.as_json().len()) + buffers
            }
            Event::ToolCall {
                name, arguments, ..
            } => name.len() + arguments.as_json().len(),
            Event::InputRequest { prompt, .. } => prompt.len(),
            Event::ProcOutput { proc, base64, .. } => proc.len() + base64.len(),
            Event::ProcDropped { proc, .. } | Event::ProcEnd { proc, .. } => proc.len(),
            Event::Fs { watch, change } => {
                watch.len() + change.path.len() + change.to.as_ref().map_or(0, String::len)
            }
            Event::FsEnd { watch } => watch.len(),
            Event::Result { result } => weight_of_result(result),
            Event::Error { message, .. } => message.len(),
            Event::ClearOutput { .. } | Event::Restored { .. } | Event::Checkpoint { .. } => 0,
        }
}

fn weight_of_result(result: &CellResult) -> usize {
    let value = result.value.as_ref();
    let displays: usize = result.displays.iter().map(|it| ENTRY + it.bytes()).sum();
    let variables = &result.variables;
    let changes = [&variables.added, &variables.changed, &variables.removed];
    let files = &result.files;
    let changed_files = [&files.created, &files.changed, &files.deleted];
    let calls = result.tool_calls.iter();
    result.stdout.len()
        + result.stderr.len()
        + result.output.len()
        + value.map_or(0, |value| value.repr.len() + value.mime.bytes())
        + displays
        + result.error.as_ref().map_or(0, weight_of_error)
        + changes
            .into_iter()
            .flatten()
            .map(weight_of_change)
            .sum::<usize>()
        + changed_files
            .into_iter()
            .flatten()
            .map(|file| ENTRY + file.path.len())
            .sum::<usize>()
        + calls
            .map(|call| ENTRY + call.name.len() + call.arguments.as_json().len())
            .sum::<usize>()
}

fn weight_of_error(error: &CellError) -> usize {
    let frames = error.frames.iter().map(|frame| {
        let locals = frame.locals.0.iter();
        let locals: usize = locals
            .map(|(name, value)| ENTRY + name.len() + value.len())
            .sum();
        ENTRY + frame.file.len() + frame.function.len() + frame.source.len() + locals
    });
    error.type_.len()
        + error.value.len()
        + error.repr.len()
        + error.traceback.len()
        + frames.sum::<usize>()
}

fn weight_of_change(change: &VariableChange) -> usize {
    ENTRY + change.name.len() + change.type_.len() + change.summary.len()
}
