//! How the making of the environment is shown.

use super::{Console, size};
use cellblock::env::{InstallProgress, InstallStep};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The parts of the bar's whole.
const BAR_LENGTH: u64 = 1000;

/// A bar on a terminal; elsewhere one line per step.
#[derive(Debug)]
pub(crate) struct EnvironmentBar {
    console: Console,
    bar: Option<ProgressBar>,
    is_silent: bool,
    step: Mutex<Option<InstallStep>>,
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
    pub(crate) fn report(&self, progress: &InstallProgress) {
        let before = {
            let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
            step.replace(progress.step)
        };
        if progress.step == InstallStep::OutsideWalls {
            // Not one more line of progress: it must be seen, also where nothing else is shown. Once is enough.
            if before != Some(InstallStep::OutsideWalls) {
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

/// The progress of a download: a bar with rate and remaining time on a terminal; elsewhere a line for each tenth.
#[derive(Debug)]
pub(crate) struct DownloadBar {
    console: Console,
    bar: Option<ProgressBar>,
    name: String,
    /// Where it was when it began, and the last tenth that was said.
    state: Mutex<DownloadState>,
}

#[derive(Debug, Default)]
struct DownloadState {
    begun: Option<(Instant, u64)>,
    tenth: Option<u64>,
}

impl DownloadBar {
    /// A bar that is seen from the first report on.
    pub(crate) fn new(console: &Console, name: &str) -> DownloadBar {
        let bar = console.err_is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::hidden());
            if let Ok(style) =
                ProgressStyle::with_template("  [{bar:30}] {percent:>3}%  {wide_msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        DownloadBar {
            console: console.clone(),
            bar,
            name: name.to_owned(),
            state: Mutex::default(),
        }
    }

    /// Moves it.
    pub(crate) fn report(&self, done: u64, total: Option<u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, before) = *state.begun.get_or_insert_with(|| (Instant::now(), done));
        let line = download_line(&self.name, done, total, done - before.min(done), begun);
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_length(total.unwrap_or(done).max(1));
                bar.set_position(done);
                bar.set_message(line);
            }
            None => {
                let tenth = total.map(|total| done * 10 / total.max(1));
                if tenth != state.tenth || state.tenth.is_none() && done == before {
                    state.tenth = tenth;
                    self.console.say(&format!("  {line}"));
                }
            }
        }
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `NAME: 210 MB of 1.1 GB, 12 MB/s, 75 s left`.
fn download_line(name: &str, done: u64, total: Option<u64>, new: u64, begun: Instant) -> String {
    let mut line = format!("{name}: {}", size(done));
    if let Some(total) = total {
        line.push_str(&format!(" of {}", size(total)));
    }
    let seconds = begun.elapsed().as_secs_f64();
    if new > 0 && seconds > 0.5 {
        let rate = new as f64 / seconds;
        line.push_str(&format!(", {}/s", size(rate as u64)));
        if let Some(total) = total {
            let left = total.saturating_sub(done) as f64 / rate;
            line.push_str(&match left as u64 {
                left @ 0..120 => format!(", {left} s left"),
                left => format!(", {} min left", left / 60),
            });
        }
    }
    line
}
