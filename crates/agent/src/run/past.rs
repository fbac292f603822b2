//! What is known of a run that was cut off, and how far that leads.

use super::course::{Course, Next};
use super::summary::Scene;
use super::{Done, RunEvent};
use crate::executor::Room;
use crate::format::Observation;
use cellblock_model::{Reply, Usage};
use cellblock_protocol::{Cell, StateOutcome};
use cellblock_tools::{Call, Caller, Earlier, RecordedCall, Recording};
use std::collections::{HashMap, VecDeque};

/// The tool whose memory is the plan.
const PLAN: &str = "recursive_plan_tree_todo";

/// A run that was cut off, made from its events.
///
/// Replies are not asked for again, and what was done is not done again.
#[derive(Clone, Debug, Default)]
pub struct Past {
    question: String,
    replies: VecDeque<(Reply, u64)>,
    before: Before,
    calls: Vec<(Place, RecordedCall)>,
    usage: Usage,
}

/// A cell that ran before a run was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct PastCell {
    /// Its number in the session.
    pub number: u64,
    /// What ran.
    pub cell: Cell,
    /// What its code called, with the answers.
    pub calls: Vec<RecordedCall>,
}

/// A step and an action of it.
type Place = (usize, usize);

/// What was done before, by step and action.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before(HashMap<Place, Done>);

impl Past {
    /// What the events of a run tell; none where it did not even begin.
    pub fn of(events: impl IntoIterator<Item = RunEvent>) -> Option<Past> {
        let mut past: Option<Past> = None;
        for event in events {
            if let (RunEvent::Begun { question, .. }, None) = (&event, &past) {
                past = Some(Past {
                    question: question.clone(),
                    ..Past::default()
                });
            }
            if let Some(past) = &mut past {
                past.take(event);
            }
        }
        past
    }

    /// What was asked.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// How many replies of the model are known.
    pub fn replies(&self) -> usize {
        self.replies.len()
    }

    /// The cells whose effects were kept, in order.
    pub fn cells(&self) -> Vec<PastCell> {
        let mut places: Vec<&Place> = self.before.0.keys().collect();
        places.sort_unstable();
        let cell = |place: &Place| {
            let done = self.before.0.get(place)?;
            let (code, result) = (done.code.as_ref()?, done.result.as_ref()?);
            let mut cell = Cell::new(code.as_str());
            cell.timeout = done.timeout;
            let calls = self.calls.iter().filter(|(of, _)| of == place);
            (result.state.outcome == StateOutcome::Kept).then(|| PastCell {
                number: result.cell,
                cell,
                calls: calls.map(|(_, call)| call.clone()).collect(),
            })
        };
        places.into_iter().filter_map(cell).collect()
    }

    fn take(&mut self, event: RunEvent) {
        match event {
            RunEvent::Replied { reply, ms } => self.replies.push_back((*reply, ms)),
            RunEvent::Done { step, action, done } => {
                self.before.0.insert((step, action), *done);
            }
            RunEvent::Recorded { step, action, call } => {
                self.calls.push(((step, action), *call));
            }
            RunEvent::Spent { usage } => self.usage = usage,
            _ => {}
        }
    }

    /// The calls that were answered, and those of them whose cell was not finished.
    pub(crate) fn earlier(&self) -> Earlier {
        let all = self.calls.iter();
        let unfinished = all
            .clone()
            .filter(|(place, _)| !self.before.0.contains_key(place));
        let recording = |calls: Vec<RecordedCall>| Recording { calls };
        Earlier {
            unfinished: recording(unfinished.map(|(_, call)| call.clone()).collect()),
            answered: recording(all.map(|(_, call)| call.clone()).collect()),
        }
    }

    /// Leads the course as far as is known. Nobody is told what happens: they were told then.
    pub(crate) async fn lead(mut self, course: &mut Course, room: &dyn Room) {
        course.before = std::mem::take(&mut self.before);
        loop {
            let next = course.next();
            match next {
                Next::Ask(_) => match self.replies.pop_front() {
                    Some((reply, ms)) => course.heard(&reply, ms),
                    None => break,
                },
                Next::Act(turn) => {
                    let step = course.steps.len();
                    let actions = 0..turn.actions.len();
                    let known: Option<Vec<_>> =
                        actions.map(|index| course.before.of(step, index)).collect();
                    let Some(known) = known else {
                        break;
                    };
                    let (done, observations): (Vec<Done>, Vec<Observation>) =
                        known.into_iter().unzip();
                    remember_plan(&done, room).await;
                    course.acted(done, observations);
                }
                Next::Survey => course.surveyed(Scene::of(room).await),
                Next::End(_) => break,
            }
        }
        course.take_events();
        // What replies in vain and runs inside of it have cost is in no reply.
        if self.usage.total() > course.usage.total() {
            course.usage = self.usage;
        }
    }
}

impl Before {
    /// What was done, and what the model read of it. Pictures are not kept.
    pub(crate) fn of(&self, step: usize, action: usize) -> Option<(Done, Observation)> {
        let done = self.0.get(&(step, action))?.clone();
        let text = done.text.clone();
        let images = Vec::new();
        Some((done, Observation { text, images }))
    }
}

/// The plan lives in the memory of its tool, which is told again.
async fn remember_plan(done: &[Done], room: &dyn Room) {
    for done in done.iter().filter(|done| done.name == PLAN && done.ok) {
        if let Some(arguments) = done.arguments.as_ref().and_then(|value| value.as_object()) {
            let call = Call {
                id: String::new(),
                name: PLAN.to_owned(),
                arguments: arguments.clone().into(),
                caller: Caller::User,
            };
            room.call(call, None).await;
        }
    }
}
