//! Results of calls, kept to be given again.

use crate::{Failure, Output};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The calls of a run with what came of them, in the order of their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recording {
    /// The calls.
    pub calls: Vec<RecordedCall>,
}

/// A call with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The tool.
    pub name: String,
    /// What it was given, as checked.
    pub arguments: Map<String, Value>,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Recording {
    pub(crate) fn note(
        &mut self,
        name: &str,
        arguments: Map<String, Value>,
        outcome: &Result<Output, Failure>,
    ) {
        let (output, error) = match outcome {
            Ok(output) => (Some(output.clone()), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        self.calls.push(RecordedCall {
            name: name.to_owned(),
            arguments,
            output,
            error,
        });
    }
}

/// Recorded results that wait for their calls.
#[derive(Debug)]
pub(crate) struct Replay {
    waiting: HashMap<(String, String), VecDeque<Result<Output, String>>>,
}

impl Replay {
    pub(crate) fn new(recording: Recording) -> Replay {
        let mut waiting: HashMap<_, VecDeque<_>> = HashMap::new();
        for call in recording.calls {
            let outcome = match (call.output, call.error) {
                (Some(output), _) => Ok(output),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(Output::default()),
            };
            let key = (call.name, canonical(&call.arguments));
            waiting.entry(key).or_default().push_back(outcome);
        }
        Replay { waiting }
    }

    /// The result of the same call, each given once.
    pub(crate) fn take(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Output, Failure> {
        let key = (name.to_owned(), canonical(arguments));
        let outcome = self.waiting.get_mut(&key).and_then(VecDeque::pop_front);
        match outcome {
            Some(outcome) => outcome.map_err(Failure::Failed),
            None => Err(Failure::NotRecorded {
                tool: key.0,
                arguments: key.1.chars().take(300).collect(),
            }),
        }
    }
}

/// The arguments as text, whatever the order of their fields.
fn canonical(arguments: &Map<String, Value>) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let ordered: BTreeMap<&String, Value> = map
                    .iter()
                    .map(|(key, value)| (key, sorted(value)))
                    .collect();
                Value::Object(
                    ordered
                        .into_iter()
                        .map(|(key, value)| (key.clone(), value))
                        .collect(),
                )
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    sorted(&Value::Object(arguments.clone())).to_string()
}
