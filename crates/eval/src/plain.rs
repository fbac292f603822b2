//! The model alone: one question with everything in it, and no agent.

use crate::report::TaskReport;
use crate::suite::Task;
use crate::test_tools::TestTool;
use cellblock_agent::{CancellationToken, RunStatus};
use cellblock_model::{Message, Model, Request, complete};
use serde_json::Value;
use std::time::Duration;

/// How a model is asked without an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainAsking {
    /// The longest reply, in tokens.
    pub max_tokens: Option<u32>,
    /// How freely it chooses its words.
    pub temperature: Option<f64>,
    /// The time for one reply.
    pub time: Option<Duration>,
}

/// So far away that it never comes.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The question of a task with what its tools and files would have told.
pub fn plain_question(task: &Task) -> String {
    let mut text = task.question.trim().to_owned();
    if let Some(secret) = &task.secret {
        let name = TestTool::GetSecret.name();
        text.push_str(&format!(
            "\n\nThe tool {name} was called for you. It gave: {secret}"
        ));
    }
    for file in &task.files {
        let contents = String::from_utf8_lossy(&file.contents);
        text.push_str(&format!(
            "\n\nThe file {}:\n```\n{}\n```",
            file.path,
            contents.trim_end()
        ));
    }
    text.push_str("\n\nYou cannot run code or call tools now. Reply with the answer alone.");
    text
}

/// Asks, and looks at the reply.
pub(crate) async fn ask(
    task: &Task,
    model: &dyn Model,
    asking: &PlainAsking,
    cancel: &CancellationToken,
) -> TaskReport {
    let request = Request {
        max_tokens: asking.max_tokens,
        temperature: asking.temperature,
        ..Request::new(vec![Message::user(plain_question(task))])
    };
    let (status, message, reply) = tokio::select! {
        biased;
        () = cancel.cancelled() => (RunStatus::Cancelled, Some("it was cancelled".to_owned()), None),
        () = tokio::time::sleep(asking.time.unwrap_or(NEVER)) => {
            (RunStatus::MaxTime, Some("there was no reply in time".to_owned()), None)
        }
        reply = complete(model, request) => match reply {
            Ok(reply) => (RunStatus::Answered, None, Some(reply)),
            Err(error) => (RunStatus::ModelError, Some(error.to_string()), None),
        },
    };
    let mut report = TaskReport {
        name: task.name.clone(),
        status: Some(status),
        message,
        ..TaskReport::default()
    };
    match reply {
        Some(reply) => {
            let checks = task.checks.iter();
            report.problems = checks
                .filter_map(|check| check.of_plain_reply(&reply.text).err())
                .collect();
            report.usage = reply.usage;
            report.answer = Some(Value::String(reply.text));
        }
        None => report.problems.push("there is no answer".to_owned()),
    }
    report.passed = report.problems.is_empty();
    report
}
