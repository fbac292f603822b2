//! The outputs of the cells of a notebook that runs, as they are written into its file.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The memory that the outputs of one cell may take, and those of all cells. What is beyond is left out.
const MAX_CELL_MEMORY: usize = 64 << 20;
const MAX_MEMORY: usize = 512 << 20;

/// The outputs of cells. A display of an earlier cell can be updated by a later one.
#[derive(Default)]
pub(crate) struct NotebookOutputs {
    by_cell: BTreeMap<usize, CellOutputs>,
    current: usize,
    /// Where the displays with a name are: the cell and the place among its outputs.
    named: BTreeMap<String, Vec<(usize, usize)>>,
    clear_with_next: bool,
}

#[derive(Default)]
struct CellOutputs {
    outputs: Vec<Value>,
    memory: usize,
    /// Whether there was more than the memory allows.
    is_cut: bool,
}

impl NotebookOutputs {
    pub(crate) fn begin_cell(&mut self, place: usize) {
        self.current = place;
        self.clear_with_next = false;
        self.by_cell.insert(place, CellOutputs::default());
    }

    /// Takes the content of a message about the cell that runs.
    pub(crate) fn add(&mut self, kind: &str, content: &Value) {
        if kind == "clear_output" {
            match content["wait"].as_bool() {
                Some(true) => self.clear_with_next = true,
                _ => self.clear(),
            }
            return;
        }
        let output = match kind {
            "stream" => {
                json!({"output_type": kind, "name": content["name"], "text": content["text"]})
            }
            "display_data" => {
                json!({"output_type": kind, "data": content["data"], "metadata": content["metadata"]})
            }
            "execute_result" => json!({
                "output_type": kind,
                "data": content["data"],
                "metadata": content["metadata"],
                "execution_count": content["execution_count"],
            }),
            "error" => json!({
                "output_type": kind,
                "ename": content["ename"],
                "evalue": content["evalue"],
                "traceback": content["traceback"],
            }),
            "update_display_data" => return self.update(content),
            _ => return,
        };
        if std::mem::take(&mut self.clear_with_next) {
            self.clear();
        }
        let left = MAX_MEMORY.saturating_sub(self.memory());
        let cell = self.by_cell.entry(self.current).or_default();
        let Some(place) = cell.push(output, left) else {
            return;
        };
        if let Some(name) = content["transient"]["display_id"].as_str() {
            let places = self.named.entry(name.to_owned()).or_default();
            places.push((self.current, place));
        }
    }

    /// The outputs of each cell that was run, by its place.
    pub(crate) fn into_cells(self) -> impl Iterator<Item = (usize, Vec<Value>)> {
        let cells = self.by_cell.into_iter();
        cells.map(|(place, cell)| (place, cell.finish()))
    }

    fn memory(&self) -> usize {
        self.by_cell.values().map(|cell| cell.memory).sum()
    }

    fn update(&mut self, content: &Value) {
        let left = MAX_MEMORY.saturating_sub(self.memory());
        let name = content["transient"]["display_id"].as_str();
        let places = name.and_then(|name| self.named.get(name));
        for (cell, place) in places.into_iter().flatten() {
            if let Some(cell) = self.by_cell.get_mut(cell) {
                cell.update(*place, content, left);
            }
        }
    }

    fn clear(&mut self) {
        let current = self.current;
        self.by_cell.insert(current, CellOutputs::default());
        for places in self.named.values_mut() {
            places.retain(|(cell, _)| *cell != current);
        }
    }
}

impl CellOutputs {
    /// Adds an output, and returns its place; `None` where a text was added to the last output, or where there is no memory `left`.
    fn push(&mut self, output: Value, left: usize) -> Option<usize> {
        let memory = memory_of(&output);
        if self.is_cut || memory > left || self.memory + memory > MAX_CELL_MEMORY {
            self.is_cut = true;
            return None;
        }
        self.memory += memory;
        if let Some(last) = self.outputs.last_mut()
            && is_same_stream(last, &output)
            && let (Value::String(text), Some(more)) = (&mut last["text"], output["text"].as_str())
        {
            text.push_str(more);
            return None;
        }
        self.outputs.push(output);
        Some(self.outputs.len() - 1)
    }

    /// Replaces what a display shows. One that takes more memory than there is stays as it was.
    fn update(&mut self, place: usize, content: &Value, left: usize) {
        let Some(output) = self.outputs.get_mut(place) else {
            return;
        };
        let old = memory_of(&output["data"]) + memory_of(&output["metadata"]);
        let new = memory_of(&content["data"]) + memory_of(&content["metadata"]);
        let more = new.saturating_sub(old);
        if more > left || self.memory + more > MAX_CELL_MEMORY {
            self.is_cut = true;
            return;
        }
        self.memory = self.memory + new - old;
        output["data"] = content["data"].clone();
        output["metadata"] = content["metadata"].clone();
    }

    fn finish(mut self) -> Vec<Value> {
        if self.is_cut {
            let text = "Cellblock: this cell had more output, which is left out of the notebook\n";
            let note = json!({"output_type": "stream", "name": "stderr", "text": text});
            self.outputs.push(note);
        }
        self.outputs
    }
}

/// Whether both outputs are text of the same stream.
fn is_same_stream(one: &Value, other: &Value) -> bool {
    let is_stream = |output: &Value| output["output_type"] == "stream";
    is_stream(one) && is_stream(other) && one["name"] == other["name"]
}

/// About how many bytes a value takes.
fn memory_of(value: &Value) -> usize {
    /// A key with its value takes so much beside both.
    const ENTRY_BYTES: usize = 2 * size_of::<Value>();
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(memory_of).sum(),
            Value::Object(entries) => {
                let sizes = entries
                    .iter()
                    .map(|(key, item)| ENTRY_BYTES + key.len() + memory_of(item));
                sizes.sum()
            }
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs_of(outputs: NotebookOutputs, place: usize) -> Vec<Value> {
        let mut cells = outputs.into_cells();
        cells.find(|(found, _)| *found == place).unwrap().1
    }

    #[test]
    fn a_display_is_replaced_where_it_stands() {
        let mut outputs = NotebookOutputs::default();
        let shown = |text: &str| json!({"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": "a"}});
        outputs.begin_cell(0);
        outputs.add("display_data", &shown("one"));
        outputs.begin_cell(3);
        outputs.add("update_display_data", &shown("two"));
        assert_eq!(outputs_of(outputs, 0)[0]["data"]["text/plain"], "two");
    }

    #[test]
    fn texts_of_a_stream_are_one_output() {
        let mut outputs = NotebookOutputs::default();
        outputs.begin_cell(0);
        let text = |text: &str| json!({"name": "stdout", "text": text});
        outputs.add("stream", &text("a"));
        outputs.add("stream", &text("b"));
        outputs.add("clear_output", &json!({"wait": true}));
        outputs.add("stream", &text("c"));
        outputs.add("stream", &text("d"));
        let found = outputs_of(outputs, 0);
        assert_eq!((found.len(), &found[0]["text"]), (1, &json!("cd")));
    }

    #[test]
    fn output_beyond_the_memory_of_a_cell_is_left_out_and_said() {
        let mut outputs = NotebookOutputs::default();
        outputs.begin_cell(0);
        for name in ["stdout", "stderr"].repeat(100) {
            outputs.add(
                "stream",
                &json!({"name": name, "text": "x".repeat(1 << 20)}),
            );
        }
        outputs.begin_cell(1);
        outputs.add("stream", &json!({"name": "stdout", "text": "next"}));
        let cells: Vec<Vec<Value>> = outputs.into_cells().map(|(_, cell)| cell).collect();
        let bytes: usize = cells[0].iter().map(memory_of).sum();
        assert!((MAX_CELL_MEMORY - (2 << 20)..=MAX_CELL_MEMORY + 1024).contains(&bytes));
        let last = cells[0].last().unwrap()["text"].as_str().unwrap();
        assert!(last.contains("which is left out"), "{last}");
        assert_eq!(cells[1].len(), 1);
    }

    #[test]
    fn small_json_counts_as_what_it_takes() {
        let mut outputs = NotebookOutputs::default();
        outputs.begin_cell(0);
        let values: Vec<Value> = (0..24_000).map(|_| json!({"": 0})).collect();
        let shown = json!({"data": {"application/json": values}, "metadata": {}, "transient": {}});
        for _ in 0..30 {
            outputs.add("display_data", &shown);
        }
        assert!(outputs_of(outputs, 0).len() < 20);
    }
}
