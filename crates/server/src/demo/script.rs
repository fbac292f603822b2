//! The questions that the demonstration knows, with the recorded replies of the model.

/// A question and the replies to it, one for each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) question: &'static str,
    pub(super) replies: Vec<&'static str>,
}

/// A table, a plot and a plan with versions.
pub(super) const TABLE_AND_PLOT: &str = include_str!("../../demo/table_and_plot.md");
/// A cell that kills the interpreter, and one that finds every variable again.
pub(super) const CRASH: &str = include_str!("../../demo/crash.md");
/// A question that changes variables, for a branch of the chat.
pub(super) const BRANCH: &str = include_str!("../../demo/branch.md");
/// A call that waits for the approval of a person.
pub(super) const APPROVAL: &str = include_str!("../../demo/approval.md");

/// All questions, in the order in which the model suggests them.
pub(super) fn all() -> Vec<Script> {
    [TABLE_AND_PLOT, CRASH, BRANCH, APPROVAL]
        .into_iter()
        .map(Script::parse)
        .collect()
}

impl Script {
    /// Reads a script: the question as a heading, then the replies, each after a line of three hyphens.
    pub(super) fn parse(text: &'static str) -> Script {
        let mut parts = text.split("\n---\n");
        let question = parts.next().unwrap_or_default();
        Script {
            question: question.trim_start_matches("# ").trim(),
            replies: parts.map(str::trim).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Script, all};

    #[test]
    fn a_script_has_a_question_and_replies() {
        let expected = Script {
            question: "Why?",
            replies: vec!["I look.\n\n```python\n1\n```", "Because."],
        };
        let text = "# Why?\n---\nI look.\n\n```python\n1\n```\n---\nBecause.\n";
        assert_eq!(Script::parse(text), expected);
    }

    #[test]
    fn every_script_runs_code_and_ends_with_an_answer() {
        for script in all() {
            let (answer, steps) = script.replies.split_last().expect("replies");
            assert!(script.question.ends_with(['?', '.']), "{script:?}");
            assert!(!answer.contains("```"), "{script:?}");
            assert!(
                !steps.is_empty() && steps.iter().all(|step| step.contains("```python")),
                "{script:?}"
            );
        }
    }
}
