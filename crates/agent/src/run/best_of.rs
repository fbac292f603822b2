//! The best of several replies to the same request, each tried in a fork of the session.

use super::actions::{ActionContext, code_of_call, run_code};
use super::model_call::ask_model;
use super::unfinished::CompletedActions;
use super::{ActionResult, Candidate, Observer, RunEvent, Trial};
use crate::agent::AgentConfig;
use crate::executor::{ForkKind, OpenExecutor};
use crate::format::{Action, FormatContext, Turn};
use cellblock_model::{ModelError, Reply, Request, Usage};
use cellblock_tools::{Registry, ToolDefinition};
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much of a trial is told to those who watch the run.
const MAX_SHOWN_CHARS: usize = 2_000;

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
    step: usize,
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
    let trials = match most_common_answer(&turns) {
        Some(chosen) => Trials::untried(&turns, chosen),
        None => Trials::run(config, executor, context, &turns).await,
    };
    observer(&RunEvent::Candidates {
        step,
        chosen: trials.chosen,
        candidates: trials.candidates(&turns),
    });
    let reply = replies.remove(trials.chosen);
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

/// What became of the replies.
struct Trials {
    chosen: usize,
    /// The rank of each reply, and the result of its last cell.
    outcomes: Vec<(TrialRank, Option<ActionResult>)>,
}

impl Trials {
    /// Replies of which one was chosen without a trial.
    fn untried(turns: &[Option<Turn>], chosen: usize) -> Trials {
        let rank = |turn: &Option<Turn>| match turn {
            Some(_) => TrialRank::NotTried,
            None => TrialRank::Unreadable,
        };
        Trials {
            chosen,
            outcomes: turns.iter().map(|turn| (rank(turn), None)).collect(),
        }
    }

    /// Tries the code of each reply in a fork, and chooses the best. Of equal ones, the first.
    async fn run(
        config: &AgentConfig,
        executor: &dyn OpenExecutor,
        context: &FormatContext,
        turns: &[Option<Turn>],
    ) -> Trials {
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
                (None, _) => return (TrialRank::Unreadable, None),
                (Some(turn), Some(fork)) => try_in_fork(fork.as_ref(), context, turn).await,
                (Some(_), None) => None,
            };
            let rank = match &result {
                Some(result) if result.ok => {
                    let scorer = config.scorer.as_ref();
                    TrialRank::Succeeded(scorer.map_or(0.0, |scorer| scorer(result)))
                }
                Some(_) => TrialRank::Failed,
                None => TrialRank::NotTried,
            };
            (rank, result)
        });
        let outcomes = join_all(trials).await;
        let mut best = (0, TrialRank::Unreadable);
        for (index, (rank, _)) in outcomes.iter().enumerate() {
            if *rank > best.1 {
                best = (index, *rank);
            }
        }
        Trials {
            chosen: best.0,
            outcomes,
        }
    }

    /// The replies with their trials, for those who watch.
    fn candidates(&self, turns: &[Option<Turn>]) -> Vec<Candidate> {
        let candidate = |(turn, (rank, result)): (&Option<Turn>, &(TrialRank, _))| {
            let result: Option<&ActionResult> = Option::as_ref(result);
            let cells = turn.iter().flat_map(|turn| &turn.actions);
            let code: Vec<String> = cells.filter_map(code_of).collect();
            let answer = turn.as_ref().and_then(Turn::answer).map(text_of);
            let text = result.map(|result| result.text.clone()).or(answer);
            Candidate {
                thought: turn
                    .as_ref()
                    .map_or_else(String::new, |turn| turn.thought.clone()),
                code: code.join("\n"),
                trial: rank.trial(),
                text: beginning(&text.unwrap_or_default()),
            }
        };
        turns.iter().zip(&self.outcomes).map(candidate).collect()
    }
}

impl TrialRank {
    fn trial(self) -> Trial {
        match self {
            TrialRank::Unreadable => Trial::Unreadable,
            TrialRank::Failed => Trial::Failed,
            TrialRank::NotTried => Trial::NotTried,
            TrialRank::Succeeded(_) => Trial::Succeeded,
        }
    }
}

/// A text as it is, anything else as JSON.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn beginning(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
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
