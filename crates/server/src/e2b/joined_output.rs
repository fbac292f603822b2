//! Output of a cell, joined to whole lines: clients count one `print` as one message.

use std::time::Duration;
use tokio::time::Instant;

/// How long the beginning of a line waits for its end.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// How much of a line waits at most.
const MAX_BYTES: usize = 64 << 10;

/// The beginning of a line whose end has not come.
#[derive(Debug, Default)]
pub(super) struct JoinedOutput {
    waiting: Option<UnfinishedLine>,
}

#[derive(Debug)]
struct UnfinishedLine {
    output: Output,
    until: Instant,
}

/// A piece of output that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) stream: &'static str,
    pub(super) text: String,
}

impl JoinedOutput {
    /// Takes a piece of output, and returns what can be sent now, in order.
    pub(super) fn add(&mut self, stream: &'static str, text: &str) -> Vec<Output> {
        let mut ready = Vec::new();
        let is_other = |waiting: &UnfinishedLine| waiting.output.stream != stream;
        if self.waiting.as_ref().is_some_and(is_other) {
            ready.extend(self.take());
        }
        let waiting = self.waiting.get_or_insert_with(|| UnfinishedLine {
            output: Output {
                stream,
                text: String::new(),
            },
            until: Instant::now() + MAX_WAIT,
        });
        waiting.output.text.push_str(text);
        if text.ends_with('\n') || waiting.output.text.len() >= MAX_BYTES {
            ready.extend(self.take());
        }
        ready
    }

    /// What waits, before something else is sent.
    pub(super) fn take(&mut self) -> Option<Output> {
        self.waiting.take().map(|waiting| waiting.output)
    }

    /// Returns when what waits is to be sent, although its line has no end. Never returns while nothing waits.
    pub(super) async fn is_due(&self) {
        match &self.waiting {
            Some(waiting) => tokio::time::sleep_until(waiting.until).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stream: &'static str, text: &str) -> Output {
        Output {
            stream,
            text: text.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_line_that_comes_in_pieces_is_one_message() {
        let mut joined = JoinedOutput::default();
        assert_eq!(joined.add("stdout", "a line"), []);
        assert_eq!(joined.add("stdout", "\n"), [output("stdout", "a line\n")]);
        assert_eq!(joined.add("stdout", "begun"), []);
        let both = [output("stdout", "begun"), output("stderr", "other\n")];
        assert_eq!(joined.add("stderr", "other\n"), both);
        assert_eq!(joined.add("stdout", "prompt: "), []);
        joined.is_due().await;
        assert_eq!(joined.take(), Some(output("stdout", "prompt: ")));
        assert_eq!(joined.take(), None);
    }
}
