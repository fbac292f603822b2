//! The arguments of a call, read with repairs.

use crate::repair::{Repair, read_object};
use cellblock_tools::{Arguments, PURPOSE, Registry};
use serde_json::Value;

/// Arguments as they are used: as they came, or repaired where the tool takes them so.
pub(super) fn read(registry: &Registry, tool: &str, raw: &str) -> (Arguments, Vec<Repair>) {
    let as_they_came = || (Arguments::Text(raw.to_owned()), Vec::new());
    if raw.trim().is_empty() || serde_json::from_str::<Value>(raw).is_ok() {
        return as_they_came();
    }
    let fits = |map: &serde_json::Map<String, Value>| registry.check(tool, map.clone()).is_ok();
    let definition = registry.get(tool);
    let properties = definition.and_then(|definition| definition.parameters.get("properties"));
    let mut fields = vec![PURPOSE];
    if let Some(Value::Object(properties)) = properties {
        fields.extend(properties.keys().map(String::as_str));
    }
    match read_object(raw, false, &fields, fits) {
        Ok(read) if fits(&read.value) => (Arguments::Object(read.value), read.repairs),
        _ => as_they_came(),
    }
}

/// Whether arguments are whole: a call whose reply was cut off may have lost their end.
pub(super) fn is_whole(raw: &str) -> bool {
    raw.trim().is_empty() || serde_json::from_str::<Value>(raw).is_ok()
}
