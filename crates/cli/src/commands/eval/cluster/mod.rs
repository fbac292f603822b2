//! Tasks as runs of a cluster's queue: any node takes a question, any node answers it.

mod follow;
mod nodes;

use super::EvalArgs;
use crate::failure::{CannotStart, Usage};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::agent::{BoxFuture, CancellationToken, RunBudget, RunEvent, RunStatus};
use cellblock::eval::{RemoteQuestion, RemoteRun, RemoteRunner, RunEnding, Suite, Task, TaskTools};
use follow::ToolAnswers;
use nodes::{NodeRequest, Nodes, TOKEN_VARIABLE};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The longest question that a server takes, without and with its files.
const MAX_TEXT_BYTES: usize = 1 << 20;
const MAX_REQUEST_BYTES: usize = 12 << 20;
/// How long it may take to tell the nodes that a run is cancelled. A run that is not told goes on.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long runs are waited for after Ctrl-C.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// Runs tasks in the queue of a cluster.
pub(super) struct ClusterRunner {
    nodes: Nodes,
    /// The beginning of all idempotency keys: the key of this evaluation and the name of the suite.
    key: String,
    model: Option<String>,
    budget: RunBudget,
}

impl ClusterRunner {
    /// Reaches the cluster. What can be found out before anything runs is found out now.
    pub(super) async fn connect(args: &EvalArgs, suite: &Suite) -> anyhow::Result<ClusterRunner> {
        let nodes = Nodes::new(&args.cluster)?;
        let runner = ClusterRunner {
            nodes,
            key: format!(
                "eval-{:016x}-{}",
                RandomState::new().hash_one(0),
                suite.name
            ),
            model: args.model.model.clone(),
            budget: args.agent.budget(),
        };
        for task in &suite.tasks {
            runner.check_size(task)?;
        }
        let unreachable = |problem: String| {
            CannotStart::hinted(
                format!("--cluster {problem}"),
                "give the address of a node that runs; several, separated by commas, where nodes may be lost",
            )
        };
        let asked = NodeRequest::get(["v1", "server"]);
        let server = runner.nodes.send_once(&asked).await.map_err(unreachable)?;
        if server.json()["is_cluster"] != true {
            return Err(Usage::hinted(
                "--cluster: this server is alone, and has no queue of runs",
                "its operator can start it with `cellblock serve --cluster`; without --cluster the tasks run on this machine",
            ));
        }
        runner.check_model().await?;
        Ok(runner)
    }

    /// Refuses a task that is too large for a request, before anything runs.
    fn check_size(&self, task: &Task) -> anyhow::Result<()> {
        let files = task
            .files
            .iter()
            .map(|file| file.contents.len())
            .sum::<usize>();
        // Base64 has four letters for three bytes.
        let all = task.question.len() + files / 3 * 4;
        if task.question.len() <= MAX_TEXT_BYTES && all < MAX_REQUEST_BYTES {
            return Ok(());
        }
        Err(Usage::plain(format!(
            "--cluster: task `{}`: a run of a cluster takes a question of 1 MiB, and 12 MiB with its files in base64",
            task.name
        )))
    }

    /// Refuses a caller without access and a model that the nodes do not have.
    async fn check_model(&self) -> anyhow::Result<()> {
        let listed = self
            .nodes
            .send_once(&NodeRequest::get(["v1", "models"]))
            .await;
        let listed = listed.map_err(|problem| Usage::plain(format!("--cluster {problem}")))?;
        let listed = listed.good().map_err(|problem| {
            Usage::hinted(
                format!("--cluster: the node refuses to answer: {problem}"),
                format!("put a token of the server into {TOKEN_VARIABLE}"),
            )
        })?;
        let models = listed["data"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = models.iter().filter_map(|one| one["id"].as_str()).collect();
        match &self.model {
            _ if names.is_empty() => Err(Usage::hinted(
                "--cluster: the nodes have no model",
                "their operator names one with `cellblock serve --model`",
            )),
            Some(model) if !names.contains(&model.as_str()) => Err(Usage::hinted(
                format!("--model {model}: the nodes do not have it"),
                format!("their models are: {}", names.join(", ")),
            )),
            _ => Ok(()),
        }
    }

    async fn run_task(
        &self,
        question: RemoteQuestion<'_>,
        cancel: &CancellationToken,
    ) -> Result<RemoteRun, String> {
        let submitted = self.submit(question);
        let Some(id) = until_cancelled(cancel, submitted).await.transpose()? else {
            return Ok(RemoteRun {
                model: self.model.clone().unwrap_or_default(),
                ending: RunEnding::of(RunStatus::Cancelled),
                events: Vec::new(),
                files: BTreeMap::new(),
            });
        };
        let mut answers = ToolAnswers::new(question.tools);
        let ended = tokio::select! {
            ended = self.follow(&id, &mut answers) => Some(ended?),
            () = cancel.cancelled() => None,
        };
        let run = match ended {
            Some(run) => run,
            None => self.cancel(&id, &mut answers).await?,
        };
        let gathered = until_cancelled(cancel, self.gather(question, &id, &run)).await;
        gathered.unwrap_or_else(|| Err("it was cancelled before its result was read".to_owned()))
    }

    /// Puts the question of a task into the queue, and returns the id of its run. The key makes one run of it, however often it is sent.
    async fn submit(&self, question: RemoteQuestion<'_>) -> Result<String, String> {
        let RemoteQuestion { task, attempt, .. } = question;
        let key = format!("{}-{}-{attempt}", self.key, task.name);
        let body = self.question_json(task, question.tools);
        let request = NodeRequest::post(["v1", "runs"]).body(&body).key(&key);
        let run = self.nodes.send(&request).await?.good()?;
        let id = run["id"].as_str();
        id.map(str::to_owned)
            .ok_or_else(|| "the node gave the run no id".to_owned())
    }

    fn question_json(&self, task: &Task, tools: &TaskTools) -> Value {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        };
        let files = task
            .files
            .iter()
            .map(|file| json!({"path": file.path, "base64": STANDARD.encode(&file.contents)}));
        let tools = tools.definitions().into_iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        });
        add("text", Some(json!(task.question)));
        add("model", self.model.as_ref().map(|model| json!(model)));
        add("schema", task.schema.clone());
        add("files", (!task.files.is_empty()).then(|| files.collect()));
        add("tools", (!task.tools.is_empty()).then(|| tools.collect()));
        let RunBudget {
            steps,
            time,
            tokens,
            cost,
        } = self.budget;
        add("max_steps", steps.map(|steps| json!(steps)));
        add("max_time", time.map(|time| json!(time.as_secs_f64())));
        add("max_tokens", tokens.map(|tokens| json!(tokens)));
        add("max_cost", cost.map(|cost| json!(cost)));
        Value::Object(fields)
    }

    /// Ends a run, and waits a little for its end.
    async fn cancel(&self, id: &str, answers: &mut ToolAnswers<'_>) -> Result<Value, String> {
        let cancel = NodeRequest::post(["v1", "runs", id, "cancel"]);
        let cancelled = tokio::time::timeout(CANCEL_TIMEOUT, self.nodes.send(&cancel)).await;
        cancelled.map_err(|_| format!("the run {id} could not be cancelled in time"))??;
        let ended = tokio::time::timeout(CANCEL_GRACE, self.follow(id, answers)).await;
        ended.unwrap_or_else(|_| Err("the run was cancelled, and did not end in time".to_owned()))
    }

    /// What a run that has ended left behind. Its session is closed then.
    async fn gather(
        &self,
        question: RemoteQuestion<'_>,
        id: &str,
        run: &Value,
    ) -> Result<RemoteRun, String> {
        let record = NodeRequest::get(["v1", "runs", id, "record"]);
        let record = self.nodes.send(&record).await?.good();
        let mut files = BTreeMap::new();
        if let Some(session) = run["session"].as_str() {
            for path in question.checked_files() {
                let parts = ["v1", "sessions", session, "files"];
                let file = NodeRequest::get(parts.into_iter().chain(path.split('/')));
                let file = self.nodes.send(&file).await?;
                // A file that is not there fails its check.
                if file.status == 200 {
                    files.insert(path.to_owned(), file.body);
                }
            }
            // A session that stays open is closed by the limits of its server.
            let session = NodeRequest::delete(["v1", "sessions", session]);
            let _ = self.nodes.send_once(&session).await;
        }
        let mut record = record?;
        let outcome = record["outcome"].take();
        let ending = serde_json::from_value::<RunEnding>(outcome.clone()).map_err(|_| {
            let message = outcome["message"].as_str();
            let status = run["status"].as_str().unwrap_or("unknown");
            message.map_or_else(|| format!("the run ended: {status}"), str::to_owned)
        })?;
        let events = record["events"].as_array_mut().map(std::mem::take);
        let events = events.unwrap_or_default().into_iter();
        let event = |mut stored: Value| serde_json::from_value(stored["event"].take()).ok();
        Ok(RemoteRun {
            model: run["model"].as_str().unwrap_or_default().to_owned(),
            ending,
            events: events.filter_map(event).collect::<Vec<RunEvent>>(),
            files,
        })
    }
}

impl RemoteRunner for ClusterRunner {
    fn run<'a>(
        &'a self,
        question: RemoteQuestion<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<RemoteRun, String>> {
        Box::pin(self.run_task(question, cancel))
    }
}

/// Waits for something, but not for long after a cancellation. `None`: it was not done by then.
async fn until_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Option<T> {
    let late = async {
        cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = late => None,
    }
}
