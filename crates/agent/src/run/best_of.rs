//! The best of several replies to the same request, each tried in a fork of the session.

use super::actions::{ActionContext, code_of_call, run_code};
use super::model_call::ask_model;
use super::unfinished::CompletedActions;
use super::{ActionResult, Observer, RunEvent};
use crate::agent::AgentConfig;
use crate::executor::{ForkKind, OpenExecutor};
use crate::format::{Action, FormatContext, Turn};
use cellblock_model::{ModelError, Reply, Request, Usage};
use cellblock_tools::{Registry, ToolDefinition};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Scores the last cell of a reply that was tried in a fork: more is better. It decides between replies whose code succeeded.
pub type Scorer = Arc<dyn Fn(&ActionResult) -> f64 + Send + Sync>;

/// The reply that was chosen, and the tokens of the others.
pub(super) struct BestReply {
    pub(super) reply: Reply,
    pub(super) other_usage: Usage,
}

/// How good a trial was. A later variant is better; successes are compared by their score.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum TrialRank {
    /// The reply cannot be read.
    Unreadable,
    /// The code failed.
    Failed,
    /// The reply has no code: tool calls, or an answer. Or its code called a tool that a trial must not call, so that its failure says
    /// nothing.
    NotTried,
    /// The code succeeded, with this score.
    Succeeded(f64),
}

/// Asks for several replies and chooses the best. The actions of the chosen reply then run in the session itself, so that its files and
/// the effects of its tools are where they belong.
pub(super) async fn best_reply(
    config: &AgentConfig,
    executor: &dyn OpenExecutor,
    context: &FormatContext,
    request: Request,
    observer: &Observer,
) -> Result<BestReply, ModelError> {
    let format = config.format.implementation();
    let silent: Observer = Arc::new(|_| {});
    let asking = (0..config.best_of).map(|index| {
        // One reply is shown while it is streamed; the others are not.
        let observer = if index == 0 { observer } else { &silent };
        ask_model(config.model.as_ref(), request.clone(), format, observer)
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
        .map(|reply| format.parse(reply, context).ok())
        .collect();
    let chosen = match most_common_answer(&turns) {
        Some(index) => index,
        None => best_trial(config, executor, context, &turns).await,
    };
    let reply = replies.remove(chosen);
    let mut other_usage = Usage::default();
    for other in &replies {
        other_usage += other.usage;
    }
    Ok(BestReply { reply, other_usage })
}

/// The index of the answer that is given most often, if at least half of the readable replies answer.
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

/// Tries the code of each reply in a fork, and returns the index of the best. Of equal ones, the first.
async fn best_trial(
    config: &AgentConfig,
    executor: &dyn OpenExecutor,
    context: &FormatContext,
    turns: &[Option<Turn>],
) -> usize {
    // The forks are made one after the other, because each is a command of the same session. Their cells run side by side.
    let mut forks = Vec::new();
    for turn in turns.iter().map(Option::as_ref) {
        let has_code = turn.is_some_and(|turn| turn.actions.iter().any(has_code));
        forks.push(match has_code {
            true => executor.fork(ForkKind::Trial).await.ok(),
            false => None,
        });
    }
    let trials = turns.iter().zip(forks).map(async |(turn, fork)| {
        let result = match (turn, fork) {
            (None, _) => return TrialRank::Unreadable,
            (Some(turn), Some(fork)) => try_in_fork(fork.as_ref(), context, turn).await,
            (Some(_), None) => None,
        };
        match result {
            Some(result) if result.ok => {
                let scorer = config.scorer.as_ref();
                TrialRank::Succeeded(scorer.map_or(0.0, |scorer| scorer(&result)))
            }
            Some(_) => TrialRank::Failed,
            None => TrialRank::NotTried,
        }
    });
    let mut best = (0, TrialRank::Unreadable);
    for (index, rank) in join_all(trials).await.into_iter().enumerate() {
        if rank > best.1 {
            best = (index, rank);
        }
    }
    best.0
}

fn has_code(action: &Action) -> bool {
    code_of(action).is_some()
}

/// Runs the cells of a turn in a fork, up to the first that fails, closes the fork, and returns the result of the last one.
async fn try_in_fork(
    fork: &dyn OpenExecutor,
    context: &FormatContext,
    turn: &Turn,
) -> Option<ActionResult> {
    let cells: Vec<String> = turn.actions.iter().filter_map(code_of).collect();
    let was_refused = Arc::new(AtomicBool::new(false));
    let observer = note_refused(Arc::clone(&was_refused), context.registry.clone());
    let completed = CompletedActions::default();
    let context = ActionContext {
        executor: fork,
        step: 0,
        format_context: context,
        observer: &observer,
        completed: &completed,
    };
    let mut last = None;
    for code in cells {
        let (result, _) = run_code(&context, 0, &code).await;
        let has_failed = !result.ok;
        last = Some(result);
        if has_failed {
            break;
        }
    }
    fork.close().await;
    last.filter(|result| result.ok || !was_refused.load(Ordering::Relaxed))
}

/// An observer of a trial that notes the call of a tool with lasting effects. Such calls are refused.
fn note_refused(was_refused: Arc<AtomicBool>, registry: Registry) -> Observer {
    Arc::new(move |event| {
        if let RunEvent::ToolAnswered {
            name, ok: false, ..
        } = event
            && registry
                .get(name)
                .is_some_and(ToolDefinition::has_lasting_effects)
        {
            was_refused.store(true, Ordering::Relaxed);
        }
    })
}

fn code_of(action: &Action) -> Option<String> {
    match action {
        Action::Code(code) => Some(code.clone()),
        Action::Call(call) => code_of_call(call),
        _ => None,
    }
}
