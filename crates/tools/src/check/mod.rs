//! Arguments and results against their schemas.

mod coerce;
mod words;

use jsonschema::Validator;
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// The most problems that one message names.
const MOST_PROBLEMS: usize = 8;

/// A schema, made ready for checking when it is first needed.
#[derive(Debug)]
pub(crate) struct Checker {
    schema: Value,
    validator: OnceLock<Result<Validator, String>>,
}

impl Checker {
    pub(crate) fn new(schema: Value) -> Checker {
        Checker {
            schema,
            validator: OnceLock::new(),
        }
    }

    /// Brings arguments to the types that the schema wants, where nothing is lost by it, and checks them. The problems name each
    /// field, what was expected and what came.
    pub(crate) fn arguments(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let mut value = Value::Object(arguments);
        coerce::coerce(&mut value, &self.schema);
        self.check(&value)?;
        match value {
            Value::Object(map) => Ok(map),
            _ => Err("expected an object".to_owned()),
        }
    }

    /// Checks a value as it is.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let validator = self.validator()?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let mut errors = validator.iter_errors(value);
        let mut problems: Vec<String> = errors
            .by_ref()
            .take(MOST_PROBLEMS)
            .map(|error| words::problem(&error, &self.schema))
            .collect();
        problems.dedup();
        let more = errors.count();
        if more > 0 {
            problems.push(format!("and {more} more problems"));
        }
        Err(problems.join("; "))
    }

    /// Whether the schema itself can be used.
    pub(crate) fn validator(&self) -> Result<&Validator, String> {
        let made = self.validator.get_or_init(|| {
            // Nothing is fetched: a schema that refers to an address is refused.
            jsonschema::options()
                .build(&self.schema)
                .map_err(|error| error.to_string())
        });
        made.as_ref()
            .map_err(|problem| format!("its schema cannot be used: {problem}"))
    }
}
