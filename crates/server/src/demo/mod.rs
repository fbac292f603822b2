//! The demonstration: a recorded model and a prepared conversation, for visitors without a key.
//!
//! Only the words of the model are recorded. The code runs in real sessions when the demonstration is prepared, so everything in it
//! can be gone back to, branched and asked again.

mod model;
mod script;

use crate::agents::{AgentSetup, Question, QuestionTask};
use crate::auth::{Caller, Secret, random_id};
use crate::error::{ApiError, ServerError};
use crate::routes::new_chat;
use crate::server::Server;
use crate::state::AppState;
use crate::store::{ChatRow, Role, User};
use cellblock_agent::{Agent, Format, Prompt};
use cellblock_tools::{Context, Effects, Tool, ToolError};
use model::RecordedModel;
use schemars::JsonSchema;
use script::Script;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// The pause between two pieces of a reply for visitors: about as fast as a hosted model.
const PAUSE_MS: u64 = 25;
/// How long one prepared question may take. A slow machine is slow, and a hanging one must say so.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(120);
/// The name of the user of the demonstration.
const USER_NAME: &str = "demo";

/// The demonstration of a server: its agent, to be given to [`ServerOptions`](crate::ServerOptions), and its conversation, which
/// [`prepare`](Demo::prepare) makes.
#[derive(Debug, Default)]
pub struct Demo {
    pause_ms: Arc<AtomicU64>,
}

/// Where a visitor enters the demonstration.
#[derive(Clone, Debug)]
pub(crate) struct DemoLink {
    secret: [u8; 32],
    pub(crate) user: User,
    pub(crate) page: String,
}

impl DemoLink {
    /// Whether this is the secret of the link.
    pub(crate) fn opens_with(&self, secret: &str) -> bool {
        crate::auth::hash_of(secret).ct_eq(&self.secret).into()
    }
}

impl Demo {
    /// The agent with the recorded model and a tool that asks for approval.
    pub fn agent(&self) -> AgentSetup {
        let builder = Agent::builder()
            .format(Format::Markdown)
            .prompt(Prompt::DeepResearch)
            .tool(SendReportTool);
        AgentSetup::new(Arc::new(RecordedModel::new(Arc::clone(&self.pause_ms)))).builder(builder)
    }

    /// Makes the user and the conversation of the demonstration. Returns the path of the link for visitors, with its secret. The link
    /// can be used as long as the server runs.
    pub async fn prepare(&self, server: &Server) -> Result<String, ServerError> {
        let made = self.conversation(server.state()).await;
        let path = made.map_err(|error| {
            ServerError::Options(format!(
                "the demonstration cannot be prepared: {}",
                error.message
            ))
        })?;
        self.pause_ms.store(PAUSE_MS, Ordering::Relaxed);
        Ok(path)
    }

    async fn conversation(&self, state: &AppState) -> Result<String, ApiError> {
        let user = state.store().user_named(USER_NAME).await?;
        let user = match user {
            Some(user) => user,
            None => {
                let added = state
                    .store()
                    .add_user(&random_id("u")?, USER_NAME, Role::Admin, None)
                    .await?;
                added.ok_or_else(|| {
                    ApiError::internal("the user of the demonstration was not added")
                })?
            }
        };
        let caller = Caller {
            user: Arc::new(user.clone()),
            token: None,
        };
        let chat = new_chat(state, &caller, Some("The warmest month"), None).await?;
        answer(state, &caller, &chat.id, script::TABLE_AND_PLOT).await?;
        answer(state, &caller, &chat.id, script::CRASH).await?;
        let branch = crate::routes::fork_chat(state, &caller, &chat.id).await?;
        let branch = ChatRow {
            title: "Two degrees warmer".to_owned(),
            ..branch
        };
        state.store().update_chat(&branch).await?;
        answer(state, &caller, &branch.id, script::BRANCH).await?;
        // This one is left waiting for the visitor.
        ask(state, &caller, &chat.id, script::APPROVAL).await?;
        let secret = Secret::random()?;
        state.set_entrance(DemoLink {
            secret: secret.hash(),
            user,
            page: format!("/chats/{}", chat.id),
        });
        Ok(format!("/enter#{}", secret.0))
    }
}

async fn ask(
    state: &AppState,
    caller: &Caller,
    chat: &str,
    script: &'static str,
) -> Result<Arc<crate::agents::LiveRun>, ApiError> {
    let row = state.store().chat(caller.id(), chat).await?;
    let row = row.ok_or_else(|| ApiError::not_found("chat"))?;
    let question = Question {
        task: QuestionTask::Text(Script::parse(script).question.to_owned()),
        ..Question::default()
    };
    state.ask(caller, row, question).await
}

async fn answer(
    state: &AppState,
    caller: &Caller,
    chat: &str,
    script: &'static str,
) -> Result<(), ApiError> {
    let run = ask(state, caller, chat, script).await?;
    let ended = tokio::time::timeout(QUESTION_TIMEOUT, run.ended()).await;
    ended.map_err(|_| ApiError::internal("a prepared question was not answered in time"))?;
    let row = state.store().run(caller.id(), &run.id).await?;
    match row {
        Some(row) if row.status == "answered" => Ok(()),
        Some(row) => Err(ApiError::internal(format!(
            "the question {:?} ended as `{}`",
            row.question, row.status
        ))),
        None => Err(ApiError::not_found("run")),
    }
}

/// The tool of the demonstration that a person must approve.
#[derive(Clone)]
struct SendReportTool;

/// Sends a report by mail. In this demonstration nothing is sent.
#[derive(Debug, Deserialize, JsonSchema)]
struct SendReport {
    /// The address of the receiver.
    to: String,
    /// What the report is about.
    subject: String,
}

impl Tool for SendReportTool {
    type Parameters = SendReport;
    type Output = String;

    async fn call(&self, report: SendReport, _: &Context) -> Result<String, ToolError> {
        Ok(format!(
            "written down for {}: {}",
            report.to, report.subject
        ))
    }

    fn effects(&self) -> Effects {
        Effects::Outside
    }
}
