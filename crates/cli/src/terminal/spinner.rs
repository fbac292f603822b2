//! A sign on standard error that something still runs.

use super::Console;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A spinner with a text and the time since it was shown. Without a terminal it is never seen.
#[derive(Debug)]
pub(crate) struct Spinner {
    console: Console,
    bar: Option<ProgressBar>,
}

impl Spinner {
    /// A spinner that is not shown yet.
    pub(crate) fn new(console: &Console) -> Spinner {
        let bar = console.err_is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar
        });
        Spinner {
            console: console.clone(),
            bar,
        }
    }

    /// Shows the spinner beside this text. The time begins at `elapsed`.
    pub(crate) fn show(&self, text: &str, elapsed: Duration) {
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_elapsed(elapsed);
            self.set_text(text);
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
        }
    }

    /// Changes the text.
    pub(crate) fn set_text(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.console.safe_on_err(text).into_owned());
        }
    }

    /// Removes the spinner from the screen.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.finish_and_clear();
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}
