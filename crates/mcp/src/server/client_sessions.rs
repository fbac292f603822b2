//! The sessions of one client: the main session, and the forks that the client made.

use super::quota::{ClientQuota, ClientUser, SessionPlace};
use cellblock_tools::{ToolRunner, Uses, names};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the session that a client has from the beginning.
pub(super) const MAIN: &str = "main";
/// The argument that names a session.
pub(super) const SESSION: &str = "session";
/// The most forks of one client.
const MAX_FORKS: usize = 8;
/// Tools that read from a session without its interpreter.
const READ_ONLY_TOOLS: [&str; 2] = [names::FILE_READER, names::LIST_FILES];

/// The tool runners of one client, by the name of their session. Clones are the same sessions.
#[derive(Clone)]
pub(super) struct ClientSessions {
    main: ToolRunner,
    /// The user that the client belongs to, with the place of the main session.
    user: Option<ClientUser>,
    forks: Arc<Mutex<Forks>>,
}

/// The tool runners of forks, by name. It is a state of the main tool runner, where the tool `fork` finds it.
#[derive(Default)]
pub(super) struct Forks {
    runners: BTreeMap<String, ForkRunner>,
    made: usize,
    quota: Option<Arc<dyn ClientQuota>>,
}

/// A fork, and its place among the sessions of the user.
pub(super) struct ForkRunner {
    pub(super) runner: ToolRunner,
    pub(super) place: Option<SessionPlace>,
}

/// Whether calls of a tool may name a session.
pub(super) fn takes_session(name: &str, uses: Uses) -> bool {
    name != names::FORK && (uses == Uses::Interpreter || READ_ONLY_TOOLS.contains(&name))
}

impl ClientSessions {
    pub(super) fn new(main: ToolRunner) -> ClientSessions {
        let forks = main.state::<Forks>();
        ClientSessions {
            main,
            user: None,
            forks,
        }
    }

    /// Counts the sessions against the limits of a user.
    pub(super) fn set_user(&mut self, user: ClientUser) {
        lock(&self.forks).quota = Some(Arc::clone(user.quota()));
        self.user = Some(user);
    }

    /// The user that the client belongs to, where the server knows its users.
    pub(super) fn user(&self) -> Option<&ClientUser> {
        self.user.as_ref()
    }

    pub(super) fn main(&self) -> &ToolRunner {
        &self.main
    }

    /// The session that a call is for. Removes the name of the session from the arguments.
    pub(super) fn for_call(
        &self,
        tool: &str,
        arguments: &mut Map<String, Value>,
    ) -> Result<(String, ToolRunner), String> {
        let takes = self
            .main
            .registry()
            .get(tool)
            .is_some_and(|tool| takes_session(&tool.name, tool.uses));
        let named = match takes {
            true => arguments.shift_remove(SESSION),
            false => None,
        };
        match named {
            None | Some(Value::Null) => Ok((MAIN.to_owned(), self.main.clone())),
            Some(Value::String(name)) => {
                let runner = self.get(&name)?;
                Ok((name, runner))
            }
            Some(other) => Err(format!(
                "the arguments of `{tool}` do not fit: field `{SESSION}`: expected a text, got {other}"
            )),
        }
    }

    /// The tool runner of a session, by its name.
    pub(super) fn get(&self, name: &str) -> Result<ToolRunner, String> {
        find(&self.main, &lock(&self.forks), name)
    }

    /// All sessions, the main session first.
    pub(super) fn all(&self) -> Vec<(String, ToolRunner)> {
        let forks = lock(&self.forks);
        let forks = forks.runners.iter();
        std::iter::once((MAIN.to_owned(), self.main.clone()))
            .chain(forks.map(|(name, fork)| (name.clone(), fork.runner.clone())))
            .collect()
    }

    /// Ends every session.
    pub(super) async fn close(&self) {
        for (_, runner) in self.all() {
            runner.close().await;
        }
        lock(&self.forks).runners.clear();
    }
}

impl Forks {
    /// The name for a new fork. Refused when the client has too many.
    pub(super) fn name(&mut self, wanted: Option<String>) -> Result<String, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name = match wanted {
            Some(name) if name == MAIN => {
                return Err(format!("a fork cannot be called `{MAIN}`"));
            }
            Some(name) if (1..=32).contains(&name.len()) && name.chars().all(good) => name,
            Some(_) => {
                return Err("the name of a fork has 1 to 32 letters, digits, `_` or `-`".to_owned());
            }
            None => {
                self.made += 1;
                format!("fork-{}", self.made)
            }
        };
        if self.runners.len() >= MAX_FORKS && !self.runners.contains_key(&name) {
            let names: Vec<&str> = self.runners.keys().map(String::as_str).collect();
            return Err(format!(
                "there are {MAX_FORKS} forks, and no more are possible; give the name of one that is no longer needed, and it is replaced: {}",
                names.join(", ")
            ));
        }
        Ok(name)
    }

    /// Takes the place for a new fork. Refused when the user has too many sessions.
    pub(super) fn place(&self) -> Result<Option<SessionPlace>, String> {
        self.quota
            .as_ref()
            .map(|quota| quota.take_session())
            .transpose()
    }

    /// Adds a fork. Returns the fork that had the name before.
    pub(super) fn keep(&mut self, name: String, fork: ForkRunner) -> Option<ForkRunner> {
        self.runners.insert(name, fork)
    }
}

/// The tool runner of the session with this name.
pub(super) fn find(main: &ToolRunner, forks: &Forks, name: &str) -> Result<ToolRunner, String> {
    if name == MAIN {
        return Ok(main.clone());
    }
    let fork = forks.runners.get(name);
    fork.map(|fork| fork.runner.clone()).ok_or_else(|| {
        let mut known = vec![MAIN];
        known.extend(forks.runners.keys().map(String::as_str));
        let name: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
        format!(
            "there is no session `{name}`; the sessions are {}",
            known.join(", ")
        )
    })
}

pub(super) fn lock(forks: &Mutex<Forks>) -> std::sync::MutexGuard<'_, Forks> {
    forks.lock().unwrap_or_else(PoisonError::into_inner)
}
