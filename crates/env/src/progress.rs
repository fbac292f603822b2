//! How far the making of an environment has come.

/// One step forward.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// How many things of this step are done: packages, files or modules.
    pub done: u64,
    /// Of how many, when that is known.
    pub total: Option<u64>,
    /// The same for a person, in one line without escapes.
    pub message: String,
}

/// The steps, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Step {
    /// Another process makes the same environment; this one waits for it.
    Wait,
    /// Finding or fetching uv, and creating the empty environment.
    Prepare,
    /// No walls are to be had for the installer; the message says why. It runs without.
    Unwalled,
    /// Deciding which packages and versions are needed.
    Resolve,
    /// Fetching them.
    Download,
    /// Putting them in place.
    Install,
    /// Compiling byte code.
    Compile,
    /// Importing once what sessions will import.
    WarmUp,
}

impl Progress {
    pub(crate) fn new(
        step: Step,
        done: u64,
        total: Option<u64>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            step,
            done,
            total,
            message: message.into(),
        }
    }

    /// The share of the whole that is done, from 0 to 1, for one bar over all steps. The weights are
    /// measured times; it does not go backwards as long as the steps come in order.
    pub fn fraction(&self) -> f64 {
        let (from, to) = match self.step {
            Step::Wait => (0.0, 0.0),
            Step::Prepare => (0.0, 0.15),
            Step::Unwalled => (0.15, 0.15),
            Step::Resolve => (0.15, 0.25),
            Step::Download => (0.25, 0.40),
            Step::Install => (0.40, 0.45),
            Step::Compile => (0.45, 0.85),
            Step::WarmUp => (0.85, 1.0),
        };
        let inside = match self.total {
            Some(total) if total > 0 => (self.done as f64 / total as f64).min(1.0),
            Some(_) => 0.0,
            // Nearer and nearer to the end of the step, which nobody knows.
            None => self.done as f64 / (self.done as f64 + 10.0),
        };
        from + (to - from) * inside
    }
}

/// A number of packages in words.
pub(crate) fn packages(count: u64) -> String {
    match count {
        1 => "1 package".to_owned(),
        _ => format!("{count} packages"),
    }
}
