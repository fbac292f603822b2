//! The traits that a tool implements: [`Tool`] in Rust, [`DynamicTool`] where the schema is known only at
//! run time.

use crate::names::name_of_type;
use crate::schema::schema_of_parameters;
use crate::{Context, IntoOutput, Output, ToolError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A function of the host that a model, Python code in a session or an MCP client can call.
///
/// The schema of the parameters is made from their type, and every call is checked against it before
/// [`Tool::call`] gets it. The future must not block its thread: use `tokio::task::spawn_blocking` for work
/// that blocks.
///
/// ```
/// use cellblock_tools::{Call, Context, Registry, Tool, ToolError, ToolRunner};
///
/// /// Adds two numbers.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// struct AddTool;
///
/// impl Tool for AddTool {
///     type Parameters = Add;
///     type Output = i64;
///
///     async fn call(&self, add: Add, _: &Context) -> Result<i64, ToolError> {
///         Ok(add.a + add.b)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = ToolRunner::new(Registry::builder().tool(AddTool).build()?);
/// let answer = runner.call(Call::by_user("add", r#"{"a": 1, "b": "2"}"#)).await;
/// assert_eq!(answer.outcome?.to_text(), "3");
/// # Ok(())
/// # }
/// ```
pub trait Tool: Send + Sync + Sized + 'static {
    /// The parameters. Doc comments of the fields become descriptions in the schema; the doc comment of the
    /// type describes the tool.
    type Parameters: DeserializeOwned + JsonSchema + Send;
    /// The result: a text, a number, [`Json`](crate::Json) of a type of your own, or an [`Output`].
    type Output: IntoOutput;

    /// Runs the tool. A panic or an error becomes the answer of the call; it never ends the run.
    fn call(
        &self,
        parameters: Self::Parameters,
        context: &Context,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// The tool's name. By default the name of the type, without a trailing `Tool`, in snake case.
    fn name(&self) -> String {
        name_of_type::<Self>()
    }

    /// The description that a model reads. By default the doc comment of the parameters.
    fn description(&self) -> Option<String> {
        None
    }

    /// Other names under which a call is accepted. They are in no schema.
    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the tool shares with other calls.
    fn uses(&self) -> Uses {
        Uses::Nothing
    }

    /// What the tool changes outside of the session.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// The time limit of one call; `None` for [`CallLimits::time_limit`](crate::CallLimits::time_limit).
    fn time_limit(&self) -> Option<Duration> {
        None
    }
}

/// What a tool shares with other calls of the same run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uses {
    /// Nothing: calls run concurrently.
    #[default]
    Nothing,
    /// The interpreter of the session: calls run one after the other, and code in that session cannot make
    /// them.
    Interpreter,
    /// State of its own, which a call may change. Calls run concurrently as far as the tool lets them. A trial of a reply does not make
    /// them, because the chosen reply would make them a second time.
    State,
}

/// What a tool changes outside of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effects {
    /// Nothing: the tool only reads, or its changes stay in the session.
    #[default]
    None,
    /// Nothing, but the tool runs the caller's code in the sealed session.
    Code {
        /// The parameter that holds the code.
        argument: &'static str,
    },
    /// Something that no undo brings back: the tool sends, pays or deletes. A person is asked first.
    Outside,
}

/// The description of a tool, without its code.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The tool's name, the same everywhere.
    pub name: String,
    /// Other names under which a call is accepted.
    pub aliases: Vec<String>,
    /// The description that a model reads.
    pub description: String,
    /// The JSON schema of the arguments: an object, without the purpose.
    pub parameters: Map<String, Value>,
    /// The JSON schema of the result; `None` for free text.
    pub result: Option<Value>,
    /// What the tool shares with other calls.
    pub uses: Uses,
    /// What the tool changes outside of the session.
    pub effects: Effects,
    /// The time limit of one call; `None` for [`CallLimits::time_limit`](crate::CallLimits::time_limit).
    pub time_limit: Option<Duration>,
}

impl ToolDefinition {
    /// Whether a call changes something that outlasts a trial of a reply: something outside of the session, or state of the tool.
    pub fn has_lasting_effects(&self) -> bool {
        self.effects == Effects::Outside || self.uses == Uses::State
    }

    /// A tool with this schema of arguments. It shares nothing, changes nothing outside, and has no aliases.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Map<String, Value>,
    ) -> ToolDefinition {
        ToolDefinition {
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

/// A running call of a [`DynamicTool`].
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send>>;

/// A tool whose schema is known only at run time: a tool of another MCP server, or one written in Python. A
/// tool in Rust implements [`Tool`] instead.
pub trait DynamicTool: Send + Sync + 'static {
    /// The tool's description. Called once, when the tool is registered.
    fn definition(&self) -> ToolDefinition;

    /// Runs the tool. The arguments have been checked against the schema.
    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, context: Context) -> ToolFuture;
}

/// Makes a [`DynamicTool`] of a [`Tool`].
pub(crate) struct TypedTool<T>(pub(crate) T);

impl<T: Tool> DynamicTool for TypedTool<T> {
    fn definition(&self) -> ToolDefinition {
        let (parameters, type_comment) = schema_of_parameters::<T::Parameters>();
        ToolDefinition {
            name: self.0.name(),
            aliases: self.0.aliases(),
            description: self.0.description().or(type_comment).unwrap_or_default(),
            parameters,
            result: T::Output::schema(),
            uses: self.0.uses(),
            effects: self.0.effects(),
            time_limit: self.0.time_limit(),
        }
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, context: Context) -> ToolFuture {
        Box::pin(async move {
            // The schema is made from the type, so this fails only where the two disagree.
            let parameters = serde_json::from_value(Value::Object(arguments))
                .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))?;
            self.0.call(parameters, &context).await?.into_output()
        })
    }
}
