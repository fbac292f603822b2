//! How the making of the environment is shown.

use super::Console;
use cellblock::env::{Progress, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The parts of the bar's whole.
const BAR_LENGTH: u64 = 1000;

/// A bar on a terminal; elsewhere one line per step.
#[derive(Debug)]
pub(crate) struct EnvironmentBar {
    console: Console,
    bar: Option<ProgressBar>,
    is_silent: bool,
    step: Mutex<Option<Step>>,
}

impl EnvironmentBar {
    /// A bar that is seen from the first report on.
    pub(crate) fn new(console: &Console) -> EnvironmentBar {
        let bar = console.err_is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(BAR_LENGTH), ProgressDrawTarget::hidden());
            let template = "  {spinner} [{bar:30}] {percent:>3}%  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        EnvironmentBar {
            console: console.clone(),
            bar,
            is_silent: false,
            step: Mutex::new(None),
        }
    }

    /// One line for each step, also on a terminal: beside something else that moves there.
    pub(crate) fn lines(console: &Console) -> EnvironmentBar {
        EnvironmentBar {
            console: console.clone(),
            bar: None,
            is_silent: false,
            step: Mutex::new(None),
        }
    }

    /// One that is never seen.
    pub(crate) fn silent(console: &Console) -> EnvironmentBar {
        EnvironmentBar {
            console: console.clone(),
            bar: Some(ProgressBar::hidden()),
            is_silent: true,
            step: Mutex::new(None),
        }
    }

    /// Moves it.
    pub(crate) fn report(&self, progress: &Progress) {
        let before = {
            let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
            step.replace(progress.step)
        };
        if progress.step == Step::OutsideWalls {
            // Not one more line of progress: it must be seen, also where nothing else is shown. Once is enough.
            if before != Some(Step::OutsideWalls) {
                self.above(|| self.console.note("warning:", &progress.message));
            }
            return;
        }
        let Some(bar) = &self.bar else {
            if before != Some(progress.step) {
                self.console.say(&format!("  {}", progress.message));
            }
            return;
        };
        if before.is_none() && !self.is_silent {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let position = (progress.fraction() * BAR_LENGTH as f64) as u64;
        bar.set_position(position.max(bar.position()));
        bar.set_message(self.console.safe_on_err(&progress.message).into_owned());
    }

    /// Prints something while the bar stands below it.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
