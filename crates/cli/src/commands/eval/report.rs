//! Results as a person reads them.

use crate::terminal::{Console, Style, plural};
use cellblock::eval::{EvalReport, Progress, ReportComparison, TaskReport};
use cellblock::model::Cost;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One task on one line, for standard error.
pub(super) fn line(task: &TaskReport, console: &Console) -> String {
    let (style, word) = verdict(task);
    let mut line = format!(
        "{} {} ({}, {:.1} s)",
        console.on_err(style, word),
        task.name,
        plural(task.steps as u64, "step"),
        seconds(task.ms)
    );
    if !task.passed {
        let why = console.safe_on_err(&reasons(task)).into_owned();
        line.push_str(&format!(": {why}"));
    }
    line
}

/// All tasks and their sum, for standard output.
pub(super) fn task_table(report: &EvalReport, console: &Console) -> String {
    let widest = report.tasks.iter().map(|task| task.name.len()).max();
    let width = widest.unwrap_or(0).max("score 0.00".len());
    let has_cost = report.totals.cost.is_some();
    let cost = |cost: Option<Cost>| match cost {
        Some(Cost(cost)) => format!("  {cost:>9.5}"),
        None if has_cost => format!("  {:>9}", "–"),
        None => String::new(),
    };
    let cost_title = if has_cost { "       cost" } else { "" };
    let mut text = format!(
        "{:<width$}  {:<6}  {:<17}  {:>5}  {:>7}{cost_title}  {:>7}\n",
        "task", "", "status", "steps", "tokens", "seconds"
    );
    for task in &report.tasks {
        let (style, word) = verdict(task);
        let status = task.status.map_or("not run", |status| status.name());
        text.push_str(&format!(
            "{:<width$}  {}  {status:<17}  {:>5}  {:>7}{}  {:>7.1}\n",
            task.name,
            console.on_out(style, &format!("{word:<6}")),
            task.steps,
            task.usage.total(),
            cost(task.cost),
            seconds(task.ms)
        ));
    }
    let totals = &report.totals;
    text.push_str(&format!(
        "{:<width$}  {:<6}  {:<17}  {:>5}  {:>7}{}  {:>7.1}\n",
        format!("score {:.2}", totals.score),
        format!("{}/{}", totals.passed, totals.tasks),
        report.mode_name(),
        totals.steps,
        totals.usage.total(),
        cost(totals.cost),
        seconds(totals.ms)
    ));
    if let Some(share) = totals.parsed_share() {
        text.push_str(&format!(
            "code read at the first try: {:.0} % ({} of {})\n",
            share * 100.0,
            totals.parsed_at_first_try,
            totals.code_actions
        ));
    }
    text
}

/// What became of each task since an earlier evaluation.
pub(super) fn changes(changes: &ReportComparison, console: &Console) -> String {
    let mut text = format!(
        "score before {:.2}, now {:.2}\n",
        changes.score_before, changes.score_now
    );
    for change in &changes.regressions {
        let word = console.on_out(Style::Error, "worse:");
        let why = change.problems.join("; ");
        let why = console.safe_on_out(&why);
        text.push_str(&format!("{word} {} ({why})\n", change.task));
    }
    for change in &changes.improvements {
        text.push_str(&format!("better: {}\n", change.task));
    }
    for (word, names) in [("new", &changes.added), ("gone", &changes.removed)] {
        if !names.is_empty() {
            text.push_str(&format!("{word}: {}\n", names.join(", ")));
        }
    }
    text
}

fn verdict(task: &TaskReport) -> (Style, &'static str) {
    match (task.passed, task.status) {
        (true, _) => (Style::Good, "passed"),
        (false, None) => (Style::Dim, "–"),
        (false, Some(_)) => (Style::Error, "failed"),
    }
}

fn reasons(task: &TaskReport) -> String {
    let message = task
        .message
        .iter()
        .filter(|_| task.status.is_none_or(|status| status.name() != "answered"));
    let all: Vec<&str> = task
        .problems
        .iter()
        .chain(message)
        .map(String::as_str)
        .collect();
    let text: String = all.join("; ").chars().take(400).collect();
    text.replace('\n', " ")
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// A line for each task that is over, a bar below them on a terminal, and the results in their file.
pub(super) struct EvalProgress {
    console: Console,
    bar: Option<ProgressBar>,
    results: Option<PathBuf>,
    running: Mutex<Vec<String>>,
}

impl EvalProgress {
    pub(super) fn new(console: &Console, tasks: usize, results: Option<PathBuf>) -> EvalProgress {
        let bar = console.err_is_terminal().then(|| {
            let length = u64::try_from(tasks).ok();
            let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
            let template = "  {spinner} [{bar:30}] {pos} of {len}  {elapsed}  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        EvalProgress {
            console: console.clone(),
            bar,
            results,
            running: Mutex::default(),
        }
    }

    /// Shows what happened. The file of results is written after each task, so that it is there whatever comes.
    pub(super) fn show(&self, happened: Progress<'_>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match happened {
            Progress::Started { task } => running.push(task.to_owned()),
            Progress::Finished { task, so_far } => {
                running.retain(|name| name != &task.name);
                let line = line(task, &self.console);
                self.above(|| self.console.say(&line));
                let written = self.results.as_ref().map(|file| so_far.write(file));
                if let Some(Err(error)) = written {
                    let label = self.console.on_err(Style::Warning, "warning:");
                    self.above(|| self.console.note(&label, &error.to_string()));
                }
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
            }
        }
        if let Some(bar) = &self.bar {
            let names = running.join(", ");
            bar.set_message(self.console.name_on_err(&names).into_owned());
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn above(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
