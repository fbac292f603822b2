//! A call before it is made.

use super::Workbench;
use crate::call::take_purpose;
use crate::registry::Entry;
use crate::{Call, Caller, Failure, PURPOSE};
use serde_json::{Map, Value};

/// A call whose arguments fit.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) purpose: Option<String>,
    pub(super) arguments: Map<String, Value>,
}

impl Workbench {
    pub(super) fn check(&self, entry: &Entry, call: Call) -> Result<Checked, Failure> {
        let tool = &entry.definition.name;
        let mut arguments = call.arguments.read(tool, self.inner.limits.bytes)?;
        let (purpose, complaint) = match take_purpose(&mut arguments) {
            Some(Value::String(text)) => (Some(text), None),
            None | Some(Value::Null) if call.caller != Caller::Model => (None, None),
            None | Some(Value::Null) => (
                None,
                Some(format!(
                    "missing field `{PURPOSE}`: expected a text that says why you call"
                )),
            ),
            Some(other) => (Some(other.to_string()), None),
        };
        let checked = entry.arguments.arguments(arguments);
        let problems = match (checked, complaint) {
            (Ok(arguments), None) => {
                return Ok(Checked {
                    id: call.id,
                    caller: call.caller,
                    purpose,
                    arguments,
                });
            }
            (Ok(_), Some(complaint)) => complaint,
            (Err(problems), None) => problems,
            (Err(problems), Some(complaint)) => format!("{complaint}; {problems}"),
        };
        Err(Failure::Invalid {
            tool: tool.clone(),
            problems,
        })
    }
}
