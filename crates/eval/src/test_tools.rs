//! The tools that tasks may have. They keep what they were called with, whoever called: the model, or its code.

use crate::report::Called;
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
    /// `get_secret()` gives the secret of the task.
    GetSecret,
    /// `provide_answer(answer)` takes an answer.
    ProvideAnswer,
}

/// What was called, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallLog(Arc<Mutex<Vec<Called>>>);

/// Calls that are kept of one run. Code in a loop can make any number.
const MOST_CALLS: usize = 1_000;

impl TestTool {
    /// The name under which it is called.
    pub fn name(self) -> &'static str {
        match self {
            TestTool::GetSecret => "get_secret",
            TestTool::ProvideAnswer => "provide_answer",
        }
    }

    /// An agent that has this tool too.
    pub(crate) fn add(self, builder: AgentBuilder, task: &Task, log: &CallLog) -> AgentBuilder {
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
    /// Everything that was called.
    pub(crate) fn calls(&self) -> Vec<Called> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, tool: TestTool, arguments: Map<String, Value>) -> Result<(), ToolError> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MOST_CALLS {
            return Err(ToolError::new(format!(
                "there were {MOST_CALLS} calls in this run; no more are taken"
            )));
        }
        calls.push(Called {
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
        self.log.note(TestTool::GetSecret, Map::new())?;
        Ok(self.secret.clone())
    }
}

/// Hands in the answer to the task. The last call counts.
#[derive(Debug, Deserialize, JsonSchema)]
struct ProvideAnswer {
    /// The answer, and nothing else.
    answer: Given,
}

/// A text or a number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Given {
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

    async fn call(&self, given: ProvideAnswer, _: &Context) -> Result<&'static str, ToolError> {
        let answer = match given.answer {
            Given::Text(text) => Value::String(text),
            Given::Number(number) => Value::Number(number),
        };
        let mut arguments = Map::new();
        arguments.insert("answer".to_owned(), answer);
        self.log.note(TestTool::ProvideAnswer, arguments)?;
        Ok("received")
    }
}
