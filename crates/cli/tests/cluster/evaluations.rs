//! `cellblock eval --cluster`: suites whose tasks are runs of the queue.

use crate::fake_model::{FakeModel, Said};
use crate::support::{Node, cellblock};
use crate::with_nodes;
use cellblock::agent::{Agent, CancellationToken, Format};
use cellblock::model::ModelChoice;
use cellblock::{Host, PythonChoice};
use cellblock_cluster::{Runtime, TokioRuntime, embedded};
use cellblock_server::{AgentSetup, Authentication, ClusterOptions, Server, ServerOptions};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long an evaluation may take on a busy machine.
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(240);

/// Tasks with everything that a task can have.
const SUITE: &str = r#"
name = "whole"

[[tasks]]
name = "sum"
question = "What is the sum of the numbers in n.txt?"
files = ["data/n.txt"]
checks = [{ check = "number", value = 6 }, { check = "printed", text = "6" }]

[[tasks]]
name = "backwards"
question = "Hand in the secret backwards."
secret = "NcS9euQa"
tools = ["get_secret", "provide_answer"]
checks = [{ check = "called", tool = "provide_answer", arguments = { answer = "aQue9ScN" } }]

[[tasks]]
name = "write"
question = "Write a file."
checks = [{ check = "file", path = "out/made here.txt", contains = "made" }]

[[tasks]]
name = "typed"
question = "Give a total."
schema = { type = "object", required = ["total"], properties = { total = { type = "number" } } }
checks = [{ check = "json", value = { total = 7.5 } }]

[[tasks]]
name = "wrong"
question = "Guess."
checks = [{ check = "exact", answer = "right" }]

[files]
"data/n.txt" = "1 2 3"
"#;

/// What the model says to each question, one reply after the other.
const REPLIES: [(&str, &[&str]); 5] = [
    (
        "What is the sum",
        &[
            "```python\nprint(sum(map(int, open('data/n.txt').read().split())))\n```",
            "6",
        ],
    ),
    (
        "Hand in the secret",
        &[
            "```python\nprovide_answer(get_secret()[::-1])\n```",
            "```python\nnone_such\n```",
            "done",
        ],
    ),
    (
        "Write a file",
        &[
            "```python\nimport os\nos.mkdir('out')\nopen('out/made here.txt', 'w').write('made')\n```",
            "It is there.",
        ],
    ),
    ("Give a total", &["none", "{\"total\": 7.5}"]),
    ("Guess", &["wrong"]),
];

fn texts_of(request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages
        .map(|message| (message["role"].to_string(), message["content"].to_string()))
        .collect()
}

fn replies_in(request: &Value) -> usize {
    let texts = texts_of(request);
    texts
        .iter()
        .filter(|(role, _)| role == "\"assistant\"")
        .count()
}

/// A model that gives these replies. Where runs wait for each other, it begins to answer when it was asked about two of them.
fn model(waiting: &Arc<RunsThatWait>) -> FakeModel {
    let waiting = Arc::clone(waiting);
    FakeModel::by(move |request| {
        let texts = texts_of(request);
        let asked = |question: &str| texts.iter().any(|(_, text)| text.contains(question));
        let (_, replies) = REPLIES
            .iter()
            .find(|(question, _)| asked(question))
            .unwrap();
        let number = replies_in(request);
        let reply = replies[number.min(replies.len() - 1)].to_owned();
        if number == 0 {
            waiting.asked.fetch_add(1, Ordering::SeqCst);
        }
        let waiting = Arc::clone(&waiting);
        Said::When(Arc::new(move || waiting.may_go_on()), reply)
    })
}

/// How many runs begin before the first of them goes on.
#[derive(Default)]
struct RunsThatWait {
    needed: AtomicUsize,
    asked: AtomicUsize,
}

impl RunsThatWait {
    /// From now on runs wait for each other, until so many have begun.
    fn need(&self, runs: usize) {
        self.asked.store(0, Ordering::SeqCst);
        self.needed.store(runs, Ordering::SeqCst);
    }

    fn may_go_on(&self) -> bool {
        self.asked.load(Ordering::SeqCst) >= self.needed.load(Ordering::SeqCst)
    }
}

/// A node in this process, over an engine in memory.
struct LocalNode {
    url: String,
    stop: CancellationToken,
    _data: TempDir,
}

impl LocalNode {
    async fn start(cluster: &LocalCluster, name: &str, slots: u32) -> LocalNode {
        let data = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let choice = ModelChoice {
            model: Some("fake".to_owned()),
            base_url: Some(cluster.model.clone()),
            ..ModelChoice::default()
        };
        let model = choice.open(|_| Some("of-a-test".to_owned())).unwrap();
        let builder = Agent::builder().format(Format::Markdown);
        let mut options = ServerOptions::new(data.path().join("data"));
        options.authentication = Authentication::Off;
        options.agent = Some(AgentSetup::new(model).builder(builder));
        let (engine, clock) = (cluster.engine.clone(), cluster.clock.clone());
        let mut node = ClusterOptions::new(engine, clock, name, url.clone()).unwrap();
        node.run_slots = slots;
        options.cluster = Some(node);
        let dirs = cellblock::env::Dirs {
            state: data.path().join("state"),
            ..cellblock::env::Dirs::from_process().unwrap()
        };
        let host = Host::builder().python(PythonChoice::StandardLibrary);
        let host = host.dirs(dirs).build().unwrap();
        let server = Server::open(host, options).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn({
            let stop = stop.clone();
            async move { server.serve(listener, stop).await }
        });
        LocalNode {
            url,
            stop,
            _data: data,
        }
    }

    async fn runs(&self) -> Vec<Value> {
        let request = reqwest::Client::new().get(format!("{}/v1/runs", self.url));
        let text = request.header("x-cellblock", "1").send().await.unwrap();
        let text = text.text().await.unwrap();
        let listed: Value = serde_json::from_str(&text).unwrap();
        listed["runs"].as_array().unwrap().clone()
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct LocalCluster {
    engine: cellblock_cluster::engine::Engine,
    clock: TokioRuntime,
    model: String,
}

impl LocalCluster {
    fn new(model: &FakeModel) -> LocalCluster {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = TokioRuntime::new();
        let runtime: Arc<dyn Runtime> = Arc::new(clock.clone());
        LocalCluster {
            engine: embedded::in_memory(&runtime, Duration::from_secs(60)),
            clock,
            model: model.url.clone(),
        }
    }
}

/// Begins an evaluation of this suite.
fn begin(place: &Path, suite: &str, arguments: &[&str]) -> Child {
    std::fs::write(place.join("suite.toml"), suite).unwrap();
    let mut command = cellblock();
    command.args(["eval", "suite.toml"]).args(arguments);
    command.args(["--json", "results.json"]).current_dir(place);
    command.env("CELLBLOCK_API_KEY", "of-a-test");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of an evaluation. Returns its status, what it said, and its results without what differs from time to time.
async fn ended(child: Child, place: &Path) -> (Option<i32>, String, Value) {
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap());
    let output = tokio::time::timeout(EVALUATION_TIMEOUT, output).await;
    let output = output.expect("the evaluation ends").unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let results = std::fs::read_to_string(place.join("results.json"));
    let mut results: Value = serde_json::from_str(&results.unwrap_or_default()).unwrap_or_default();
    let mut forget = |pointer: &str| {
        if let Some(value) = results.pointer_mut(pointer) {
            value.take();
        }
    };
    forget("/date");
    forget("/totals/ms");
    for number in 0..20 {
        forget(&format!("/tasks/{number}/ms"));
    }
    (output.status.code(), said, results)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

#[test]
fn an_evaluation_on_a_cluster_gives_the_report_of_one_machine() {
    runtime().block_on(async {
        let waiting = Arc::new(RunsThatWait::default());
        let model = model(&waiting);
        let cluster = LocalCluster::new(&model);
        // Each works on one run at a time.
        let nodes = [
            LocalNode::start(&cluster, "a", 1).await,
            LocalNode::start(&cluster, "b", 1).await,
        ];
        let place = tempfile::tempdir().unwrap();
        let here = ["--stdlib", "--model", "fake", "--format", "markdown"];
        let here = [&here[..], &["--base-url", &model.url]].concat();
        let (status, said, expected) = ended(begin(place.path(), SUITE, &here), place.path()).await;
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(expected["totals"]["passed"], 4, "{expected:#}");
        // The first run goes on when another node has begun a second one.
        waiting.need(nodes.len());
        // The first address is of no node: the next one is asked.
        let urls = format!("http://127.0.0.1:9,{}", nodes[0].url);
        let there = ["--cluster", &urls, "--jobs", "5", "--out", "out"];
        let (status, said, results) = ended(begin(place.path(), SUITE, &there), place.path()).await;
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(results, expected, "{said}");
        let file = place.path().join("out/write/out/made here.txt");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "made");
        // Both nodes took part, and no session is left open.
        for node in &nodes {
            let runs = node.runs().await;
            assert!(!runs.is_empty());
            for run in runs {
                assert_eq!(run["status"], "answered", "{run}");
            }
        }
        let request = reqwest::Client::new().get(format!("{}/v1/sessions", nodes[1].url));
        let sent = request.header("x-cellblock", "1").send().await.unwrap();
        let listed: Value = serde_json::from_str(&sent.text().await.unwrap()).unwrap();
        let sessions = listed["sessions"].as_array().unwrap();
        let open = sessions.iter().filter(|one| one["state"] != "closed");
        assert_eq!(open.count(), 0, "{listed:#}");
    });
}

#[test]
fn ctrl_c_cancels_the_runs_of_an_evaluation() {
    runtime().block_on(async {
        let model = FakeModel::saying(["```python\nimport time; time.sleep(60)\n```"]);
        let cluster = LocalCluster::new(&model);
        let node = LocalNode::start(&cluster, "a", 1).await;
        let place = tempfile::tempdir().unwrap();
        let arguments = ["--cluster", &node.url, "--jobs", "3"];
        let child = begin(place.path(), SUITE, &arguments);
        let begun = Instant::now();
        // One run works, two wait.
        while node.runs().await.len() < 3 || model.asked().is_empty() {
            assert!(begun.elapsed() < EVALUATION_TIMEOUT);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let kill = std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let (status, said, results) = ended(child, place.path()).await;
        assert_eq!(status, Some(130), "{said}");
        assert_eq!(results["complete"], false);
        let cancelled = |task: &&Value| task["status"] == "cancelled";
        let tasks = results["tasks"].as_array().unwrap();
        assert_eq!(tasks.iter().filter(cancelled).count(), 3, "{results:#}");
        for run in node.runs().await {
            assert_eq!(run["status"], "cancelled", "{run}");
        }
    });
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_runs() {
    runtime().block_on(async {
        let model = model(&Arc::default());
        let cluster = LocalCluster::new(&model);
        let node = LocalNode::start(&cluster, "a", 1).await;
        let place = tempfile::tempdir().unwrap();
        let url = node.url.as_str();
        let long = format!(
            "name = \"long\"\n[[tasks]]\nname = \"much\"\nquestion = \"{}\"\n\
             checks = [{{ check = \"exact\", answer = \"x\" }}]\n",
            "x".repeat((1 << 20) + 1)
        );
        for (suite, arguments, words) in [
            (
                SUITE,
                ["--cluster", url, "--model", "other"],
                "--model other: the nodes do not have it",
            ),
            (
                SUITE,
                ["--cluster", url, "--replay", "tapes"],
                "'--cluster <URLS>' cannot be used with '--replay <DIR>'",
            ),
            (
                SUITE,
                ["--cluster", url, "--format", "json"],
                "cannot be used with",
            ),
            (
                SUITE,
                ["--cluster", "nats://127.0.0.1:4222", "--jobs", "2"],
                "this is no http:// or https:// address",
            ),
            (
                SUITE,
                ["--cluster", "http://a:b@127.0.0.1:1", "--jobs", "2"],
                "an address with a password",
            ),
            (
                SUITE,
                ["--cluster", "http://127.0.0.1:9", "--jobs", "2"],
                "http://127.0.0.1:9/: Connection refused",
            ),
            (
                &long,
                ["--cluster", url, "--jobs", "2"],
                "task `much`: a run of a cluster takes",
            ),
        ] {
            let (status, said, _) =
                ended(begin(place.path(), suite, &arguments), place.path()).await;
            assert!(said.contains(words), "{arguments:?}: {said}");
            assert!(matches!(status, Some(2 | 3)), "{arguments:?}: {said}");
        }
        assert!(node.runs().await.is_empty());
        assert!(model.asked().is_empty());
    });
}

#[test]
fn a_killed_node_costs_no_task_and_no_reply_twice() {
    let cells = 3;
    let model = FakeModel::by(move |request| {
        let number = replies_in(request);
        Said::Text(match number < cells {
            true => format!(
                "```python\nimport time\ntime.sleep(0.7)\nn = globals().get('n', 0) + 1\nprint('{number} of', n)\n```"
            ),
            false => "done".to_owned(),
        })
    });
    let mut suite = "name = \"many\"\n".to_owned();
    for number in 0..9 {
        let _ = write!(
            suite,
            "[[tasks]]\nname = \"t{number}\"\nquestion = \"Question {number}.\"\n\
             checks = [{{ check = \"printed\", text = \"2 of 3\" }}]\n"
        );
    }
    let url = model.url.as_str();
    let arguments = ["--model", "fake", "--base-url", url, "--format", "markdown"];
    let arguments = [&arguments[..], &["--node-runs", "2"]].concat();
    with_nodes(&arguments, async |_, mut nodes| {
        let place = tempfile::tempdir().unwrap();
        let urls: Vec<&str> = nodes.iter().map(|node| node.url.as_str()).collect();
        let urls = urls.join(",");
        let child = begin(place.path(), &suite, &["--cluster", &urls, "--jobs", "9"]);
        // The node that is asked first goes, while it works.
        let begun = Instant::now();
        while works(&nodes[1], &nodes[0].id).await == 0 || model.asked().len() < 4 {
            assert!(begun.elapsed() < EVALUATION_TIMEOUT);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let killed = nodes.remove(0);
        killed.signal("-KILL");
        drop(killed);
        let (status, said, results) = ended(child, place.path()).await;
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(results["totals"]["passed"], 9, "{results:#}");
        for task in results["tasks"].as_array().unwrap() {
            assert_eq!(task["steps"], cells, "{task}");
        }
        // Each reply was asked for once. One that was under way when its node was lost may be asked for again.
        let mut questions: Vec<(String, usize)> = Vec::new();
        for request in model.asked() {
            let texts = texts_of(&request);
            let question = texts.iter().find(|(_, text)| text.contains("Question "));
            questions.push((question.unwrap().1.clone(), replies_in(&request)));
        }
        let asked = questions.len();
        questions.sort();
        questions.dedup();
        assert_eq!(questions.len(), 9 * (cells + 1));
        assert!(asked - questions.len() <= 2, "{asked}");
    });
}

/// How many runs a node works on, as another one lists them.
async fn works(through: &Node, node: &str) -> usize {
    let listed = through.good("GET", "/v1/runs", None).await;
    let runs = listed["runs"].as_array().unwrap();
    runs.iter().filter(|run| run["node"] == json!(node)).count()
}
