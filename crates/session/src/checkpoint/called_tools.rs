//! Which tools the kept cells called: going back does not undo what a tool did outside the session, so the result names it.

use std::collections::{BTreeSet, VecDeque};

/// Cells with calls that are remembered. A history of checkpoints is much shorter.
const MAX_CELLS: usize = 1_000;

/// The tools of each kept cell that called some, the oldest cell first.
#[derive(Debug, Default)]
pub(crate) struct CalledTools {
    cells: VecDeque<(u64, BTreeSet<String>)>,
}

impl CalledTools {
    /// A cell was kept.
    pub(crate) fn note(&mut self, cell: u64, tools: &BTreeSet<String>) {
        if tools.is_empty() {
            return;
        }
        if self.cells.len() == MAX_CELLS {
            self.cells.pop_front();
        }
        self.cells.push_back((cell, tools.clone()));
    }

    /// The state is without the cells that are not in `kept`: says what their tools did that stays, and forgets these cells.
    pub(crate) fn take_back(&mut self, kept: &[u64]) -> Vec<String> {
        let mut tools = BTreeSet::new();
        self.cells.retain(|(cell, called)| {
            let is_kept = kept.contains(cell);
            if !is_kept {
                tools.extend(called.iter().cloned());
            }
            is_kept
        });
        stays(&tools)
    }
}

/// What stays of calls of these tools, for `not_restored`.
pub(crate) fn stays(tools: &BTreeSet<String>) -> Vec<String> {
    let line = |name: &String| format!("the tool `{name}`: what it did outside the session");
    tools.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_cells_that_were_taken_back_are_named_once() {
        let tools = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut called = CalledTools::default();
        called.note(1, &tools(&["weather"]));
        called.note(2, &tools(&[]));
        called.note(3, &tools(&["mail", "weather"]));
        called.note(4, &tools(&["mail"]));
        let stays = [
            "the tool `mail`: what it did outside the session",
            "the tool `weather`: what it did outside the session",
        ];
        assert_eq!(called.take_back(&[1, 2]), stays);
        assert_eq!(called.take_back(&[1, 2]), Vec::<String>::new());
        assert_eq!(called.take_back(&[]), stays[1..]);
    }
}
