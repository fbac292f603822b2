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

/// What was called before the program ended that a run began in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Earlier {
    /// All calls that were answered.
    pub answered: Recording,
    /// Those of them that belong to something which was not finished and is done again: they get the same answers, each once.
    pub unfinished: Recording,
}

impl Recording {
    /// Keeps a call; the call as it was kept.
    pub(crate) fn note(
        &mut self,
        name: &str,
        arguments: Map<String, Value>,
        outcome: &Result<Output, Failure>,
    ) -> RecordedCall {
        let (output, error) = match outcome {
            Ok(output) => (Some(output.clone()), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        let call = RecordedCall {
            name: name.to_owned(),
            arguments,
            output,
            error,
        };
        self.calls.push(call.clone());
        call
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
        self.find(name, arguments).unwrap_or_else(|| {
            Err(Failure::NotRecorded {
                tool: name.to_owned(),
                arguments: canonical(arguments).chars().take(300).collect(),
            })
        })
    }

    /// The same, where there is one.
    pub(crate) fn find(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Result<Output, Failure>> {
        let key = (name.to_owned(), canonical(arguments));
        let outcome = self.waiting.get_mut(&key)?.pop_front()?;
        Some(outcome.map_err(Failure::Failed))
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
