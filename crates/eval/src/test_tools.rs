//! The tools that tasks may have. They log their calls, by the model and by its code.

use crate::report::TestToolCall;
use crate::suite::Task;
use cellblock_agent::AgentBuilder;
use cellblock_tools::{Context, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// A tool that a task may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestTool {
    /// `get_secret()` returns the secret of the task.
    GetSecret,
    /// `provide_answer(answer)` takes the answer to the task.
    ProvideAnswer,
}

/// The calls of a task's tools, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallLog(Arc<Mutex<Vec<TestToolCall>>>);

/// The calls of one run that are logged. Code in a loop can make any number.
const MAX_LOGGED_CALLS: usize = 1_000;

impl TestTool {
    /// The name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            TestTool::GetSecret => "get_secret",
            TestTool::ProvideAnswer => "provide_answer",
        }
    }

    /// Adds the tool to an agent.
    pub(crate) fn add_to(self, builder: AgentBuilder, task: &Task, log: &CallLog) -> AgentBuilder {
        match self {
            TestTool::GetSecret => builder.tool(GetSecretTool {
                secret: task.secret.clone().unwrap_or_default(),
                log: log.clone(),
            }),
            TestTool::ProvideAnswer => builder.tool(ProvideAnswerTool { log: log.clone() }),
        }
    }
}

impl CallLog {
    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<TestToolCall> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn push(&self, tool: TestTool, arguments: Map<String, Value>) -> Result<(), ToolError> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_LOGGED_CALLS {
            return Err(ToolError::new(format!(
                "there were {MAX_LOGGED_CALLS} calls in this run; no more are taken"
            )));
        }
        calls.push(TestToolCall {
            tool: tool.name().to_owned(),
            arguments,
        });
        Ok(())
    }
}

/// Gives the secret text.
#[derive(Debug, Deserialize, JsonSchema)]
struct GetSecret {}

#[derive(Clone)]
struct GetSecretTool {
    secret: String,
    log: CallLog,
}

impl Tool for GetSecretTool {
    type Parameters = GetSecret;
    type Output = String;

    async fn call(&self, _: GetSecret, _: &Context) -> Result<String, ToolError> {
        self.log.push(TestTool::GetSecret, Map::new())?;
        Ok(self.secret.clone())
    }
}

/// Hands in the answer to the task. The last call counts.
#[derive(Debug, Deserialize, JsonSchema)]
struct ProvideAnswer {
    /// The answer, and nothing else.
    answer: TextOrNumber,
}

/// A text or a number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum TextOrNumber {
    Text(String),
    Number(Number),
}

#[derive(Clone)]
struct ProvideAnswerTool {
    log: CallLog,
}

impl Tool for ProvideAnswerTool {
    type Parameters = ProvideAnswer;
    type Output = &'static str;

    async fn call(
        &self,
        parameters: ProvideAnswer,
        _: &Context,
    ) -> Result<&'static str, ToolError> {
        let answer = match parameters.answer {
            TextOrNumber::Text(text) => Value::String(text),
            TextOrNumber::Number(number) => Value::Number(number),
        };
        let mut arguments = Map::new();
        arguments.insert("answer".to_owned(), answer);
        self.log.push(TestTool::ProvideAnswer, arguments)?;
        Ok("received")
    }
}
