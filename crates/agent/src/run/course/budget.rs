//! What a run may still use, and what fits into a request.

use super::Course;
use crate::prompt::system_prompt;
use crate::run::{RunEvent, RunStatus};
use cellblock_model::{Request, estimate_request};

impl Course {
    pub(super) fn exceeded(&self) -> Option<(RunStatus, String)> {
        let limits = &self.setup.limits;
        if self.steps.len() >= limits.steps {
            return Some((
                RunStatus::MaxSteps,
                format!("there was no answer after {} steps", limits.steps),
            ));
        }
        if let Some(most) = limits.tokens.filter(|most| self.usage.total() >= *most) {
            let used = self.usage.total();
            return Some((
                RunStatus::MaxTokens,
                format!("{used} tokens were used, and {most} are allowed"),
            ));
        }
        if let (Some(most), Some(cost)) = (limits.cost, self.cost())
            && cost.0 >= most
        {
            return Some((
                RunStatus::MaxCost,
                format!("it cost {:.4}, and {most} is allowed", cost.0),
            ));
        }
        None
    }

    pub(super) fn request(&self) -> Request {
        let mut request = Request::new(self.history.messages(self.facts.locale));
        request.temperature = self.setup.temperature;
        request.max_tokens = self.setup.max_tokens;
        self.setup
            .format
            .implementation()
            .shape(&mut request, &self.facts);
        request
    }

    /// The tokens that the messages of a request may have: the context without the reply and the tools.
    pub(super) fn budget(&self) -> u64 {
        let reply = self
            .setup
            .max_tokens
            .map_or((self.context / 4).min(4_096), u64::from);
        let mut empty = Request::default();
        self.setup
            .format
            .implementation()
            .shape(&mut empty, &self.facts);
        let all = self.context.saturating_sub(reply) as f64 / self.calibration;
        (all as u64).saturating_sub(estimate_request(&empty))
    }

    /// The characters that each observation of a step may have, so that the last steps fit whole.
    pub(super) fn observation_room(&self, observations: usize) -> usize {
        let fixed = cellblock_model::estimate_tokens(&system_prompt(
            &self.setup.prompt,
            self.setup.format,
            &self.facts,
            self.setup.runs_code,
        ));
        let tokens = self.budget().saturating_sub(fixed) / 5;
        let characters = usize::try_from(tokens * 2).unwrap_or(usize::MAX) / observations.max(1);
        characters.clamp(500, crate::executor::OBSERVATION)
    }

    pub(super) fn degrade_compute(&mut self) {
        const COMPUTE: &str = "compute";
        let failures = self.watch.failures_of(COMPUTE);
        if failures >= self.setup.limits.compute_failures
            && self.facts.registry.get(COMPUTE).is_some()
        {
            self.facts.registry = self.facts.registry.without(COMPUTE);
            self.write_system();
            let text = format!(
                "compute failed {failures} times in a row and is no longer offered in this run"
            );
            self.events.push(RunEvent::Note { text });
        }
    }

    pub(super) fn write_system(&mut self) {
        let setup = &self.setup;
        let system = system_prompt(&setup.prompt, setup.format, &self.facts, setup.runs_code);
        self.history.set_system(system);
    }
}
