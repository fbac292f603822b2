//! What can be wrong with an agent.

use crate::format::Format;
use crate::template::TemplateError;
use cellblock_tools::RegistryError;

/// Why an agent cannot be made or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No model was given.
    #[error("an agent needs a model: call `model` on its builder")]
    NoModel,
    /// Nobody runs its code.
    #[error(
        "an agent that runs code needs an executor: call `executor` on its builder, or `code(CodeUse::Off)`"
    )]
    NoExecutor,
    /// A format without tools, and no code to run.
    #[error(
        "the format `{0}` acts through code alone, and code is off; use `tools` or `next_step`"
    )]
    FormatNeedsCode(Format),
    /// Its tools do not go together.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The schema of the answer is none.
    #[error("the schema of the answer cannot be used: {0}")]
    Schema(String),
    /// There is nothing to answer.
    #[error("the question is empty")]
    EmptyQuestion,
    /// No run was cut off.
    #[error("there is no run to go on with")]
    NothingToTakeUp,
    /// A template, or what it was given, cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
}
