//! A run that was cut off: what its events say, and how it is resumed from them.

use super::state::{NextOperation, RunState};
use super::summary::SessionOverview;
use super::{ActionResult, RunEvent};
use crate::executor::OpenExecutor;
use crate::format::Observation;
use cellblock_model::{Reply, Usage};
use cellblock_protocol::{Cell, StateOutcome};
use cellblock_tools::names::RECURSIVE_PLAN_TREE_TODO;
use cellblock_tools::{Call, Caller, EarlierCalls, HappenedCell, RecordedCall, Recording};
use std::collections::{BTreeMap, VecDeque};

/// A run that was cut off, made from its events.
///
/// When it is resumed, the model is not asked again for replies that are known, and completed actions are not executed again.
#[derive(Clone, Debug, Default)]
pub struct UnfinishedRun {
    question: String,
    /// The replies with the milliseconds that each took.
    replies: VecDeque<(Reply, u64)>,
    completed: CompletedActions,
    calls: Vec<(ActionIndex, RecordedCall)>,
    usage: Usage,
    happened: Vec<HappenedCell>,
}

/// A cell that ran before the run was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedCell {
    /// The number of the cell in its session.
    pub number: u64,
    /// The cell.
    pub cell: Cell,
    /// The tool calls of its code, with their answers.
    pub calls: Vec<RecordedCall>,
}

/// The place of an action in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ActionIndex {
    step: usize,
    action: usize,
}

/// The results of actions that were completed before the run was cut off.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletedActions(BTreeMap<ActionIndex, ActionResult>);

impl UnfinishedRun {
    /// Reads the events of a run. `None` where they have no beginning.
    pub fn from_events(events: impl IntoIterator<Item = RunEvent>) -> Option<UnfinishedRun> {
        let mut run: Option<UnfinishedRun> = None;
        for event in events {
            if let (RunEvent::Begun { question, .. }, None) = (&event, &run) {
                run = Some(UnfinishedRun {
                    question: question.clone(),
                    ..UnfinishedRun::default()
                });
            }
            if let Some(run) = &mut run {
                run.add(event);
            }
        }
        run
    }

    /// Adds cells that are in the session although no event tells of their end: the run was cut off in between. They do not run again.
    #[must_use]
    pub fn with_happened(mut self, cells: Vec<HappenedCell>) -> UnfinishedRun {
        self.happened = cells;
        self
    }

    /// The number of the last cell whose end an event tells of. 0 if there is none.
    pub fn last_cell(&self) -> u64 {
        let results = self.completed.0.values();
        let numbers = results.filter_map(|done| done.result.as_ref().map(|result| result.cell));
        numbers.max().unwrap_or(0)
    }

    /// The question of the run.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The number of replies that are known.
    pub fn replies(&self) -> usize {
        self.replies.len()
    }

    /// The cells whose effects were kept, in order.
    pub fn cells(&self) -> Vec<CompletedCell> {
        let cell = |(index, result): (&ActionIndex, &ActionResult)| {
            let (code, cell_result) = (result.code.as_ref()?, result.result.as_ref()?);
            let mut cell = Cell::new(code.as_str());
            cell.timeout = result.timeout;
            let calls = self.calls.iter().filter(|(of, _)| of == index);
            (cell_result.state.outcome == StateOutcome::Kept).then(|| CompletedCell {
                number: cell_result.cell,
                cell,
                calls: calls.map(|(_, call)| call.clone()).collect(),
            })
        };
        self.completed.0.iter().filter_map(cell).collect()
    }

    fn add(&mut self, event: RunEvent) {
        match event {
            RunEvent::Replied { reply, ms } => self.replies.push_back((*reply, ms)),
            RunEvent::Done { step, action, done } => {
                let index = ActionIndex { step, action };
                self.completed.0.insert(index, *done);
            }
            RunEvent::Recorded { step, action, call } => {
                self.calls.push((ActionIndex { step, action }, *call));
            }
            RunEvent::Spent { usage } => self.usage = usage,
            _ => {}
        }
    }

    /// The tool calls that were answered, and those of them whose cell was not finished.
    pub(crate) fn earlier_calls(&self) -> EarlierCalls {
        let all = self.calls.iter();
        let is_unfinished =
            |(index, _): &&(ActionIndex, RecordedCall)| !self.completed.0.contains_key(index);
        let unfinished = all.clone().filter(is_unfinished);
        let recording = |calls: Vec<RecordedCall>| Recording { calls };
        EarlierCalls {
            unfinished: recording(unfinished.map(|(_, call)| call.clone()).collect()),
            answered: recording(all.map(|(_, call)| call.clone()).collect()),
            cells: self.happened.clone(),
        }
    }

    /// Brings a state machine to where the run was cut off. Its events are dropped: observers got them the first time.
    pub(crate) async fn replay(mut self, state: &mut RunState, executor: &dyn OpenExecutor) {
        state.completed = std::mem::take(&mut self.completed);
        loop {
            match state.next_operation() {
                NextOperation::AskModel(_) => match self.replies.pop_front() {
                    Some((reply, ms)) => state.model_replied(&reply, ms),
                    None => break,
                },
                NextOperation::Execute(turn) => {
                    let step = state.steps.len();
                    let actions = 0..turn.actions.len();
                    let known: Option<Vec<_>> = actions
                        .map(|action| state.completed.get(step, action))
                        .collect();
                    let Some(known) = known else {
                        break;
                    };
                    let (results, observations): (Vec<ActionResult>, Vec<Observation>) =
                        known.into_iter().unzip();
                    restore_plan(&results, executor).await;
                    state.actions_completed(results, observations);
                }
                NextOperation::ReadSession => {
                    state.session_read(SessionOverview::read(executor).await);
                }
                NextOperation::Finish(_) => break,
            }
        }
        state.take_events();
        // The tokens of failed requests and of nested runs are in no reply.
        if self.usage.total() > state.usage.total() {
            state.usage = self.usage;
        }
    }
}

impl CompletedActions {
    /// The result of a completed action, and what the model read of it. Pictures are not kept.
    pub(crate) fn get(&self, step: usize, action: usize) -> Option<(ActionResult, Observation)> {
        let result = self.0.get(&ActionIndex { step, action })?.clone();
        let text = result.text.clone();
        let images = Vec::new();
        Some((result, Observation { text, images }))
    }
}

/// Calls the plan tool again with the arguments of its calls, because the plan lives in the memory of the tool.
async fn restore_plan(results: &[ActionResult], executor: &dyn OpenExecutor) {
    let is_plan = |result: &&ActionResult| result.name == RECURSIVE_PLAN_TREE_TODO && result.ok;
    for result in results.iter().filter(is_plan) {
        let arguments = result.arguments.as_ref();
        if let Some(arguments) = arguments.and_then(|value| value.as_object()) {
            let call = Call {
                id: String::new(),
                name: RECURSIVE_PLAN_TREE_TODO.to_owned(),
                arguments: arguments.clone().into(),
                caller: Caller::User,
            };
            executor.call(call, None).await;
        }
    }
}
