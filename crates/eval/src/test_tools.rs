//! The tools that tasks may have. They log their calls, by the model and by its code.

use crate::report::TestToolCall;
use crate::suite::Task;
use cellblock_agent::AgentBuilder;
use cellblock_tools::{Context, Registry, Tool, ToolDefinition, ToolError};
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

/// The tools of a task, for a run elsewhere: what a model is told of them, and their answers.
#[derive(Clone, Debug)]
pub struct TaskTools {
    tools: Vec<TestTool>,
    secret: String,
    log: CallLog,
}

impl TaskTools {
    pub(crate) fn new(task: &Task, log: &CallLog) -> TaskTools {
        TaskTools {
            tools: task.tools.clone(),
            secret: task.secret.clone().unwrap_or_default(),
            log: log.clone(),
        }
    }

    /// The descriptions of the tools: name, description and the JSON schema of the arguments.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let mut registry = Registry::builder();
        for tool in &self.tools {
            registry = match tool {
                TestTool::GetSecret => registry.tool(self.get_secret()),
                TestTool::ProvideAnswer => registry.tool(self.provide_answer()),
            };
        }
        let registry = registry.build();
        registry.map_or_else(
            |_| Vec::new(),
            |tools| tools.definitions().cloned().collect(),
        )
    }

    /// Answers a call, and logs it. The error is for the caller of the tool.
    pub fn answer(&self, name: &str, arguments: Map<String, Value>) -> Result<String, String> {
        let tool = self.tools.iter().find(|tool| tool.name() == name);
        let answered = match tool {
            None => return Err(format!("the task has no tool `{name}`")),
            Some(TestTool::GetSecret) => self.get_secret().give(),
            Some(TestTool::ProvideAnswer) => {
                let parameters = serde_json::from_value(Value::Object(arguments));
                let parameters = parameters.map_err(|error| error.to_string())?;
                let taken = self.provide_answer().take(parameters);
                taken.map(str::to_owned)
            }
        };
        answered.map_err(|error| error.to_string())
    }

    fn get_secret(&self) -> GetSecretTool {
        GetSecretTool {
            secret: self.secret.clone(),
            log: self.log.clone(),
        }
    }

    fn provide_answer(&self) -> ProvideAnswerTool {
        let log = self.log.clone();
        ProvideAnswerTool { log }
    }
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
        let tools = TaskTools::new(task, log);
        match self {
            TestTool::GetSecret => builder.tool(tools.get_secret()),
            TestTool::ProvideAnswer => builder.tool(tools.provide_answer()),
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
        self.give()
    }
}

impl GetSecretTool {
    fn give(&self) -> Result<String, ToolError> {
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
        self.take(parameters)
    }
}

impl ProvideAnswerTool {
    fn take(&self, parameters: ProvideAnswer) -> Result<&'static str, ToolError> {
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
