//! The models of a server, and how agents are built.

use crate::error::ApiError;
use cellblock_agent::{Agent, AgentBuilder};
use cellblock_model::Model;
use cellblock_tools::ApprovalPolicy;
use std::sync::Arc;

/// What the agent of a server works with.
#[derive(Clone)]
pub struct AgentSetup {
    models: Vec<Arc<dyn Model>>,
    builder: AgentBuilder,
    pub(crate) policy: ApprovalPolicy,
}

impl AgentSetup {
    /// An agent with this model and the default settings.
    pub fn new(model: Arc<dyn Model>) -> AgentSetup {
        AgentSetup {
            models: vec![model],
            builder: Agent::builder(),
            policy: ApprovalPolicy::default(),
        }
    }

    /// Offers one more model. The first one is used where a question names none.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn Model>) -> AgentSetup {
        self.models.push(model);
        self
    }

    /// Sets the settings of agents: tools, limits, format. Model, executor and approval are the server's.
    #[must_use]
    pub fn builder(mut self, builder: AgentBuilder) -> AgentSetup {
        self.builder = builder;
        self
    }

    /// Sets when a person is asked for approval.
    #[must_use]
    pub fn policy(mut self, policy: ApprovalPolicy) -> AgentSetup {
        self.policy = policy;
        self
    }

    /// The names of the models.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.name()).collect()
    }

    /// The model with this name; the first one where none is named.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ApiError> {
        let found = match name {
            Some(name) => self.models.iter().find(|model| model.name() == name),
            None => self.models.first(),
        };
        found.cloned().ok_or_else(|| {
            ApiError::invalid(format!("model: there is no `{}`", name.unwrap_or_default()))
                .hint(format!("the models are: {}", self.names().join(", ")))
        })
    }

    /// A builder with the settings of the server.
    pub(crate) fn agent(&self) -> AgentBuilder {
        self.builder.clone()
    }
}

impl std::fmt::Debug for AgentSetup {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AgentSetup")
            .field("models", &self.names())
            .finish_non_exhaustive()
    }
}
