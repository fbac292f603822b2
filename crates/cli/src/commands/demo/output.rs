//! How the tour looks.

use crate::terminal::{
    Console, DisplayText, EnvironmentBar, Style, ending, file_lines, highlight, milliseconds,
};
use cellblock::{CellResult, Frame, strip_terminal_escapes};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Prints the tour above the bar.
#[derive(Clone)]
pub(crate) struct TourOutput {
    console: Console,
    bar: Arc<EnvironmentBar>,
}

impl TourOutput {
    pub(crate) fn new(console: Console, bar: Arc<EnvironmentBar>) -> TourOutput {
        TourOutput { console, bar }
    }

    /// `2. A title`, after a blank line.
    pub(crate) fn heading(&self, number: usize, title: &str) -> io::Result<()> {
        let title = self
            .console
            .on_out(Style::Heading, &format!("{number}. {title}"));
        self.line(&format!("\n{title}"))
    }

    /// Prints a sentence of the tour.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.bar.above(|| self.console.print_line(text))
    }

    /// A sentence that can be passed over.
    pub(crate) fn aside(&self, text: &str) -> io::Result<()> {
        self.line(&self.console.on_out(Style::Dim, text))
    }

    /// Whether what was claimed came true.
    pub(crate) fn verdict(&self, check: &Result<(), String>) -> io::Result<()> {
        match check {
            Ok(()) => Ok(()),
            Err(problem) => self.line(
                &self
                    .console
                    .on_out(Style::Error, &format!("   not as claimed: {problem}")),
            ),
        }
    }

    /// The code, before it runs.
    pub(crate) fn code(&self, code: &str) -> io::Result<()> {
        let code = if self.console.out_is_coloured() {
            highlight(code)
        } else {
            code.to_owned()
        };
        let lines: Vec<String> = code
            .split('\n')
            .enumerate()
            .map(|(at, line)| {
                format!(
                    "   {} {line}",
                    self.console
                        .on_out(Style::Dim, if at == 0 { ">>>" } else { "..." })
                )
            })
            .collect();
        self.line(&lines.join("\n"))
    }

    /// What came of it, and how long it took.
    pub(crate) fn result(
        &self,
        result: &CellResult,
        limit: Duration,
        workspace: &Path,
    ) -> io::Result<()> {
        let mut parts = Vec::new();
        if !result.output.is_empty() {
            parts.push(result.output.trim_end().to_owned());
        }
        for bundle in &result.displays {
            let (DisplayText::Text(text) | DisplayText::Description(text)) =
                DisplayText::of(bundle);
            parts.push(text);
        }
        parts.extend(result.value.as_ref().map(|value| value.repr.clone()));
        parts.extend(ending(result, limit));
        if let Some(error) = &result.error {
            parts.push(error.traceback.trim_end().to_owned());
            parts.extend(error.frames.last().and_then(locals));
            parts.extend(error.hint.as_ref().map(|hint| format!("hint: {hint}")));
        }
        parts.extend(file_lines(result, workspace, &self.console));
        for part in parts {
            // Indented, so that the output of code cannot be taken for a sentence of the tour.
            let text = strip_terminal_escapes(&part).replace('\n', "\n   ");
            self.line(&format!("   {text}"))?;
        }
        self.aside(&format!("   {}", milliseconds(result.usage.wall)))
    }
}

/// `in share: total = 100, people = 0`
fn locals(frame: &Frame) -> Option<String> {
    let values: Vec<String> = frame
        .locals
        .0
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    (!values.is_empty()).then(|| format!("in {}: {}", frame.function, values.join(", ")))
}
