//! Recorded results of calls, and their replay.

use crate::{Failure, Output};
use cellblock_protocol::CellResult;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How much of the arguments a message shows.
const MAX_SHOWN_CHARS: usize = 300;

/// The calls of a run with their results, in the order of their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recording {
    /// The recorded calls.
    pub calls: Vec<RecordedCall>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments after their check.
    pub arguments: Map<String, Value>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The message of the failure, if there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The calls of a run before its program ended, for a run that is resumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierCalls {
    /// All calls that were answered.
    pub answered: Recording,
    /// The answered calls of an action that was not finished. The action is done again, and each of these
    /// calls gets the same result, once.
    pub unfinished: Recording,
    /// The cells of such an action that are in the session all the same, in order. They do not run again.
    pub cells: Vec<HappenedCell>,
}

/// A cell that happened in the session of a run, and whose result the run does not know.
#[derive(Clone, Debug, PartialEq)]
pub struct HappenedCell {
    /// The source text.
    pub code: String,
    /// What came of it.
    pub result: CellResult,
}

impl Recording {
    /// Records a call, and returns the record.
    pub(crate) fn record(
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

/// Recorded results that are returned instead of running tools.
#[derive(Debug)]
pub(crate) struct Replay {
    results: HashMap<(String, String), VecDeque<Result<Output, String>>>,
}

impl Replay {
    pub(crate) fn new(recording: Recording) -> Replay {
        let mut results: HashMap<_, VecDeque<_>> = HashMap::new();
        for call in recording.calls {
            let outcome = match (call.output, call.error) {
                (Some(output), _) => Ok(output),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(Output::default()),
            };
            let key = (call.name, canonical(&call.arguments));
            results.entry(key).or_default().push_back(outcome);
        }
        Replay { results }
    }

    /// The recorded result of the same call. Each result is returned once; a call without one fails.
    pub(crate) fn take(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Output, Failure> {
        self.find(name, arguments).unwrap_or_else(|| {
            Err(Failure::NotRecorded {
                tool: name.to_owned(),
                arguments: canonical(arguments).chars().take(MAX_SHOWN_CHARS).collect(),
            })
        })
    }

    /// The recorded result of the same call, if there is one.
    pub(crate) fn find(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Result<Output, Failure>> {
        let key = (name.to_owned(), canonical(arguments));
        let outcome = self.results.get_mut(&key)?.pop_front()?;
        Some(outcome.map_err(Failure::Failed))
    }
}

/// The arguments as text, with their fields sorted.
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
