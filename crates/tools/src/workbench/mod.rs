//! Where one run calls its tools.

mod approving;
mod checking;
mod code;
mod running;
mod seat;

use crate::context::ResultSlot;
use crate::recording::Replay;
use crate::{
    Answer, Approval, Call, CallLimits, Caller, Failure, Output, Registry, ToolError, Uses, Watcher,
};
use crate::{Earlier, Happening, Recording};
use cellblock_protocol::Locale;
use cellblock_session::Session;
use futures_util::future::join_all;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use code::CodeAnswer;
pub use seat::Opening;
use seat::Seat;

/// The tools of one run, with what they share: a session, the approval, what they remember. A handle: clones are the same.
#[derive(Clone)]
pub struct Workbench {
    inner: Arc<Inner>,
}

/// How a workbench is set up.
pub struct WorkbenchBuilder {
    registry: Registry,
    limits: CallLimits,
    locale: Locale,
    seat: Seat,
    watcher: Option<Watcher>,
    approval: Approval,
    recording: Option<Mutex<Recording>>,
    replay: Option<Mutex<Replay>>,
    given: Option<Mutex<Replay>>,
}

struct Inner {
    registry: Registry,
    limits: CallLimits,
    locale: Locale,
    seat: Seat,
    watcher: Option<Watcher>,
    approval: Approval,
    recording: Option<Mutex<Recording>>,
    replay: Option<Mutex<Replay>>,
    given: Option<Mutex<Replay>>,
    /// Calls into the interpreter run one after the other.
    interpreter: Arc<tokio::sync::Mutex<()>>,
    /// Shared with the workbenches of trials.
    states: Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl Workbench {
    /// A workbench without a session.
    pub fn new(registry: Registry) -> Workbench {
        Workbench::builder(registry).build()
    }

    /// A workbench to set up.
    pub fn builder(registry: Registry) -> WorkbenchBuilder {
        WorkbenchBuilder {
            registry,
            limits: CallLimits::default(),
            locale: Locale::default(),
            seat: Seat::default(),
            watcher: None,
            approval: Approval::default(),
            recording: None,
            replay: None,
            given: None,
        }
    }

    /// A workbench like this one for another session, such as a fork: the same tools, limits and approval; what tools remember is its own.
    pub fn for_session(&self, session: Session) -> Workbench {
        let inner = &self.inner;
        let mut builder = Workbench::builder(inner.registry.clone())
            .session(session)
            .limits(inner.limits)
            .locale(inner.locale)
            .approval(inner.approval.clone());
        builder.watcher = inner.watcher.clone();
        builder.build()
    }

    /// Calls a tool. Whatever goes wrong, there is an answer. Dropping the future stops the call.
    pub async fn call(&self, call: Call) -> Answer {
        self.call_watched(call, self.inner.watcher.clone()).await
    }

    /// The same, with someone of its own who watches.
    pub async fn call_watched(&self, call: Call, watcher: Option<Watcher>) -> Answer {
        let begun = Instant::now();
        let mut notes = Vec::new();
        let (id, name) = (call.id.clone(), call.name.clone());
        let outcome = self.outcome(call, watcher, None, &mut notes).await;
        Answer {
            id,
            name,
            outcome,
            notes,
            took: begun.elapsed(),
        }
    }

    /// Calls tools side by side, except that calls into the session run in order. All run, although one fails; the answers are
    /// in the order of the calls.
    pub async fn call_all(&self, calls: impl IntoIterator<Item = Call>) -> Vec<Answer> {
        join_all(calls.into_iter().map(|call| self.call(call))).await
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// What calls may use.
    pub fn limits(&self) -> &CallLimits {
        &self.inner.limits
    }

    /// The calls so far with what came of them, where they are recorded.
    pub fn recording(&self) -> Option<Recording> {
        let recording = self.inner.recording.as_ref()?;
        Some(
            recording
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }

    /// The language for the model.
    pub fn locale(&self) -> Locale {
        self.inner.locale
    }

    /// One value of each type that lives as long as the run.
    pub fn state<T: Default + Send + 'static>(&self) -> Arc<Mutex<T>> {
        let mut states = self
            .inner
            .states
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let entry = states
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(Mutex::new(T::default())));
        // The key says what it is.
        Arc::clone(entry).downcast().unwrap_or_default()
    }

    /// The same tools, and what they remember, over another session.
    pub fn over(&self, session: Session) -> Workbench {
        self.moved(session, self.inner.approval.clone())
    }

    /// The same for something that may turn out to be in vain: what changes something outside is refused.
    pub fn trial(&self, session: Session) -> Workbench {
        let approval = self.inner.approval.without_outside(&self.inner.registry);
        self.moved(session, approval)
    }

    fn moved(&self, session: Session, approval: Approval) -> Workbench {
        let inner = &self.inner;
        let mut seat = Seat::default();
        seat.open = Some(Arc::new(move || {
            let session = session.clone();
            Box::pin(async move { Ok::<_, ToolError>(session) })
        }));
        Workbench {
            inner: Arc::new(Inner {
                registry: inner.registry.clone(),
                limits: inner.limits,
                locale: inner.locale,
                seat,
                watcher: inner.watcher.clone(),
                approval,
                recording: self.recording().map(Mutex::new),
                replay: None,
                given: None,
                interpreter: Arc::default(),
                states: Arc::clone(&inner.states),
            }),
        }
    }

    async fn outcome(
        &self,
        call: Call,
        watcher: Option<Watcher>,
        results: Option<ResultSlot>,
        notes: &mut Vec<String>,
    ) -> Result<Output, Failure> {
        let entry = Arc::clone(self.inner.registry.entry(&call.name)?);
        if call.caller == Caller::Code && entry.definition.uses == Uses::Interpreter {
            // It would wait for the very cell that makes the call.
            return Err(Failure::Refused {
                tool: entry.definition.name.clone(),
                reason: "code in a session cannot call it".to_owned(),
            });
        }
        // Before anything that takes time, so that calls run in the order in which they came.
        let turn = match entry.definition.uses {
            Uses::Interpreter => Some(Arc::clone(&self.inner.interpreter).lock_owned().await),
            Uses::Nothing => None,
        };
        let checked = self.check(&entry, call)?;
        // Code is run again; what came from outside of the session is given again.
        let is_outside = entry.definition.uses == Uses::Nothing;
        if let Some(replay) = self.inner.replay.as_ref().filter(|_| is_outside) {
            let mut replay = replay.lock().unwrap_or_else(PoisonError::into_inner);
            return replay.take(&entry.definition.name, &checked.arguments);
        }
        if let Some(given) = self.inner.given.as_ref().filter(|_| is_outside) {
            let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outcome) = given.find(&entry.definition.name, &checked.arguments) {
                return outcome;
            }
        }
        let recording = self.inner.recording.as_ref().filter(|_| is_outside);
        let asked = recording.map(|_| checked.arguments.clone());
        let permitted = self.approve(&entry, checked, watcher.as_ref(), notes).await;
        let outcome = match permitted {
            Ok(checked) => {
                let context = self.context(&checked, watcher.clone(), results);
                self.run(&entry, checked, context, turn).await
            }
            Err(failure) => Err(failure),
        };
        if let (Some(recording), Some(asked)) = (recording, asked) {
            let mut recording = recording.lock().unwrap_or_else(PoisonError::into_inner);
            let call = recording.note(&entry.definition.name, asked, &outcome);
            if let Some(watcher) = &watcher {
                watcher(Happening::Recorded(Box::new(call)));
            }
        }
        outcome
    }
}

impl fmt::Debug for Workbench {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Workbench")
            .field("registry", &self.inner.registry)
            .finish_non_exhaustive()
    }
}

impl WorkbenchBuilder {
    /// What calls may use.
    pub fn limits(mut self, limits: CallLimits) -> WorkbenchBuilder {
        self.limits = limits;
        self
    }

    /// The language for the model.
    pub fn locale(mut self, locale: Locale) -> WorkbenchBuilder {
        self.locale = locale;
        self
    }

    /// How a session is made when one is first needed.
    pub fn sessions(
        mut self,
        open: impl Fn() -> Opening + Send + Sync + 'static,
    ) -> WorkbenchBuilder {
        self.seat.open = Some(Arc::new(open));
        self
    }

    /// The session that calls go to. When it ends there is no other.
    pub fn session(self, session: Session) -> WorkbenchBuilder {
        self.sessions(move || {
            let session = session.clone();
            Box::pin(async move { Ok::<_, ToolError>(session) })
        })
    }

    /// The session that is there already, with its tools. When it ends, another is made as [`WorkbenchBuilder::sessions`] says.
    pub fn seated(mut self, session: Session) -> WorkbenchBuilder {
        self.seat = self.seat.with(session);
        self
    }

    /// Who watches all calls.
    pub fn watcher(mut self, watcher: Watcher) -> WorkbenchBuilder {
        self.watcher = Some(watcher);
        self
    }

    /// When a person is asked, and who that is. Unless told, tools that change something outside are refused: there is nobody.
    pub fn approval(mut self, approval: Approval) -> WorkbenchBuilder {
        self.approval = approval;
        self
    }

    /// Records what comes of every call that does not run code: see [`Workbench::recording`].
    pub fn record(mut self) -> WorkbenchBuilder {
        self.recording = Some(Mutex::default());
        self
    }

    /// Goes on where another workbench ended with its program: its records are ours, and what is done again gets the answers that
    /// it got. Every other call is made as ever.
    pub fn take_up(mut self, earlier: Earlier) -> WorkbenchBuilder {
        self.recording = Some(Mutex::new(earlier.answered));
        self.given = Some(Mutex::new(Replay::new(earlier.unfinished)));
        self
    }

    /// Gives recorded results again instead of making calls. Code is run as ever.
    pub fn replay(mut self, recording: Recording) -> WorkbenchBuilder {
        self.replay = Some(Mutex::new(Replay::new(recording)));
        self
    }

    /// The workbench.
    pub fn build(self) -> Workbench {
        let mut limits = self.limits;
        limits.bytes = limits.bytes.min(CallLimits::MOST_BYTES);
        Workbench {
            inner: Arc::new(Inner {
                registry: self.registry,
                limits,
                locale: self.locale,
                seat: self.seat,
                watcher: self.watcher,
                approval: self.approval,
                recording: self.recording,
                replay: self.replay,
                given: self.given,
                interpreter: Arc::default(),
                states: Arc::default(),
            }),
        }
    }
}
