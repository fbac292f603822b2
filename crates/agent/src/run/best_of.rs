//! Several replies to the same request, each tried in a fork of the session.

use super::acting::{Stage, run_code};
use super::asking::ask;
use super::past::Before;
use super::{Done, Observer};
use crate::agent::Setup;
use crate::executor::{ForkKind, RUN_CODE, Room};
use crate::format::{Action, Facts, Turn};
use cellblock_model::{ModelError, Reply, Request, Usage};
use cellblock_tools::Arguments;
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;

/// Says how good a cell is that ran in a trial: more is better. It decides between those that succeeded.
pub type Scorer = Arc<dyn Fn(&Done) -> f64 + Send + Sync>;

/// The best of several replies, and the tokens of the others. The reply that is chosen is then carried out in the session itself,
/// so that its files and its tools' effects are where they belong.
pub(super) async fn best(
    setup: &Setup,
    room: &dyn Room,
    facts: &Facts,
    request: Request,
    observer: &Observer,
) -> Result<(Reply, Usage), ModelError> {
    let format = setup.format.implementation();
    let silent: Observer = Arc::new(|_| {});
    let asking = (0..setup.best_of).map(|index| {
        // One is shown while it comes; the others are not.
        let observer = if index == 0 { observer } else { &silent };
        ask(setup.model.as_ref(), request.clone(), format, observer)
    });
    let mut replies = Vec::new();
    let mut problem = None;
    for outcome in join_all(asking).await {
        match outcome {
            Ok(reply) => replies.push(reply),
            Err(error) => problem = Some(error),
        }
    }
    if replies.is_empty() {
        return Err(problem.unwrap_or(ModelError::Unfinished));
    }
    let turns: Vec<Option<Turn>> = replies
        .iter()
        .map(|reply| format.read(reply, facts).ok())
        .collect();
    let chosen = match most_common_answer(&turns) {
        Some(index) => index,
        None => best_trial(setup, room, facts, &turns).await,
    };
    let reply = replies.remove(chosen);
    let mut others = Usage::default();
    replies.iter().for_each(|reply| others += reply.usage);
    Ok((reply, others))
}

/// Where at least half of those that can be read answer, the answer that is given most often.
fn most_common_answer(turns: &[Option<Turn>]) -> Option<usize> {
    let answers: Vec<(usize, String)> = turns
        .iter()
        .enumerate()
        .filter_map(|(index, turn)| Some((index, turn.as_ref()?.answer()?.to_string())))
        .collect();
    let readable = turns.iter().flatten().count();
    if answers.is_empty() || answers.len() * 2 < readable {
        return None;
    }
    let count = |text: &str| answers.iter().filter(|(_, other)| other == text).count();
    let mut best: Option<(usize, usize)> = None;
    for (index, text) in &answers {
        let votes = count(text);
        if best.is_none_or(|(_, most)| votes > most) {
            best = Some((*index, votes));
        }
    }
    best.map(|(index, _)| index)
}

/// Runs the code of each in a fork. Better is: what succeeded, by score; then what failed; then what cannot be read.
async fn best_trial(
    setup: &Setup,
    room: &dyn Room,
    facts: &Facts,
    turns: &[Option<Turn>],
) -> usize {
    let mut best = (0, f64::NEG_INFINITY, -1i32);
    for (index, turn) in turns.iter().enumerate() {
        let Some(turn) = turn else {
            continue;
        };
        let (rank, score) = match trial(room, facts, turn).await {
            Some(done) if done.ok => (3, setup.scorer.as_ref().map_or(0.0, |scorer| scorer(&done))),
            Some(_) => (1, 0.0),
            // Nothing that could be tried: tools, or an answer.
            None => (2, 0.0),
        };
        if rank > best.2 || (rank == best.2 && score > best.1) {
            best = (index, score, rank);
        }
    }
    best.0
}

/// The last cell of a turn, run in a fork with those before it.
async fn trial(room: &dyn Room, facts: &Facts, turn: &Turn) -> Option<Done> {
    let cells: Vec<String> = turn.actions.iter().filter_map(code_of).collect();
    if cells.is_empty() {
        return None;
    }
    let fork = room.fork(ForkKind::Trial).await.ok()?;
    let silent: Observer = Arc::new(|_| {});
    let before = Before::default();
    let stage = Stage {
        room: fork.as_ref(),
        step: 0,
        facts,
        observer: &silent,
        before: &before,
    };
    let mut last = None;
    for code in cells {
        let (done, _) = run_code(&stage, 0, &code).await;
        let has_failed = !done.ok;
        last = Some(done);
        if has_failed {
            break;
        }
    }
    fork.close().await;
    last
}

fn code_of(action: &Action) -> Option<String> {
    const CODE: &str = "python_code_snippet";
    match action {
        Action::Code(code) => Some(code.clone()),
        Action::Call(call) if call.name == RUN_CODE => {
            let code = match &call.arguments {
                Arguments::Object(map) => map.get(CODE).cloned(),
                Arguments::Text(text) => {
                    serde_json::from_str::<Value>(text).ok()?.get(CODE).cloned()
                }
            };
            code?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}
