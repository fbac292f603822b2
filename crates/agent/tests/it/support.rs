//! Sessions, facts and models for tests.

use cellblock_agent::{
    Agent, AgentBuilder, Format, FormatContext, LocalExecutor, Observer, RunEvent, SessionRequest,
};
use cellblock_model::{Capabilities, Reply, ScriptedModel, ToolCall};
use cellblock_protocol::{Locale, SessionOptions};
use cellblock_test_support::open_session;
pub use cellblock_test_support::wait;
use cellblock_tools::{Context, Registry, RegistryBuilder, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, LazyLock, Mutex};

/// Sessions with the standard library.
pub fn python() -> LocalExecutor {
    LocalExecutor::new(|wanted: SessionRequest| {
        Box::pin(async move {
            let options = SessionOptions {
                seed: wanted.seed,
                ..SessionOptions::default()
            };
            Ok(open_session(options).await?)
        })
    })
}

/// What a format knows, with the built-in tools.
pub fn facts() -> FormatContext {
    static FACTS: LazyLock<FormatContext> = LazyLock::new(|| facts_with(|registry| registry));
    FACTS.clone()
}

/// The same with more tools.
pub fn facts_with(more: impl FnOnce(RegistryBuilder) -> RegistryBuilder) -> FormatContext {
    FormatContext {
        registry: more(Registry::builder().built_in()).build().unwrap(),
        locale: Locale::En,
        capabilities: Capabilities::default(),
        dependencies: vec!["numpy".to_owned()],
        workspace: "/workspace".to_owned(),
        surroundings: cellblock_agent::CodeEnvironment::default(),
        answer_schema: None,
    }
}

/// A reply that reached the token limit.
pub fn cut_off(text: &str) -> Reply {
    Reply {
        finish: cellblock_model::FinishReason::Length,
        ..Reply::text(text)
    }
}

/// Gives the secret.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSecret {}

#[derive(Clone)]
pub struct GetSecretTool;

impl Tool for GetSecretTool {
    type Parameters = GetSecret;
    type Output = String;

    async fn call(&self, _: GetSecret, _: &Context) -> Result<String, ToolError> {
        Ok("NcS9euQa".to_owned())
    }
}

/// Takes the answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ProvideAnswer {
    /// The answer.
    pub answer: String,
}

/// Keeps what it was given.
#[derive(Clone, Default)]
pub struct ProvideAnswerTool(pub Arc<Mutex<Vec<String>>>);

impl Tool for ProvideAnswerTool {
    type Parameters = ProvideAnswer;
    type Output = &'static str;

    async fn call(&self, given: ProvideAnswer, _: &Context) -> Result<&'static str, ToolError> {
        self.0.lock().unwrap().push(given.answer);
        Ok("received")
    }
}

/// An agent over real sessions with a script in place of a model.
pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    Agent::builder()
        .model(ScriptedModel::new(replies))
        .executor(python())
}

/// A reply that runs code, in the words of a format.
pub fn runs(format: Format, code: &str) -> Reply {
    match format {
        Format::Tools => Reply::calls(vec![ToolCall {
            id: "call".to_owned(),
            name: "execute_python_code".to_owned(),
            arguments: json!({"tool_call_purpose": "to compute", "python_code_snippet": code}).to_string(),
        }]),
        Format::Json => Reply::text(json!({"thought": "I compute.", "action": "execute_code", "code": code, "final_answer": null}).to_string()),
        Format::Xml => Reply::text(format!("I compute.\n<execution-code>\n{code}\n</execution-code>")),
        Format::Markdown => Reply::text(format!("I compute.\n```python\n{code}\n```")),
        Format::NextStep => Reply::text(
            json!({"current_state": "I compute.", "plan_remaining_steps_brief": [], "task_completed": false,
                "function": {"tool": "execute_python_code", "tool_call_purpose": "to compute", "python_code_snippet": code}})
            .to_string(),
        ),
    }
}

/// A reply that calls a tool.
pub fn calls(name: &str, arguments: serde_json::Value) -> Reply {
    Reply::calls(vec![ToolCall {
        id: "call".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }])
}

/// A reply that answers, in the words of a format.
pub fn answers(format: Format, answer: &str) -> Reply {
    match format {
        Format::Json => Reply::text(json!({"thought": "I know.", "action": "provide_answer", "code": null, "final_answer": answer}).to_string()),
        Format::NextStep => Reply::text(
            json!({"current_state": "I know.", "plan_remaining_steps_brief": [], "task_completed": true,
                "function": {"tool": "report_task_completion", "answer": answer}})
            .to_string(),
        ),
        _ => Reply::text(answer),
    }
}

/// An observer that keeps every event.
pub fn keeper() -> (Observer, Arc<Mutex<Vec<RunEvent>>>) {
    let kept: Arc<Mutex<Vec<RunEvent>>> = Arc::default();
    let keeping = Arc::clone(&kept);
    (
        Arc::new(move |event| keeping.lock().unwrap().push(event.clone())),
        kept,
    )
}
