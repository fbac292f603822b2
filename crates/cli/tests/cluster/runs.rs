//! Runs of the agent that any node takes. The model says what the number of replies in its request calls for.

use crate::fake_model::{FakeModel, Said};
use crate::support::{LEASE, Node};
use crate::with_nodes;
use cellblock_test_support::is_long;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a run may take on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);

/// How long a run that lost its node may take to get on, with the replay of its cells.
const KILL_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a cell of a run that is to be killed takes: long enough to be hit while it runs. Each node that takes the run runs all cells
/// before it once more.
const CELL_SECONDS: f64 = 0.3;

/// A model that asks for so many cells, each of which adds its number to a list and takes some time, and then answers.
fn counting_model(cells: usize, seconds: f64) -> FakeModel {
    FakeModel::by(move |request| {
        let number = replies_in(request);
        Said::Text(match number < cells {
            true => format!(
                "Next.\n```python\nimport time\nseen = globals().get('seen', []) + [{number}]\ntime.sleep({seconds})\nseen\n```"
            ),
            false => format!("There are {cells}."),
        })
    })
}

fn replies_in(request: &Value) -> usize {
    let messages = request["messages"].as_array().unwrap();
    let is_reply = |message: &&Value| message["role"] == "assistant";
    messages.iter().filter(is_reply).count()
}

/// How often the model was asked for each reply.
fn asked(model: &FakeModel) -> Vec<usize> {
    let mut counts = Vec::new();
    for request in model.asked() {
        let number = replies_in(&request);
        counts.resize(counts.len().max(number + 1), 0);
        counts[number] += 1;
    }
    counts
}

fn arguments(model: &FakeModel) -> Vec<&str> {
    let url = model.url.as_str();
    vec!["--model", "fake", "--base-url", url, "--format", "markdown"]
}

async fn submit(node: &Node, text: &str, key: Option<&str>) -> (u16, Value) {
    let question = json!({ "text": text });
    let sent = node.send("POST", "/v1/runs", Some(question), key).await;
    sent.unwrap()
}

/// Asks until the run has ended.
async fn ended(node: &Node, id: &str) -> Value {
    let begun = Instant::now();
    loop {
        let run = node.good("GET", &format!("/v1/runs/{id}"), None).await;
        if !matches!(run["status"].as_str(), Some("waiting" | "running")) {
            return run;
        }
        assert!(begun.elapsed() < RUN_TIMEOUT, "{run}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The node that has a run, as this node lists it.
async fn node_of(node: &Node, id: &str) -> Option<String> {
    let listed = node.good("GET", "/v1/runs", None).await;
    let runs = listed["runs"].as_array().unwrap();
    let run = runs.iter().find(|run| run["id"] == id)?;
    run["node"].as_str().map(str::to_owned)
}

/// How many replies of the model a run has recorded.
async fn recorded_replies(node: &Node, id: &str) -> usize {
    let path = format!("/v1/runs/{id}/record");
    let Ok((200, record)) = node.send("GET", &path, None, None).await else {
        return 0;
    };
    let events = record["events"].as_array().unwrap();
    let is_reply = |event: &&Value| event["event"]["event"] == "replied";
    events.iter().filter(is_reply).count()
}

#[test]
fn a_run_whose_nodes_are_killed_answers_once_and_pays_no_reply_twice() {
    let kills = if is_long() { 20 } else { 3 };
    let cells = kills + 2;
    let model = counting_model(cells, CELL_SECONDS);
    let mut arguments = arguments(&model);
    // A run has 20 steps if nothing else is said.
    let steps = (cells + 1).to_string();
    arguments.extend(["--max-steps", &steps]);
    with_nodes(&arguments, async |engine, mut nodes| {
        let (status, run) = submit(&nodes[0], "Count.", Some("count")).await;
        assert_eq!(status, 202, "{run}");
        let id = run["id"].as_str().unwrap();
        for kill in 0..kills {
            let begun = Instant::now();
            // A reply that is in the record is in the journal too.
            let place = loop {
                let through = &nodes[kill % nodes.len()];
                if recorded_replies(through, id).await > kill
                    && let Some(node) = node_of(through, id).await
                    && let Some(place) = nodes.iter().position(|other| other.id == node)
                {
                    break place;
                }
                let path = format!("/v1/runs/{id}");
                let (_, run) = through.send("GET", &path, None, None).await.unwrap();
                let has_ended = run["answer"].is_string() || run["status"] == "error";
                assert!(!has_ended, "ended after {kill} kills: {run}");
                assert!(begun.elapsed() < KILL_TIMEOUT, "{kill} kills: {run}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let killed = nodes.remove(place);
            killed.signal("-KILL");
            let (cluster, name) = (killed.cluster.clone(), format!("again{kill}"));
            drop(killed);
            let lease = LEASE.as_secs();
            let next = Node::start_with(engine, &cluster, &name, lease, &arguments);
            nodes.push(next);
        }
        let run = ended(&nodes[0], id).await;
        assert_eq!(run["status"], "answered", "{run}");
        assert_eq!(run["answer"], format!("There are {cells}."));
        assert_eq!(asked(&model), vec![1; cells + 1]);
        // Every cell is in the session, once.
        let session = run["session"].as_str().unwrap();
        let seen = nodes[1].run(session, "seen").await;
        let expected: Vec<usize> = (0..cells).collect();
        assert_eq!(seen, format!("{expected:?}"));
        // Every node tells the same, and the same key is the same run.
        for node in &nodes {
            let again = ended(node, id).await;
            assert_eq!(
                (&again["id"], &again["answer"]),
                (&run["id"], &run["answer"])
            );
            assert!(recorded_replies(node, id).await > cells);
        }
        let (status, again) = submit(&nodes[1], "Count.", Some("count")).await;
        assert_eq!((status, &again["id"]), (202, &run["id"]), "{again}");
        let (status, other) = submit(&nodes[1], "Something else.", Some("count")).await;
        assert_eq!((status, &other["code"]), (409, &json!("key_reused")));
        assert_eq!(asked(&model), vec![1; cells + 1]);
    });
}

#[test]
fn runs_wait_in_fair_shares_say_how_long_and_are_cancelled_from_anywhere() {
    let model = counting_model(2, 1.0);
    let mut arguments = arguments(&model);
    arguments.extend(["--node-runs", "1", "--quota", "runs=2"]);
    with_nodes(&arguments, async |_, nodes| {
        let mut ids = Vec::new();
        for number in 0..6 {
            let text = format!("Question {number}.");
            let (status, run) = submit(&nodes[number % 3], &text, None).await;
            assert_eq!(status, 202, "{run}");
            ids.push(run["id"].as_str().unwrap().to_owned());
        }
        // The user may have two at a time, so the last one waits; any node says so, and ends it.
        let last = format!("/v1/runs/{}", ids[5]);
        let waiting = nodes[1].good("GET", &last, None).await;
        assert_eq!(waiting["status"], "waiting", "{waiting}");
        assert!(waiting["wait"]["ahead"].as_u64().unwrap() >= 1, "{waiting}");
        nodes[0].good("POST", &format!("{last}/cancel"), None).await;
        assert_eq!(ended(&nodes[2], &ids[5]).await["status"], "cancelled");
        let mut most = 0;
        let begun = Instant::now();
        loop {
            let listed = nodes[0].good("GET", "/v1/runs", None).await;
            let runs = listed["runs"].as_array().unwrap();
            // Rows of runs that have ended here have no node.
            let open = runs.iter().filter(|run| run["deliveries"].is_u64());
            let states: Vec<&str> = open.map(|run| run["status"].as_str().unwrap()).collect();
            most = most.max(states.iter().filter(|state| **state == "running").count());
            if states.is_empty() {
                break;
            }
            assert!(begun.elapsed() < RUN_TIMEOUT, "{listed}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // A third one may be claimed for a moment, before it is given back.
        assert!(most <= 3, "{most}");
        for id in &ids[..5] {
            assert_eq!(ended(&nodes[1], id).await["status"], "answered");
        }
    });
}
