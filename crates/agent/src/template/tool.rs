//! A template that another run can call.

use super::Template;
use crate::agent::AgentBuilder;
use crate::nest::Nest;
use crate::run::RunStatus;
use cellblock_tools::{AnyTool, Context, Definition, Invocation, Output, ToolError, UNLIMITED};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Calls of it are runs of their own.
pub(crate) struct TemplateTool {
    template: Template,
    builder: AgentBuilder,
    nest: Nest,
}

impl TemplateTool {
    pub(crate) fn new(template: Template, builder: AgentBuilder, nest: Nest) -> TemplateTool {
        TemplateTool {
            template,
            builder,
            nest,
        }
    }
}

impl AnyTool for TemplateTool {
    fn definition(&self) -> Definition {
        let template = &self.template;
        let description = match template.description.as_str() {
            "" => template.prompt.lines().next().unwrap_or_default(),
            words => words,
        };
        let mut definition = Definition::new(
            template.name.clone(),
            description,
            template.parameters_schema(),
        );
        // The run has limits of its own.
        definition.time_limit = Some(UNLIMITED);
        definition
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> Invocation {
        Box::pin(async move {
            let agent = self.builder.clone().build()?;
            let observer = self.nest.observer(&self.template.name);
            let outcome = agent
                .run_template(
                    &self.template,
                    arguments,
                    observer,
                    CancellationToken::new(),
                )
                .await?;
            self.nest.spend(outcome.usage);
            match (outcome.status, outcome.answer) {
                (RunStatus::Answered, Some(answer)) => Ok(Output::json(answer)),
                (status, _) => {
                    let message = outcome.message.unwrap_or_default();
                    Err(ToolError::new(format!(
                        "`{}` found no answer ({status}): {message}",
                        self.template.name
                    )))
                }
            }
        })
    }
}
