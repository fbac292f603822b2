//! Events and results as JSON for readers, with large displays as references.

use super::DisplayFiles;
use cellblock_protocol::{CellResult, Event, MimeBundle};
use serde_json::{Map, Value};

/// Whether an event has parts that are kept in files.
pub(crate) fn has_large_parts(event: &Event) -> bool {
    match event {
        Event::Display(display) => DisplayFiles::is_large(&display.mime),
        Event::Result { result } => has_large_displays(result),
        _ => false,
    }
}

/// Whether a result has parts that are kept in files.
pub(crate) fn has_large_displays(result: &CellResult) -> bool {
    let value = result.value.iter().map(|value| &value.mime);
    result
        .displays
        .iter()
        .chain(value)
        .any(DisplayFiles::is_large)
}

/// The name of an event and its fields. Writes files for large displays, so it blocks.
pub(crate) fn event_json(
    event: Event,
    session: &str,
    displays: &DisplayFiles,
) -> (String, Map<String, Value>) {
    match event {
        Event::Display(mut display) => {
            let mime = displays.bundle_json(&std::mem::take(&mut display.mime));
            let mut fields = match serde_json::to_value(&display) {
                Ok(Value::Object(fields)) => fields,
                _ => Map::new(),
            };
            fields.insert("mime".into(), mime);
            ("display".into(), fields)
        }
        Event::Result { result } => {
            let result = result_json(*result, session, displays);
            ("result".into(), Map::from_iter([("result".into(), result)]))
        }
        other => {
            let mut fields = match serde_json::to_value(&other) {
                Ok(Value::Object(fields)) => fields,
                _ => Map::new(),
            };
            let name = fields.remove("event");
            let name = name
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or("log")
                .to_owned();
            (name, fields)
        }
    }
}

/// A result as JSON, under the id that the server gave the session. Writes files for large displays, so it blocks.
pub(crate) fn result_json(mut result: CellResult, session: &str, displays: &DisplayFiles) -> Value {
    result.session = session.to_owned();
    let shown = std::mem::take(&mut result.displays);
    let mime = result
        .value
        .as_mut()
        .map(|value| std::mem::take(&mut value.mime));
    let mut json = serde_json::to_value(&result).unwrap_or_default();
    let bundle = |bundle: &MimeBundle| displays.bundle_json(bundle);
    json["displays"] = shown.iter().map(bundle).collect();
    if let Some(mime) = mime {
        json["value"]["mime"] = bundle(&mime);
    }
    json
}
