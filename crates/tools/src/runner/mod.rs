//! The calls of one run: each is checked, approved, run and recorded.

mod code;
mod lazy_session;
mod steps;

use crate::call::{NOT_FROM_CODE, Replay, ResultSlot};
use crate::names::FINAL_ANSWER;
use crate::plan::PlanHistory;
use crate::{
    Answer, Approval, Call, CallLimits, Caller, EarlierCalls, Failure, HappenedCell, OnToolEvent,
    Output, Recording, Registry, ToolError, ToolEvent, Uses,
};
use cellblock_protocol::{CellResult, Locale};
use cellblock_session::Session;
use futures_util::future::join_all;
use std::any::{Any, TypeId};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use code::CallOutcome;
use lazy_session::LazySession;
pub use lazy_session::SessionFuture;

/// Runs the tool calls of one run, with what they share: a session, the approval, the limits, and values that
/// tools keep from call to call. Cheap to clone: clones are the same runner.
///
/// The session is opened when the first tool needs it. See [`Tool`](crate::Tool) for an example.
#[derive(Clone)]
pub struct ToolRunner {
    shared: Arc<Shared>,
}

/// Builds a [`ToolRunner`].
pub struct ToolRunnerBuilder {
    registry: Registry,
    limits: CallLimits,
    locale: Locale,
    session: LazySession,
    on_event: Option<OnToolEvent>,
    approval: Approval,
    recording: Option<Mutex<Recording>>,
    replay: Option<Mutex<Replay>>,
    /// Results for the calls of an action that is done again; every other call runs.
    resumed: Option<Mutex<Replay>>,
    happened: VecDeque<HappenedCell>,
}

struct Shared {
    registry: Registry,
    limits: CallLimits,
    locale: Locale,
    session: LazySession,
    on_event: Option<OnToolEvent>,
    approval: Approval,
    recording: Option<Mutex<Recording>>,
    replay: Option<Mutex<Replay>>,
    /// Results for the calls of an action that is done again; every other call runs.
    resumed: Option<Mutex<Replay>>,
    /// Cells that are in the session already: they do not run again.
    happened: Mutex<VecDeque<HappenedCell>>,
    /// Calls into the interpreter run one after the other.
    interpreter: Arc<tokio::sync::Mutex<()>>,
    /// Shared with the runners of [`ToolRunner::for_trial`].
    states: SharedStates,
}

/// The values that tools keep from call to call, by their types.
type SharedStates = Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>;

/// The tools of a fork that goes on by itself, and the approval of their calls.
#[derive(Clone, Debug)]
pub struct ForkTools {
    /// The tools. Code in the fork calls them by the names that it knows from before.
    pub registry: Registry,
    /// The approval of their calls.
    pub approval: Approval,
}

impl ToolRunner {
    /// A runner without a session.
    pub fn new(registry: Registry) -> ToolRunner {
        ToolRunner::builder(registry).build()
    }

    /// A builder for a runner of these tools.
    pub fn builder(registry: Registry) -> ToolRunnerBuilder {
        ToolRunnerBuilder {
            registry,
            limits: CallLimits::default(),
            locale: Locale::default(),
            session: LazySession::default(),
            on_event: None,
            approval: Approval::default(),
            recording: None,
            replay: None,
            resumed: None,
            happened: VecDeque::new(),
        }
    }

    /// A runner with the same tools, limits and approval for another session, such as a fork. Tools begin with
    /// new values of their own there; with [`ToolRunner::for_fork`] they know the plan.
    pub fn with_new_state(&self, session: Session) -> ToolRunner {
        let shared = &self.shared;
        let mut builder = ToolRunner::builder(shared.registry.clone())
            .session(session)
            .limits(shared.limits)
            .locale(shared.locale)
            .approval(shared.approval.clone());
        builder.on_event = shared.on_event.clone();
        builder.build()
    }

    /// Runs a call. Every failure becomes the answer. Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Answer {
        self.call_with_events(call, self.shared.on_event.clone())
            .await
    }

    /// Runs a call whose events go to `on_event` instead of the runner's own function.
    pub async fn call_with_events(&self, call: Call, on_event: Option<OnToolEvent>) -> Answer {
        let begun = Instant::now();
        let mut notes = Vec::new();
        let (id, name) = (call.id.clone(), call.name.clone());
        let outcome = self.outcome(call, on_event, None, &mut notes).await;
        Answer {
            id,
            name,
            outcome,
            notes,
            took: begun.elapsed(),
        }
    }

    /// Runs calls concurrently, except that calls which use the interpreter run in order. All calls run,
    /// although one fails. The answers are in the order of the calls.
    pub async fn call_all(&self, calls: impl IntoIterator<Item = Call>) -> Vec<Answer> {
        join_all(calls.into_iter().map(|call| self.call(call))).await
    }

    /// The tools of the runner.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The limits of calls.
    pub fn limits(&self) -> &CallLimits {
        &self.shared.limits
    }

    /// The calls so far with their results; `None` where calls are not recorded.
    pub fn recording(&self) -> Option<Recording> {
        let recording = self.shared.recording.as_ref()?;
        Some(locked(recording).clone())
    }

    /// The language of texts for the model.
    pub fn locale(&self) -> Locale {
        self.shared.locale
    }

    /// A value that lives as long as the run: one value of each type, shared by all tools.
    pub fn state<T: Default + Send + 'static>(&self) -> Arc<Mutex<T>> {
        let mut states = locked(&self.shared.states);
        let value = states
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(Mutex::new(T::default())));
        // The value has the type of its key.
        Arc::clone(value).downcast().unwrap_or_default()
    }

    /// A runner for a fork of the session that goes on by itself: it has a copy of the plan and of the results that code has handles of.
    /// Other values of tools begin anew. With `None` for `tools`, the tools and the approval are those of this runner.
    pub fn for_fork(&self, session: Option<Session>, tools: Option<ForkTools>) -> ToolRunner {
        let tools = tools.unwrap_or_else(|| ForkTools {
            registry: self.shared.registry.clone(),
            approval: self.shared.approval.clone(),
        });
        let lazy = match session {
            Some(session) => LazySession::opened_by(always(session)),
            None => LazySession::default(),
        };
        lazy.set_responses(self.responses().clone());
        let fork = self.moved_to(lazy, tools, Arc::default());
        let plan = locked(&self.state::<PlanHistory>()).clone();
        *locked(&fork.state::<PlanHistory>()) = plan;
        fork
    }

    /// A runner for an attempt that may be thrown away: it shares the tools and their values with this one, but tools that change something
    /// outside of the session, or state of their own, are refused.
    pub fn for_trial(&self, session: Session) -> ToolRunner {
        let approval = &self.shared.approval;
        let tools = ForkTools {
            registry: self.shared.registry.clone(),
            approval: approval.without_lasting_effects(&self.shared.registry),
        };
        let lazy = LazySession::opened_by(always(session));
        self.moved_to(lazy, tools, Arc::clone(&self.shared.states))
    }

    fn moved_to(&self, session: LazySession, tools: ForkTools, states: SharedStates) -> ToolRunner {
        let shared = &self.shared;
        ToolRunner {
            shared: Arc::new(Shared {
                registry: tools.registry,
                limits: shared.limits,
                locale: shared.locale,
                session,
                on_event: shared.on_event.clone(),
                approval: tools.approval,
                recording: self.recording().map(Mutex::new),
                replay: None,
                resumed: None,
                happened: Mutex::default(),
                interpreter: Arc::default(),
                states,
            }),
        }
    }

    /// The result of a cell that happened before the run was cut off, if this is the next of them. Another cell ends the search: the run
    /// took another way.
    pub(crate) fn take_happened(&self, code: &str) -> Option<CellResult> {
        let mut happened = locked(&self.shared.happened);
        match happened.pop_front() {
            Some(cell) if cell.code == code => Some(cell.result),
            _ => {
                happened.clear();
                None
            }
        }
    }

    async fn outcome(
        &self,
        call: Call,
        on_event: Option<OnToolEvent>,
        result_slot: Option<ResultSlot>,
        notes: &mut Vec<String>,
    ) -> Result<Output, Failure> {
        let tool = Arc::clone(self.shared.registry.find(&call.name)?);
        let name = &tool.definition.name;
        if call.caller == Caller::Code && tool.definition.uses == Uses::Interpreter {
            // The call would wait for the very cell that makes it.
            return Err(Failure::Refused {
                tool: name.clone(),
                reason: NOT_FROM_CODE.to_owned(),
            });
        }
        // Before anything that takes time, so that calls run in the order in which they came.
        let turn = match tool.definition.uses {
            Uses::Interpreter => Some(Arc::clone(&self.shared.interpreter).lock_owned().await),
            Uses::Nothing | Uses::State => None,
        };
        let checked = self.check(&tool, call)?;
        // Code is run again; a result from outside of the session is replayed. An answer is what the code computes this time.
        let is_outside = tool.definition.uses != Uses::Interpreter && name != FINAL_ANSWER;
        if let Some(replay) = self.shared.replay.as_ref().filter(|_| is_outside) {
            return locked(replay).take(name, &checked.arguments);
        }
        if let Some(resumed) = self.shared.resumed.as_ref().filter(|_| is_outside)
            && let Some(outcome) = locked(resumed).find(name, &checked.arguments)
        {
            return outcome;
        }
        let recording = self.shared.recording.as_ref().filter(|_| is_outside);
        let arguments = recording.map(|_| checked.arguments.clone());
        let permitted = self.approve(&tool, checked, on_event.as_ref(), notes).await;
        let outcome = match permitted {
            Ok(checked) => {
                let context = self.context(&checked, on_event.clone(), result_slot);
                self.run(&tool, checked, context, turn).await
            }
            Err(failure) => Err(failure),
        };
        if let (Some(recording), Some(arguments)) = (recording, arguments) {
            let call = locked(recording).record(name, arguments, &outcome);
            if let Some(on_event) = &on_event {
                on_event(ToolEvent::Recorded(Box::new(call)));
            }
        }
        outcome
    }
}

/// Locks a mutex whose value is valid at every moment, also after a panic of its holder.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function that always returns the same session.
fn always(session: Session) -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    move || {
        let session = session.clone();
        Box::pin(async move { Ok::<_, ToolError>(session) })
    }
}

impl fmt::Debug for ToolRunner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ToolRunner")
            .field("registry", &self.shared.registry)
            .finish_non_exhaustive()
    }
}

impl ToolRunnerBuilder {
    /// The limits of calls.
    pub fn limits(mut self, limits: CallLimits) -> ToolRunnerBuilder {
        self.limits = limits;
        self
    }

    /// The language of texts for the model.
    pub fn locale(mut self, locale: Locale) -> ToolRunnerBuilder {
        self.locale = locale;
        self
    }

    /// The function that opens a session when a tool first needs one, and again after a session has ended.
    pub fn open_sessions(
        mut self,
        open: impl Fn() -> SessionFuture + Send + Sync + 'static,
    ) -> ToolRunnerBuilder {
        self.session.set_open(open);
        self
    }

    /// The one session of the runner. When it ends, there is no other.
    pub fn session(self, session: Session) -> ToolRunnerBuilder {
        self.open_sessions(always(session))
    }

    /// A session that is open already and knows the tools. When it ends, [`ToolRunnerBuilder::open_sessions`]
    /// opens another.
    pub fn first_session(mut self, session: Session) -> ToolRunnerBuilder {
        self.session.set_current(session);
        self
    }

    /// The function that gets the events of all calls.
    pub fn on_event(mut self, on_event: OnToolEvent) -> ToolRunnerBuilder {
        self.on_event = Some(on_event);
        self
    }

    /// The approval of calls. By default tools that change something outside of the session are refused: there
    /// is no person to ask.
    pub fn approval(mut self, approval: Approval) -> ToolRunnerBuilder {
        self.approval = approval;
        self
    }

    /// Records the result of every call that does not use the interpreter: see [`ToolRunner::recording`].
    pub fn record(mut self) -> ToolRunnerBuilder {
        self.recording = Some(Mutex::default());
        self
    }

    /// Continues the record of a runner whose program ended. The calls of an action that is done again get their
    /// recorded results; every other call runs.
    pub fn resume(mut self, earlier: EarlierCalls) -> ToolRunnerBuilder {
        self.recording = Some(Mutex::new(earlier.answered));
        self.resumed = Some(Mutex::new(Replay::new(earlier.unfinished)));
        self.happened = earlier.cells.into();
        self
    }

    /// Returns recorded results instead of running tools. Code is really run.
    pub fn replay(mut self, recording: Recording) -> ToolRunnerBuilder {
        self.replay = Some(Mutex::new(Replay::new(recording)));
        self
    }

    /// Makes the runner.
    pub fn build(self) -> ToolRunner {
        let mut limits = self.limits;
        limits.max_bytes = limits.max_bytes.min(CallLimits::LARGEST_MAX_BYTES);
        ToolRunner {
            shared: Arc::new(Shared {
                registry: self.registry,
                limits,
                locale: self.locale,
                session: self.session,
                on_event: self.on_event,
                approval: self.approval,
                recording: self.recording,
                replay: self.replay,
                resumed: self.resumed,
                happened: Mutex::new(self.happened),
                interpreter: Arc::default(),
                states: Arc::default(),
            }),
        }
    }
}
