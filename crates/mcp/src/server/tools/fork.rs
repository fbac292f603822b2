//! A second session that begins where another stands.

use crate::server::client_sessions::{Forks, MAIN, find, lock};
use cellblock_tools::{Context, Output, Part, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Makes a second session.
#[derive(Debug)]
pub struct ForkTool;

/// Makes a second session that begins where this one stands: the same variables, imports and files, all its own from then on. Use it to
/// try something without risk, or several ways from the same point. Pass the name that you get as `session` to the other tools. A
/// fork's own files and variables never come back by themselves: when it went well, run the same code in main.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Fork {
    /// A name for it, such as try-2. A fork that already has this name is ended and replaced.
    #[serde(default)]
    name: Option<String>,
    /// The session to copy: main, or the name of a fork.
    #[serde(default = "main_session")]
    from: String,
}

fn main_session() -> String {
    MAIN.to_owned()
}

impl Tool for ForkTool {
    type Parameters = Fork;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, fork: Fork, context: &Context) -> Result<Output, ToolError> {
        let main = context.runner();
        let forks = main.state::<Forks>();
        let (name, parent) = {
            let mut forks = lock(&forks);
            let parent = find(main, &forks, &fork.from).map_err(ToolError::new)?;
            (forks.name(fork.name).map_err(ToolError::new)?, parent)
        };
        let session = parent.session().await?.fork().await?;
        let runner = main.with_new_state(session);
        // It sits there from now on, and ends with the tool runner.
        runner.session().await?;
        let earlier = lock(&forks).keep(name.clone(), runner);
        let mut text = format!(
            "The session `{name}` is there, with the variables and files of `{}`. Pass \"session\": \"{name}\" to use it.",
            fork.from
        );
        if let Some(earlier) = earlier {
            earlier.close().await;
            text.push_str(" The fork that had this name before is gone.");
        }
        Ok(Output {
            structured: Some(json!({"session": name})),
            parts: vec![Part::Text(text)],
        })
    }
}
