use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::bounds::{self, Bound as _};
use super::from_head::HeadError;
use crate::mime::add_plain_text;
use crate::{Computed, Inspection, Variable};

/// The answer to an operation. Which shape it must have, only the asker knows: so it says by the
/// method that it takes the answer with.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The number of the operation that is answered.
    pub seq: u64,
    fields: Map<String, Value>,
}

/// A standby, as the head that was copied describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Armed {
    /// Its process id inside.
    pub pid: u32,
    /// Bytes that the head held of its own.
    #[serde(default)]
    pub resident: u64,
    /// Pages that the head touched in its life.
    #[serde(default)]
    pub faults: u64,
    /// The child processes that the head had then, by name. They end when the standby is woken.
    #[serde(default)]
    pub children: Vec<String>,
}

/// The most child processes that a head can name.
const MAX_CHILDREN: usize = 64;

impl Reply {
    pub(super) fn new(seq: u64, fields: Map<String, Value>) -> Self {
        Self { seq, fields }
    }

    /// For `seed`, `tools` and `reset`: it is done, or why it is not.
    pub fn done(mut self) -> Result<(), HeadError> {
        self.refused()
    }

    /// For `vars`.
    pub fn variables(mut self) -> Result<Vec<Variable>, HeadError> {
        self.refused()?;
        let list = self.fields.remove("vars").ok_or_else(|| missing("vars"))?;
        let mut variables = typed(list)?;
        bounds::bound_variables(&mut variables);
        Ok(variables)
    }

    /// For `inspect`.
    pub fn inspection(mut self) -> Result<Inspection, HeadError> {
        self.refused()?;
        let mut inspection: Inspection = typed(Value::Object(self.fields))?;
        inspection.bound();
        add_plain_text(&mut inspection.mime, &inspection.repr);
        Ok(inspection)
    }

    /// For `compute`, whose error is an answer like any other.
    pub fn computed(self) -> Result<Computed, HeadError> {
        let computed: Computed = typed(Value::Object(self.fields))?;
        match computed {
            Computed {
                result: Some(mut text),
                error: None,
            } => {
                bounds::cut(&mut text, bounds::REPR);
                Ok(Computed::result(text))
            }
            Computed {
                result: None,
                error: Some(mut message),
            } => {
                bounds::cut(&mut message, bounds::TEXT);
                Ok(Computed::error(message))
            }
            _ => Err(HeadError::Malformed(
                "`compute` needs either `result` or `error`".to_owned(),
            )),
        }
    }

    /// For `arm`: the process that stands by, or why none can.
    pub fn armed(mut self) -> Result<Result<Armed, String>, HeadError> {
        self.refused()?;
        match self.fields.remove("unavailable") {
            Some(Value::String(mut reason)) => {
                bounds::cut(&mut reason, bounds::SHORT);
                Ok(Err(reason))
            }
            _ => {
                let mut armed: Armed = typed(Value::Object(self.fields))?;
                armed.children.truncate(MAX_CHILDREN);
                for name in &mut armed.children {
                    bounds::cut(name, bounds::NAME);
                }
                Ok(Ok(armed))
            }
        }
    }

    /// For `settle`: what could not be put right, each with its reason.
    pub fn settled(mut self) -> Result<Vec<String>, HeadError> {
        const MAX_REASONS: usize = 100;
        self.refused()?;
        let lost = self.fields.remove("lost").unwrap_or_default();
        let mut reasons: Vec<String> = typed(lost)?;
        reasons.truncate(MAX_REASONS);
        for reason in &mut reasons {
            bounds::cut(reason, bounds::SHORT);
        }
        Ok(reasons)
    }

    /// For `fork`: it is made, or why it cannot be.
    pub fn forked(mut self) -> Result<Result<(), String>, HeadError> {
        self.refused()?;
        match self.fields.remove("unavailable") {
            Some(Value::String(mut reason)) => {
                bounds::cut(&mut reason, bounds::SHORT);
                Ok(Err(reason))
            }
            _ => Ok(Ok(())),
        }
    }

    fn refused(&mut self) -> Result<(), HeadError> {
        match self.fields.remove("error") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(mut message)) => {
                bounds::cut(&mut message, bounds::TEXT);
                Err(HeadError::Refused(message))
            }
            Some(_) => Err(HeadError::Malformed("`error` is no text".to_owned())),
        }
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, HeadError> {
    serde_json::from_value(value).map_err(|error| HeadError::Malformed(error.to_string()))
}

fn missing(field: &str) -> HeadError {
    HeadError::Malformed(format!("missing field `{field}`"))
}
