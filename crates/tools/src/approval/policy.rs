//! When a person is asked.

use crate::Effects;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// Nothing.
    Never,
    /// Tools that change something outside. Code in the sealed session runs unasked.
    #[default]
    Effects,
    /// Those, and every execution of code.
    Code,
    /// Every call of a tool, except that code in the sealed session runs unasked.
    Tools,
    /// Everything.
    All,
}

/// What is done about one tool, whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRule {
    /// It runs unasked.
    Allow,
    /// A person is asked.
    Ask,
    /// It never runs.
    Deny,
}

/// A mode, and rules by the names of tools, which come first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// For every tool without a rule.
    pub mode: ApprovalMode,
    /// `{"send_mail": "ask"}`.
    pub rules: BTreeMap<String, ApprovalRule>,
}

impl ApprovalPolicy {
    /// This mode, and no rules.
    pub fn mode(mode: ApprovalMode) -> ApprovalPolicy {
        ApprovalPolicy {
            mode,
            rules: BTreeMap::new(),
        }
    }

    /// With a rule for one tool.
    pub fn with(mut self, tool: impl Into<String>, rule: ApprovalRule) -> ApprovalPolicy {
        self.rules.insert(tool.into(), rule);
        self
    }

    /// Whether a tool with these effects runs unasked.
    pub fn allows(&self, tool: &str, effects: Effects) -> bool {
        self.rule(tool, effects) == ApprovalRule::Allow
    }

    pub(super) fn rule(&self, tool: &str, effects: Effects) -> ApprovalRule {
        if let Some(rule) = self.rules.get(tool) {
            return *rule;
        }
        let asks = match (self.mode, effects) {
            (ApprovalMode::Never, _) => false,
            (ApprovalMode::All, _) | (_, Effects::Outside) => true,
            (ApprovalMode::Code, Effects::Code { .. }) => true,
            (ApprovalMode::Tools, Effects::None) => true,
            _ => false,
        };
        if asks {
            ApprovalRule::Ask
        } else {
            ApprovalRule::Allow
        }
    }
}
