//! Following a run to its end: it waits in the queue, calls tools of its task, loses its node and goes on elsewhere.

use super::ClusterRunner;
use super::nodes::NodeRequest;
use cellblock::eval::TaskTools;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How often a run is looked at: the shortest and the longest time between two looks.
const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(3);
/// How much longer a run that waits is left alone for each run before it, and the longest time.
const PAUSE_PER_RUN: Duration = Duration::from_millis(50);
const MAX_WAITING_PAUSE: Duration = Duration::from_secs(15);
/// How long a stream of events may be silent. Servers show every 15 seconds that they live.
const MAX_SILENCE: Duration = Duration::from_secs(40);

/// The answers to the calls of a task's tools, by the id of the call. A call that is told twice is answered twice and made once.
pub(super) struct ToolAnswers<'a> {
    tools: &'a TaskTools,
    given: HashMap<String, Value>,
}

impl<'a> ToolAnswers<'a> {
    pub(super) fn new(tools: &'a TaskTools) -> ToolAnswers<'a> {
        ToolAnswers {
            tools,
            given: HashMap::new(),
        }
    }

    /// The body of the answer to a call.
    fn answer(&mut self, call: &Value) -> Value {
        let id = call["call"].as_str().unwrap_or_default();
        let tools = self.tools;
        let answer = self.given.entry(id.to_owned()).or_insert_with(|| {
            let arguments = call["arguments"].as_object().cloned();
            let name = call["name"].as_str().unwrap_or_default();
            match tools.answer(name, arguments.unwrap_or_default()) {
                Ok(result) => json!({"call": id, "result": result}),
                Err(error) => json!({"call": id, "error": error}),
            }
        });
        answer.clone()
    }
}

impl ClusterRunner {
    /// Waits until a run has ended, and returns its description.
    pub(super) async fn follow(
        &self,
        id: &str,
        answers: &mut ToolAnswers<'_>,
    ) -> Result<Value, String> {
        let mut pause = MIN_PAUSE;
        loop {
            let described = NodeRequest::get(["v1", "runs", id]);
            let run = self.nodes.send(&described).await?.good()?;
            match run["status"].as_str() {
                Some("waiting") => pause = waiting_pause(&run),
                Some("running" | "cut_off") => match self.read_events(id, answers).await {
                    Ok(()) => pause = MIN_PAUSE,
                    Err(()) => pause = (pause * 2).min(MAX_PAUSE),
                },
                _ => return Ok(run),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads the events of a run until their stream ends, and answers what the run asks. The error: there was no stream.
    async fn read_events(&self, id: &str, answers: &mut ToolAnswers<'_>) -> Result<(), ()> {
        let path = ["v1", "runs", id, "events"];
        let opened = self.nodes.stream(&NodeRequest::get(path)).await;
        let mut stream = opened.map_err(drop)?;
        let mut events = EventLines::default();
        loop {
            let chunk = match tokio::time::timeout(MAX_SILENCE, stream.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(()),
                // The node is lost, or the one that it reads from.
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    self.nodes.leave_current();
                    return Ok(());
                }
            };
            for (name, data) in events.read(&chunk) {
                self.answer(id, &name, &data, answers).await;
                if name == "outcome" {
                    return Ok(());
                }
            }
        }
    }

    /// Answers an event that asks something. An answer that is not taken is of a call that waits no longer.
    async fn answer(&self, id: &str, name: &str, data: &Value, answers: &mut ToolAnswers<'_>) {
        match name {
            "tool_call" => {
                let body = answers.answer(data);
                let path = ["v1", "runs", id, "tool_result"];
                let _ = self.nodes.send(&NodeRequest::post(path).body(&body)).await;
            }
            // As without a terminal on one machine: no person can be asked.
            "approval" => {
                let approval = data["approval"].as_str().unwrap_or_default();
                let body = json!({"decision": "reject", "text": "no person can be asked in an evaluation"});
                let path = ["v1", "runs", id, "approvals", approval];
                let _ = self.nodes.send(&NodeRequest::post(path).body(&body)).await;
            }
            _ => {}
        }
    }
}

/// How long a run that waits is left alone: the farther back in the queue, the longer.
fn waiting_pause(run: &Value) -> Duration {
    let told = run["wait"]["seconds"].as_u64().unwrap_or(0);
    let ahead = run["wait"]["ahead"].as_u64().unwrap_or(0);
    let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
    let pause = PAUSE_PER_RUN
        .saturating_mul(ahead)
        .max(Duration::from_secs(told) / 4);
    pause.clamp(MIN_PAUSE, MAX_WAITING_PAUSE)
}

/// Server-sent events, out of the pieces in which they come.
#[derive(Default)]
struct EventLines {
    unread: Vec<u8>,
    name: String,
    data: String,
}

impl EventLines {
    /// The events that are whole now, with their names.
    fn read(&mut self, chunk: &[u8]) -> Vec<(String, Value)> {
        self.unread.extend_from_slice(chunk);
        let mut events = Vec::new();
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else {
            return events;
        };
        let rest = self.unread.split_off(end + 1);
        let whole = std::mem::replace(&mut self.unread, rest);
        for line in String::from_utf8_lossy(&whole).lines() {
            if let Some(name) = line.strip_prefix("event:") {
                self.name = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if line.is_empty() {
                let (name, data) = (
                    std::mem::take(&mut self.name),
                    std::mem::take(&mut self.data),
                );
                if let Ok(data) = serde_json::from_str(&data) {
                    events.push((name, data));
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::{EventLines, waiting_pause};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn the_farther_back_a_run_waits_the_less_often_it_is_looked_at() {
        for (ahead, seconds, pause) in [
            (0, json!(0), 200),
            (20, json!(null), 1_000),
            (20, json!(40), 10_000),
            (5_000, json!(9_000), 15_000),
        ] {
            let run = json!({"wait": {"ahead": ahead, "seconds": seconds}});
            assert_eq!(waiting_pause(&run), Duration::from_millis(pause), "{run}");
        }
    }

    #[test]
    fn events_are_read_in_any_pieces() {
        let text = "id: 1\nevent: tool_call\ndata: {\"call\": \"ä\"}\n\n: alive\n\nevent: outcome\ndata: {}\n\n";
        let expected = vec![
            ("tool_call".to_owned(), json!({"call": "ä"})),
            ("outcome".to_owned(), json!({})),
        ];
        for size in [1, 2, 7, 1000] {
            let mut lines = EventLines::default();
            let chunks = text.as_bytes().chunks(size);
            let read: Vec<_> = chunks.flat_map(|chunk| lines.read(chunk)).collect();
            assert_eq!(read, expected, "{size}");
        }
    }
}
