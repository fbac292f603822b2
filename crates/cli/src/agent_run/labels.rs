//! The words around a run at the terminal, in the language of the run.

use cellblock::Locale;
use cellblock::agent::{Candidate, RunStatus, Trial};

/// The labels of a run in a language.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Labels(pub(crate) Locale);

/// A part of a run that has a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// What the model thinks.
    Thinking,
    /// Code that runs.
    Code,
    /// What code gave.
    CodeResult,
    /// What a tool gave.
    ToolResult,
    /// The answer.
    Answer,
}

impl Labels {
    pub(crate) fn heading(self, heading: Heading) -> &'static str {
        let (english, chinese) = match heading {
            Heading::Thinking => ("Thinking", "思考"),
            Heading::Code => ("Executing code", "执行代码"),
            Heading::CodeResult => ("Execution result", "执行结果"),
            Heading::ToolResult => ("Result", "结果"),
            Heading::Answer => ("Final answer", "最终答案"),
        };
        self.one_of(english, chinese)
    }

    /// Text for an event with something in it.
    pub(crate) fn calling(self, tool: &str) -> String {
        format!("{} {tool}", self.one_of("Calling", "调用"))
    }

    pub(crate) fn code_of(self, template: &str) -> String {
        match self.0 {
            Locale::En => format!("Executing code of {template}"),
            Locale::Zh => format!("执行 {template} 的代码"),
        }
    }

    pub(crate) fn plan(self, version: impl std::fmt::Display) -> String {
        match self.0 {
            Locale::En => format!("Plan, version {version}"),
            Locale::Zh => format!("计划, 第 {version} 版"),
        }
    }

    pub(crate) fn no_output(self) -> &'static str {
        self.one_of("(no output)", "(没有输出)")
    }

    pub(crate) fn new_file(self, path: &str, bytes: u64) -> String {
        match self.0 {
            Locale::En => format!("new file {path} ({bytes} bytes)"),
            Locale::Zh => format!("新文件 {path} ({bytes} 字节)"),
        }
    }

    pub(crate) fn shortened(self, before: u64, after: u64) -> String {
        match self.0 {
            Locale::En => {
                format!("the conversation was shortened from about {before} to {after} tokens")
            }
            Locale::Zh => format!("对话已从约 {before} 个词元缩短到 {after} 个"),
        }
    }

    pub(crate) fn asked_again(self, reason: &str) -> String {
        let words = self.one_of("the model is asked again", "再次询问模型");
        format!("{words}: {reason}")
    }

    /// Which of several replies was chosen, and how many failed.
    pub(crate) fn chosen(self, chosen: usize, candidates: &[Candidate]) -> String {
        let with = |trial| candidates.iter().filter(|one| one.trial == trial).count();
        let (number, all) = (chosen + 1, candidates.len());
        let (succeeded, failed) = (with(Trial::Succeeded), with(Trial::Failed));
        match self.0 {
            Locale::En => format!(
                "reply {number} of {all} was chosen: the code of {succeeded} succeeded, of {failed} failed"
            ),
            Locale::Zh => {
                format!(
                    "选择了 {all} 个回复中的第 {number} 个: {succeeded} 个成功, {failed} 个失败"
                )
            }
        }
    }

    pub(crate) fn repaired(self, repairs: &str) -> String {
        let words = self.one_of("the reply was repaired", "已修复回复");
        format!("{words}: {repairs}")
    }

    pub(crate) fn resumed(self, steps: usize) -> String {
        match self.0 {
            Locale::En => format!("the run goes on after {}", steps_in_english(steps)),
            Locale::Zh => format!("运行在 {steps} 步之后继续"),
        }
    }

    pub(crate) fn no_answer(self, status: RunStatus, message: Option<&str>) -> String {
        let unknown = self.one_of("no reason is known", "原因未知");
        let words = self.one_of("no answer", "没有答案");
        format!("{words} ({status}): {}", message.unwrap_or(unknown))
    }

    pub(crate) fn reached(self) -> &'static str {
        self.one_of("reached:", "已得到:")
    }

    pub(crate) fn warning(self) -> &'static str {
        self.one_of("warning:", "警告:")
    }

    pub(crate) fn note(self) -> &'static str {
        self.one_of("note:", "注:")
    }

    /// How an answer was verified, as the rest of a sentence.
    pub(crate) fn verified(self, cells: usize, is_confirmed: bool) -> String {
        match (self.0, is_confirmed) {
            (Locale::En, true) => {
                let cells = crate::terminal::plural(cells as u64, "cell");
                format!(", verified by {cells} run again")
            }
            (Locale::Zh, true) => format!(", 已重新运行 {cells} 个单元核实"),
            (_, false) => self.one_of(", unverified", ", 未核实").to_owned(),
        }
    }

    /// The last line: what the run took.
    pub(crate) fn summary(self, run: &RunSummary<'_>) -> String {
        let (status, steps, verified) = (run.status, run.steps, run.verified);
        let (seconds, tokens) = (run.seconds, run.tokens);
        match self.0 {
            Locale::En => {
                let cost = run.cost.map(|cost| format!(", cost {cost:.4}"));
                let (steps, cost) = (steps_in_english(steps), cost.unwrap_or_default());
                format!("{status} in {steps}{verified}, {seconds:.1} s, {tokens} tokens{cost}")
            }
            Locale::Zh => {
                let cost = run.cost.map(|cost| format!(", 费用 {cost:.4}"));
                let cost = cost.unwrap_or_default();
                format!("{status}, {steps} 步{verified}, {seconds:.1} 秒, {tokens} 个词元{cost}")
            }
        }
    }

    fn one_of(self, english: &'static str, chinese: &'static str) -> &'static str {
        match self.0 {
            Locale::En => english,
            Locale::Zh => chinese,
        }
    }
}

/// What the last line tells.
pub(crate) struct RunSummary<'a> {
    pub(crate) status: RunStatus,
    pub(crate) steps: usize,
    pub(crate) verified: &'a str,
    pub(crate) seconds: f64,
    pub(crate) tokens: u64,
    pub(crate) cost: Option<f64>,
}

fn steps_in_english(steps: usize) -> String {
    crate::terminal::plural(steps as u64, "step")
}
