//! Answers of a given form.

use crate::repair::read_value;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// What an answer must look like.
#[derive(Clone)]
pub(crate) struct AnswerShape {
    pub(crate) schema: Value,
    validator: Arc<jsonschema::Validator>,
}

impl AnswerShape {
    /// The problem in words where it is no schema.
    pub(crate) fn new(schema: Value) -> Result<AnswerShape, String> {
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        Ok(AnswerShape {
            schema,
            validator: Arc::new(validator),
        })
    }

    /// The answer in the right form: as it came, or read from its text. What is wrong with it, where there is none.
    pub(crate) fn read(&self, answer: &Value) -> Result<Value, String> {
        if self.validator.is_valid(answer) {
            return Ok(answer.clone());
        }
        let Value::String(text) = answer else {
            return Err(self.problems(answer));
        };
        match read_value(text) {
            Some(read) if self.validator.is_valid(&read.value) => Ok(read.value),
            Some(read) => Err(self.problems(&read.value)),
            None => self
                .behind_label(text)
                .ok_or_else(|| "it is not JSON".to_owned()),
        }
    }

    /// `Final answer: 2`. An object or a list is found among words by itself; a number is not, for there may be many.
    fn behind_label(&self, text: &str) -> Option<Value> {
        let (_, value) = text.trim().split_once(':')?;
        let value = serde_json::from_str(value.trim().trim_end_matches('.')).ok()?;
        self.validator.is_valid(&value).then_some(value)
    }

    fn problems(&self, value: &Value) -> String {
        let problems = self.validator.iter_errors(value).take(5).map(|error| {
            let text: String = error.to_string().chars().take(200).collect();
            match error.instance_path().to_string() {
                path if path.is_empty() => text,
                path => format!("{path}: {text}"),
            }
        });
        problems.collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Debug for AnswerShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("AnswerShape").field(&self.schema).finish()
    }
}
