//! How an evaluation goes, while it goes.

use super::scores;
use crate::terminal::{Console, Style};
use cellblock::eval::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A line for each task that is over, a bar below them on a terminal, and the results in their file.
pub(super) struct Shown {
    console: Console,
    bar: Option<ProgressBar>,
    results: Option<PathBuf>,
    running: Mutex<Vec<String>>,
}

impl Shown {
    pub(super) fn new(console: &Console, tasks: usize, results: Option<PathBuf>) -> Shown {
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
        Shown {
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
                let line = scores::line(task, &self.console);
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
