//! The trait that a tool implements.

use crate::names::name_of_type;
use crate::{Context, IntoOutput, ToolError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Something that a model, Python code in a session or an MCP client can call.
///
/// The schema of the parameters is made from their type, and every call is checked against it before `call` sees it. The future
/// must not block its thread: use `tokio::task::spawn_blocking` for work that does.
pub trait Tool: Send + Sync + Sized + 'static {
    /// What it is given. Doc comments become descriptions; those of the type itself describe the tool.
    type Parameters: DeserializeOwned + JsonSchema + Send;
    /// What it gives back: a text, a number, [`Json`](crate::Json) of a type of your own, or an [`Output`](crate::Output).
    type Output: IntoOutput;

    /// Does the work.
    fn call(
        &self,
        parameters: Self::Parameters,
        context: &Context,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// The name: that of the type, without a trailing `Tool`, in snake case.
    fn name(&self) -> String {
        name_of_type::<Self>()
    }

    /// What it does, for a model. By default the doc comment of the parameters.
    fn description(&self) -> Option<String> {
        None
    }

    /// Other names under which a call is accepted. They stand in no schema.
    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it shares with other calls.
    fn uses(&self) -> Uses {
        Uses::Nothing
    }

    /// What it does to the world.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// How long one call may take; the workbench's own limit when absent.
    fn time_limit(&self) -> Option<Duration> {
        None
    }
}

/// What a tool shares with other calls of the same run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uses {
    /// Nothing: calls run side by side.
    #[default]
    Nothing,
    /// The interpreter of the session: such calls run one after the other, and code in that session cannot make them.
    Interpreter,
}

/// What a tool does to the world outside of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effects {
    /// It only looks, or what it does stays in the session.
    #[default]
    None,
    /// It runs code of the caller's in the sealed session.
    Code {
        /// The parameter that holds the code.
        argument: &'static str,
    },
    /// It changes something that no undo brings back: sends, pays, deletes. A person is asked first.
    Outside,
}
