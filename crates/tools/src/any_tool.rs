//! Tools of every kind under one face: those of Rust, those of other MCP servers, those written in Python.

use crate::schema::schema_of_parameters;
use crate::{Context, Effects, IntoOutput as _, Output, Tool, ToolError, Uses};
use serde_json::{Map, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Everything there is to know of a tool without calling it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name, the same everywhere.
    pub name: String,
    /// Other names under which a call is accepted.
    pub aliases: Vec<String>,
    /// What it does, for a model.
    pub description: String,
    /// The JSON schema of its arguments: an object. Without the purpose.
    pub parameters: Map<String, Value>,
    /// The schema of its result, where it has one.
    pub result: Option<Value>,
    /// What it shares with other calls.
    pub uses: Uses,
    /// What it does to the world.
    pub effects: Effects,
    /// How long one call may take; the workbench's own limit when absent.
    pub time_limit: Option<Duration>,
}

impl Definition {
    /// A tool with this schema of arguments, and everything else by default.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Map<String, Value>,
    ) -> Definition {
        Definition {
            name: name.into(),
            aliases: Vec::new(),
            description: description.into(),
            parameters,
            result: None,
            uses: Uses::Nothing,
            effects: Effects::None,
            time_limit: None,
        }
    }
}

/// A call that is being made.
pub type Invocation = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send>>;

/// A tool whose schema is only known at run time. Those of Rust implement [`Tool`] instead.
pub trait AnyTool: Send + Sync + 'static {
    /// What it is. Asked once, when it is registered.
    fn definition(&self) -> Definition;

    /// Does the work. The arguments have been checked against the schema.
    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, context: Context) -> Invocation;
}

/// A tool of Rust as one of any kind.
pub(crate) struct Typed<T>(pub(crate) T);

impl<T: Tool> AnyTool for Typed<T> {
    fn definition(&self) -> Definition {
        let (parameters, described) = schema_of_parameters::<T::Parameters>();
        Definition {
            name: self.0.name(),
            aliases: self.0.aliases(),
            description: self.0.description().or(described).unwrap_or_default(),
            parameters,
            result: T::Output::schema(),
            uses: self.0.uses(),
            effects: self.0.effects(),
            time_limit: self.0.time_limit(),
        }
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, context: Context) -> Invocation {
        Box::pin(async move {
            // The schema is made from the type, so this fails only where the two disagree.
            let parameters = serde_json::from_value(Value::Object(arguments))
                .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))?;
            self.0.call(parameters, &context).await?.into_output()
        })
    }
}
