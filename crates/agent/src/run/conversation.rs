//! Questions over one session.

use super::acting::{Stage, act};
use super::asking::ask;
use super::best_of;
use super::course::{Course, End, Next};
use super::history::History;
use super::summary::Scene;
use super::{Observer, Outcome, Past, RunEvent, RunStatus};
use crate::agent::{Agent, AgentError, Setup};
use crate::executor::{ForkKind, Room, Setting};
use crate::format::{Facts, Turn};
use crate::verify::verify;
use cellblock_model::{ModelError, Reply, Request};
use cellblock_tools::ToolError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// A conversation over one session: each question sees what was said and done before it.
pub struct Conversation {
    setup: Arc<Setup>,
    room: Arc<dyn Room>,
    history: History,
    run_id: Option<String>,
    past: Option<Past>,
    /// What the model must know before the next question.
    notes: Vec<String>,
}

impl Conversation {
    pub(crate) fn new(setup: Arc<Setup>, past: Option<Past>) -> Conversation {
        let room = setup.executor.open(Setting {
            registry: setup.registry.clone(),
            seed: setup.seed.clone(),
            approval: setup.approval.clone(),
            locale: setup.locale,
            fresh_workspace: false,
            replay: None,
            earlier: past.as_ref().map(Past::earlier),
        });
        Conversation {
            setup,
            room,
            history: History::default(),
            run_id: None,
            past,
            notes: Vec::new(),
        }
    }

    /// The id under which traces tell of its runs.
    pub fn set_run_id(&mut self, id: impl Into<String>) {
        self.run_id = Some(id.into());
    }

    /// Where its code runs.
    pub fn room(&self) -> &Arc<dyn Room> {
        &self.room
    }

    /// The same conversation once more, over a fork of its session: what is said and done in one is not seen in the other.
    pub async fn fork(&self) -> Result<Conversation, ToolError> {
        Ok(Conversation {
            setup: Arc::clone(&self.setup),
            room: self.room.fork(ForkKind::Lasting).await?,
            history: self.history.clone(),
            run_id: self.run_id.clone(),
            past: None,
            notes: self.notes.clone(),
        })
    }

    /// Tells the model something together with the next question: what a person did to the session meanwhile.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Goes on with another agent, such as one with another model. The session and what was said stay.
    pub fn go_on_with(&mut self, agent: &Agent) {
        self.setup = agent.shared_setup();
    }

    /// Asks, and works until there is an answer or a limit is reached. When the token is cancelled the run ends at once, with
    /// what was reached.
    pub async fn ask(
        &mut self,
        question: &str,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        if question.trim().is_empty() {
            return Err(AgentError::EmptyQuestion);
        }
        self.traced(question, None, observer, cancel).await
    }

    /// Goes on with the run that was cut off, where [`Agent::take_up`] made this conversation.
    pub async fn go_on(
        &mut self,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let past = self.past.take().ok_or(AgentError::NothingToTakeUp)?;
        let question = past.question().to_owned();
        self.traced(&question, Some(past), observer, cancel).await
    }

    async fn traced(
        &mut self,
        question: &str,
        past: Option<Past>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let run = self.run_id.as_deref().unwrap_or("-");
        let span = tracing::info_span!("run", run, model = self.setup.model.name(), format = %self.setup.format, outcome = tracing::field::Empty);
        let outcome = self.answer(question, past, observer, cancel);
        let outcome = outcome.instrument(span.clone()).await;
        span.record("outcome", outcome.status.name());
        Ok(outcome)
    }

    async fn answer(
        &mut self,
        question: &str,
        past: Option<Past>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Outcome {
        let begun = Instant::now();
        self.setup.nest.watch(&observer);
        let mut history = std::mem::take(&mut self.history);
        let mut words = std::mem::take(&mut self.notes);
        words.push(question.to_owned());
        history.ask(&words.join("\n\n"));
        let mut course = Course::new(Arc::clone(&self.setup), self.facts(), history);
        match past {
            Some(past) => {
                past.lead(&mut course, self.room.as_ref()).await;
                let steps = course.steps.len();
                let format = self.setup.format;
                observer(&RunEvent::Resumed { steps, format });
            }
            None => observer(&RunEvent::Begun {
                question: question.to_owned(),
                model: self.setup.model.name().to_owned(),
                format: self.setup.format,
            }),
        }
        let end = self.drive(&mut course, &observer, &cancel, begun).await;
        let outcome = self.outcome(&mut course, end, begun).await;
        self.history = std::mem::take(&mut course.history);
        observer(&RunEvent::Finished {
            status: outcome.status,
            message: outcome.message.clone(),
        });
        outcome
    }

    /// Does what the course says until it is over. Cancellation and the time limit end whatever is under way.
    async fn drive(
        &self,
        course: &mut Course,
        observer: &Observer,
        cancel: &CancellationToken,
        begun: Instant,
    ) -> End {
        loop {
            let next = course.next();
            course
                .take_events()
                .iter()
                .for_each(|event| observer(event));
            if let Next::End(end) = next {
                return end;
            }
            // So far away that it never comes, where there is no limit.
            let limit = self
                .setup
                .limits
                .time
                .unwrap_or(Duration::from_secs(30 * 365 * 24 * 3600));
            let left = limit.saturating_sub(begun.elapsed());
            let stopped = tokio::select! {
                biased;
                () = cancel.cancelled() => Some((RunStatus::Cancelled, "the run was cancelled".to_owned())),
                () = tokio::time::sleep(left) => {
                    let message = format!("there was no answer within {} s", limit.as_secs_f64());
                    Some((RunStatus::MaxTime, message))
                }
                () = self.advance(course, next, observer) => None,
            };
            if let Some((status, message)) = stopped {
                course.end(status, message);
            }
            course
                .take_events()
                .iter()
                .for_each(|event| observer(event));
        }
    }

    async fn advance(&self, course: &mut Course, next: Next, observer: &Observer) {
        match next {
            Next::Ask(request) => {
                let begun = Instant::now();
                match self.reply(course, request, observer).await {
                    Ok(reply) => {
                        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                        observer(&RunEvent::Replied {
                            reply: Box::new(reply.clone()),
                            ms,
                        });
                        course.heard(&reply, ms);
                    }
                    Err(error) => course.model_failed(&error),
                }
            }
            Next::Act(turn) => self.act(course, &turn, observer).await,
            Next::Survey => {
                course.surveyed(Scene::of(self.room.as_ref()).await);
            }
            Next::End(_) => {}
        }
    }

    async fn act(&self, course: &mut Course, turn: &Turn, observer: &Observer) {
        let step = course.steps.len();
        let span = tracing::info_span!("step", step);
        let stage = Stage {
            room: self.room.as_ref(),
            step,
            facts: &course.facts,
            observer,
            before: &course.before,
        };
        let all = act(&stage, turn).instrument(span).await;
        let (done, observations) = all.into_iter().unzip();
        course.usage += self.setup.nest.take_usage();
        course.acted(done, observations);
    }

    async fn reply(
        &self,
        course: &mut Course,
        request: Request,
        observer: &Observer,
    ) -> Result<Reply, ModelError> {
        if self.setup.best_of > 1 {
            let (reply, usage) = best_of::best(
                &self.setup,
                self.room.as_ref(),
                &course.facts,
                request,
                observer,
            )
            .await?;
            course.usage += usage;
            return Ok(reply);
        }
        let format = self.setup.format.implementation();
        ask(self.setup.model.as_ref(), request, format, observer).await
    }

    fn facts(&self) -> Facts {
        Facts {
            registry: self.setup.registry.clone(),
            locale: self.setup.locale,
            capabilities: self.setup.model.capabilities().clone(),
            dependencies: self.setup.executor.available_dependencies(),
            workspace: self.setup.executor.workspace_path(),
            answer_schema: self.setup.answer.as_ref().map(|shape| shape.schema.clone()),
        }
    }

    async fn outcome(&self, course: &mut Course, end: End, begun: Instant) -> Outcome {
        let is_answered = end.status == RunStatus::Answered;
        let mut outcome = Outcome {
            answer: end.answer,
            status: end.status,
            message: end.message,
            reached: if is_answered { None } else { course.reached() },
            usage: course.usage,
            cost: course.cost(),
            steps: std::mem::take(&mut course.steps),
            session: self.room.session().await,
            files: self.room.files().await,
            warnings: std::mem::take(&mut course.warnings),
            verification: None,
            ms: 0,
        };
        if self.setup.verify && is_answered {
            let verification = verify(&self.setup, &outcome, self.room.recording()).await;
            outcome.warnings.extend(verification.warnings());
            outcome.verification = Some(verification);
        }
        outcome.ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Conversation").finish_non_exhaustive()
    }
}
