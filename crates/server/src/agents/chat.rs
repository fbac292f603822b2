//! Chats in the memory of the server: a conversation over one session.

use super::AgentSetup;
use super::approvals::PageApprover;
use super::given_files::GivenFiles;
use super::live_run::CurrentRun;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::sessions::NewSession;
use crate::state::AppState;
use crate::store::{ChatRow, RunRow};
use axum::http::StatusCode;
use cellblock_agent::{
    Agent, CodeEnvironment, Conversation, ConversationMemory, LocalExecutor, SessionRequest,
    WorkspaceChoice,
};
use cellblock_protocol::{Journaling, Seed, SessionOptions, UnlistedHosts};
use cellblock_tools::{Approval, Approver, SessionFuture, ToolError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The characters of earlier questions and answers that a conversation is told which begins after a restart.
const MAX_RECALLED_CHARS: usize = 8_000;
/// Chats that stay in memory. The oldest without a run are forgotten, and recalled when they are needed again.
const MAX_CHATS: usize = 500;

/// How long the end of a run may take to be written.
const MAX_END_OF_RUN: Duration = Duration::from_secs(10);

/// A chat whose conversation is in memory.
#[derive(Default)]
pub(crate) struct LiveChat {
    /// One question at a time.
    pub(crate) conversation: tokio::sync::Mutex<Option<Conversation>>,
    session: Arc<Mutex<Option<Arc<LiveSession>>>>,
    /// The run that answers a question now. Approval and tools are asked for by its events.
    pub(super) current: CurrentRun,
    /// What its conversation begins with, where that is not in memory yet.
    beginning: Mutex<Beginning>,
}

/// What a conversation is told when it begins.
#[derive(Clone, Default)]
struct Beginning {
    /// The messages of the chat that this one is a fork of.
    memory: Option<ConversationMemory>,
    /// How many cells were taken back since, each time.
    undone: Vec<usize>,
}

impl LiveChat {
    /// A chat whose conversation begins with what this one remembers. Without messages while a question is being answered: then it is told
    /// the questions and answers so far.
    pub(crate) async fn fork(&self) -> LiveChat {
        let beginning = match self.idle_conversation().await.as_deref() {
            None => Beginning::default(),
            Some(Some(conversation)) => Beginning {
                memory: Some(conversation.memory()),
                undone: Vec::new(),
            },
            Some(None) => lock(&self.beginning).clone(),
        };
        LiveChat {
            beginning: Mutex::new(beginning),
            ..LiveChat::default()
        }
    }

    /// The model is told with the next question that the last cells were taken back. For a chat whose conversation is not in memory.
    pub(crate) fn note_undo(&self, cells: usize) {
        lock(&self.beginning).undone.push(cells);
    }

    /// A new conversation of this agent, which knows what was said before.
    pub(super) fn converse(&self, agent: &Agent, earlier: &[RunRow]) -> Conversation {
        let Beginning { memory, undone } = std::mem::take(&mut *lock(&self.beginning));
        let mut conversation = agent.conversation();
        match (memory, recalled(earlier)) {
            (Some(memory), _) => conversation.remember(memory),
            (None, Some(text)) => conversation.note(&text),
            (None, None) => {}
        }
        for cells in undone {
            conversation.note_undo(cells);
        }
        conversation
    }

    /// The session of the chat, if code ran.
    pub(crate) fn session(&self) -> Option<Arc<LiveSession>> {
        lock(&self.session).clone()
    }

    /// The conversation, if no question is being answered. A run that is over may still be writing its end.
    pub(crate) async fn idle_conversation(
        &self,
    ) -> Option<tokio::sync::MutexGuard<'_, Option<Conversation>>> {
        if self.is_answering() {
            return None;
        }
        let waiting = tokio::time::timeout(MAX_END_OF_RUN, self.conversation.lock());
        waiting.await.ok()
    }

    /// Whether a question is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        self.current.get().is_some()
    }

    /// Where the session of the chat stands, once code ran.
    pub(super) fn session_slot(&self) -> Arc<Mutex<Option<Arc<LiveSession>>>> {
        Arc::clone(&self.session)
    }
}

/// The chats in memory, by id.
#[derive(Default)]
pub(crate) struct Chats(Mutex<HashMap<String, Arc<LiveChat>>>);

impl Chats {
    /// The chat with this id.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveChat>> {
        lock(&self.0).get(id).cloned()
    }

    /// Adds a chat.
    pub(crate) fn insert(&self, id: &str, chat: &Arc<LiveChat>) {
        let mut chats = lock(&self.0);
        if chats.len() >= MAX_CHATS {
            // Only those that no request holds.
            let idle = chats.iter().find(|(_, chat)| Arc::strong_count(chat) == 1);
            if let Some(id) = idle.map(|(id, _)| id.clone()) {
                chats.remove(&id);
            }
        }
        chats.insert(id.to_owned(), Arc::clone(chat));
    }

    /// Forgets all chats.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Forgets a chat.
    pub(crate) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }
}

impl AppState {
    /// The chat in memory. After a restart its conversation begins anew, over the session as it was, and is told what was said before.
    pub(crate) fn live_chat(&self, row: &ChatRow) -> Arc<LiveChat> {
        if let Some(chat) = self.chats().get(&row.id) {
            return chat;
        }
        let chat = Arc::new(LiveChat::default());
        self.chats().insert(&row.id, &chat);
        chat
    }

    /// The session of a chat: the one it had, rebuilt if need be, else a new one with this seed.
    pub(crate) async fn chat_session(
        &self,
        caller: &Caller,
        row: &ChatRow,
        seed: Seed,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let chat = self.live_chat(row);
        let known = chat.session().map(|live| live.id.clone());
        if let Some(id) = known.or_else(|| row.session.clone()) {
            match self.session(caller, &id).await {
                Ok(live) => {
                    *lock(&chat.session) = Some(Arc::clone(&live));
                    return Ok(live);
                }
                // Its user closed it: the chat goes on in a new one.
                Err(error) if error.status() == StatusCode::GONE => {}
                Err(error) => return Err(error),
            }
        }
        let new = NewSession {
            title: Some(row.title.clone()),
            options: SessionOptions {
                seed,
                unlisted_hosts: self.unlisted_hosts(caller),
                ..SessionOptions::default()
            },
            chat: Some(row.id.clone()),
        };
        let live = self.open_session(caller, new).await?;
        *lock(&chat.session) = Some(Arc::clone(&live));
        let row = ChatRow {
            session: Some(live.id.clone()),
            ..row.clone()
        };
        self.store().update_chat(&row).await?;
        Ok(live)
    }

    /// Whether code in the chats of this caller may ask for hosts that no rule names. The network of the machine is opened by administrators
    /// alone, and so their chats alone ask.
    fn unlisted_hosts(&self, caller: &Caller) -> UnlistedHosts {
        let asks = |setup: &AgentSetup| {
            let approver: Arc<dyn Approver> = Arc::new(PageApprover::default());
            Approval::new(setup.policy.clone(), Some(approver)).asks_about_hosts()
        };
        match caller.is_admin() && self.agent_setup().is_ok_and(asks) {
            true => UnlistedHosts::Ask,
            false => UnlistedHosts::Refuse,
        }
    }

    /// The executor of a chat: it opens the session of the chat when code first runs, and puts these files into it before.
    pub(super) fn chat_executor(
        &self,
        caller: &Caller,
        row: &ChatRow,
        files: GivenFiles,
    ) -> LocalExecutor {
        let packages = self.host().environment().packages.iter();
        let packages: Vec<String> = packages.map(|package| package.name.clone()).collect();
        let surroundings = CodeEnvironment {
            unlisted_hosts: self.unlisted_hosts(caller),
            files: files.paths(),
            ..CodeEnvironment::default()
        };
        let files = Arc::new(files);
        let (state, caller, row) = (self.clone(), caller.clone(), row.clone());
        let open = move |request: SessionRequest| -> SessionFuture {
            let (state, caller, row) = (state.clone(), caller.clone(), row.clone());
            let files = Arc::clone(&files);
            Box::pin(async move {
                if request.workspace == WorkspaceChoice::Fresh {
                    let options = SessionOptions {
                        seed: request.seed,
                        journal: Journaling::Off,
                        ..SessionOptions::default()
                    };
                    let place = state.take_place(&caller.user, options.limits.memory);
                    let place = place.map_err(|error| ToolError::new(error.message))?;
                    let session = state.open_on_host(&caller.user, options).await?;
                    place.hold_until_end(&session);
                    files.put_into(&session).await?;
                    return Ok::<_, ToolError>(session);
                }
                let opened = state.chat_session(&caller, &row, request.seed).await;
                let live = opened.map_err(|error| ToolError::new(error.message))?;
                // A node may be lost between two files: the next one puts all of them again. What cells made of them is left alone.
                if live.last_cell() == 0 {
                    files.put_into(&live.session).await?;
                }
                Ok(live.session.clone())
            })
        };
        LocalExecutor::new(open)
            .dependencies(packages)
            .surroundings(surroundings)
    }
}

/// What was said before, for a conversation that does not remember it.
fn recalled(earlier: &[RunRow]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut chars = 0;
    for run in earlier.iter().rev() {
        let answer = run.answer.as_deref().unwrap_or("(no answer)");
        let part = format!("Question: {}\nAnswer: {answer}", run.question);
        chars += part.chars().count();
        if chars > MAX_RECALLED_CHARS {
            break;
        }
        parts.push(part);
    }
    parts.reverse();
    (!parts.is_empty()).then(|| format!("Earlier in this conversation:\n\n{}", parts.join("\n\n")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
