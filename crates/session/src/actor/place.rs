//! The place in the code at which a cell was stopped, because its time was over.

use crate::actor::Actor;
use crate::actor::cell_run::CellRun;
use cellblock_protocol::Stream;
use std::ops::Range;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the head may take to say where it is.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// The bytes in which the place is looked for. Code may write much more in that time.
const MAX_SEARCHED_BYTES: usize = 64 << 10;
/// The first line of what Python writes about the thread that got the signal.
const BEGINNING: &[u8] = b"Stack (most recent call first):\n";

impl CellRun {
    /// Asks the head where it is.
    ///
    /// The head answers in a signal handler that is C code of Python, so it answers in the middle of a C function too. The answer comes
    /// in the pipe of standard error and is taken out of the output. It is a claim of the guest about its own code.
    pub(crate) async fn note_place(&mut self, actor: &mut Actor) {
        self.drain(actor);
        actor.live.ask_for_place().await;
        let until = Instant::now() + MAX_WAIT;
        let mut said = Vec::new();
        // A pipe that never gets empty would be read for ever: `timeout_at` looks at the time only where nothing can be read.
        while place_in(&said, self.number).is_none()
            && Instant::now() < until
            && let Ok(Ok((stream, bytes))) = timeout_at(until, actor.live.head.pipes.read()).await
        {
            match stream {
                Stream::Stderr if said.len() < MAX_SEARCHED_BYTES => said.extend_from_slice(bytes),
                stream => self.add_output(stream, bytes),
            }
        }
        let Some((block, place)) = place_in(&said, self.number) else {
            self.add_output(Stream::Stderr, &said);
            return;
        };
        self.add_output(Stream::Stderr, &said[..block.start]);
        self.add_output(Stream::Stderr, &said[block.end..]);
        self.stopped_at = Some(place);
    }
}

/// The bytes of what Python wrote about its thread, and the innermost place of the cell in it. `None` where it is not complete.
fn place_in(said: &[u8], cell: u64) -> Option<(Range<usize>, String)> {
    let start = find(said, BEGINNING)?;
    let mut end = start;
    let mut place = None;
    let file = format!("  File \"<cell {cell}>\", line ");
    let mut is_complete = false;
    for line in said[start..].split_inclusive(|byte| *byte == b'\n') {
        let is_first = end == start;
        // Python shows a hundred frames.
        let is_rest = line == b"  ...\n";
        let is_frame = line.starts_with(b"  File \"");
        if !line.ends_with(b"\n") || is_complete || !(is_first || is_frame || is_rest) {
            break;
        }
        end += line.len();
        // The outermost frame is the program that Python was started with.
        is_complete = is_rest || line.starts_with(b"  File \"<string>\", line ");
        if place.is_none()
            && let Some(rest) = line.strip_prefix(file.as_bytes())
        {
            let rest = String::from_utf8_lossy(rest);
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            place = Some(format!("line {digits} of <cell {cell}>"));
        }
    }
    place
        .filter(|_| is_complete)
        .map(|place| (start..end, place))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::place_in;

    #[test]
    fn the_innermost_line_of_the_cell_is_the_place() {
        let said = b"mine\nStack (most recent call first):\n  File \"/usr/lib/re.py\", line 9 in match\n  File \"<cell 3>\", line 6 in f\n  File \"<cell 3>\", line 8 in <module>\n  File \"x/execute.py\", line 1 in run\n  File \"<string>\", line 1 in <module>\nmore\n";
        let (block, place) = place_in(said, 3).unwrap();
        assert_eq!(place, "line 6 of <cell 3>");
        assert_eq!(
            (&said[..block.start], &said[block.end..]),
            (&b"mine\n"[..], &b"more\n"[..])
        );
        assert_eq!(place_in(said, 4), None);
        assert_eq!(place_in(&said[..60], 3), None);
        assert_eq!(place_in(b"nothing", 3), None);
    }
}
