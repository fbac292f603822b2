//! One of everything that a user of the server can have, and the state of all of it.

use crate::common::{Caller, TestServer};
use crate::evaluations::report;
use axum::http::StatusCode;
use cellblock_model::{Reply, ScriptedModel};
use cellblock_server::AgentSetup;
use cellblock_tools::{ApprovalMode, ApprovalPolicy, Registry, ToolRunner};
use serde_json::{Value, json};
use std::sync::Arc;

/// A server with users, a model whose code waits for approval, and MCP.
pub async fn server() -> TestServer {
    TestServer::with(|options| {
        let replies = [Reply::text("```python\nx = 1\n```"), Reply::text("1")];
        let builder = cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown);
        let setup = AgentSetup::new(Arc::new(ScriptedModel::new(replies))).builder(builder);
        options.agent = Some(setup.policy(ApprovalPolicy::mode(ApprovalMode::All)));
        let registry = Registry::builder().built_in().build().expect("tools");
        options.mcp = Some(cellblock_mcp::Server::new(
            cellblock_mcp::Files::None,
            move |_| ToolRunner::builder(registry.clone()).build(),
        ));
    })
    .await
}

/// The administrator, the user who has one of everything, and another user.
pub async fn callers(server: &TestServer) -> [Caller<'_>; 3] {
    let admin = server.admin().await;
    let owner = server.user(&admin, "eve").await;
    let other = server.user(&admin, "bob").await;
    [admin, owner, other]
}

/// A sandbox of the E2B API.
pub struct OwnedSandbox {
    pub id: String,
    pub token: String,
}

/// An id that never existed.
pub const NEVER: &str = "never1";

/// A path of a compatible API with an id of another user, and with an id that never existed.
pub struct CompatibleApiRequest {
    pub id: String,
    pub path: String,
    pub unknown: String,
}

/// Ids of everything that a user has.
pub struct Belongings {
    pub session: String,
    pub process: String,
    pub display: String,
    pub chat: String,
    pub run: String,
    pub approval: String,
    pub token: String,
    pub user: String,
    pub evaluation: String,
    pub shared: String,
    pub sandbox: OwnedSandbox,
    pub paused: OwnedSandbox,
    pub context: String,
    pub snapshot: String,
    pub session_snapshot: String,
    pub kernel: String,
}

impl Belongings {
    pub async fn of(owner: &Caller<'_>) -> Belongings {
        let session = owner.open().await;
        owner
            .run(&session, "x = 1; open('a.txt', 'w').write('a')")
            .await;
        let shown = owner
            .run(
                &session,
                "from cellblock import display\ndisplay({'text/plain': 'x' * 100_000}, raw=True)",
            )
            .await;
        let display = shown
            .to_string()
            .split("displays/")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("00000000000000000000000000000000.txt")
            .to_owned();
        let processes = format!("/v1/sessions/{session}/processes");
        let process = text(
            &made(owner, &processes, json!({"argv": ["sleep", "6000"]})).await,
            "proc",
        );
        let chat = text(&made(owner, "/v1/chats", json!({})).await, "id");
        let asked = owner
            .post(&format!("/v1/chats/{chat}/messages"), json!({"text": "?"}))
            .await;
        let run = text(&asked.json(), "id");
        let approval = approval_of(owner, &run).await;
        let share = made(owner, &format!("/v1/chats/{chat}/share"), json!({})).await;
        let sandbox = sandbox(owner, json!({"templateID": "base"})).await;
        let resuming =
            json!({"templateID": "base", "autoPause": true, "autoResume": {"enabled": true}});
        let paused = self::sandbox(owner, resuming).await;
        let pause = format!("/sandboxes/{}/pause", paused.id);
        let answer = owner.post(&pause, json!({})).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
        let context = sandbox
            .code(owner)
            .post("/contexts", json!({"language": "bash"}))
            .await;
        let snapshots = format!("/sandboxes/{}/snapshots", sandbox.id);
        let operations = format!("/v1/sessions/{session}/operations");
        let frozen = owner.post(&operations, json!({"op": "freeze"})).await;
        Belongings {
            process,
            display,
            approval,
            token: text(&made(owner, "/v1/tokens", json!({"name": "t"})).await, "id"),
            user: text(&owner.get("/v1/me").await.json()["user"], "id"),
            evaluation: Belongings::evaluation(owner).await,
            shared: text(&share, "path").replace("/shared#", ""),
            context: text(&context.json(), "id"),
            snapshot: text(&made(owner, &snapshots, json!({})).await, "snapshotID"),
            session_snapshot: text(&frozen.json()["answer"], "snapshot"),
            kernel: text(
                &made(owner, "/api/kernels", json!({"name": "cellblock"})).await,
                "id",
            ),
            session,
            chat,
            run,
            sandbox,
            paused,
        }
    }

    /// Adds an evaluation and returns its id.
    pub async fn evaluation(owner: &Caller<'_>) -> String {
        text(&made(owner, "/v1/evaluations", report(true)).await, "id")
    }

    /// The parameters of paths in the OpenAPI document, each with the id of the owner and an id that never existed.
    pub fn substitutions(&self) -> Vec<(&'static str, String, &'static str)> {
        vec![
            ("session", self.session.clone(), "s1"),
            ("run", self.run.clone(), "r1"),
            ("chat", self.chat.clone(), "c1"),
            ("token", self.token.clone(), "t1"),
            ("user", self.user.clone(), "u1"),
            ("node", "n1".to_owned(), "n2"),
            ("approval", self.approval.clone(), "a1"),
            ("snapshot", self.session_snapshot.clone(), "snap1"),
            ("process", self.process.clone(), "p77"),
            ("evaluation", self.evaluation.clone(), "e1"),
            ("name", self.display.clone(), "x"),
            ("cell", "1".to_owned(), "1"),
            ("request", "1".to_owned(), "1"),
            ("path", "a.txt".to_owned(), "a.txt"),
        ]
    }

    /// A path of a compatible API with every id of the owner that it can name, and with an id that never existed.
    pub fn in_compatible_api(&self, path: &str) -> Vec<CompatibleApiRequest> {
        let chat_code = format!("cell{}", self.session);
        let ids: Vec<&str> = match path.split('/').find(|part| part.ends_with('s')) {
            _ if path.starts_with("/librechat/") => vec![&chat_code],
            Some("sandboxes") => vec![&self.sandbox.id, &self.paused.id],
            Some("kernels") => vec![&self.kernel],
            Some("templates") => vec![&self.snapshot],
            Some("kernelspecs" | "volumes" | "secrets") => vec![&self.session],
            _ => panic!("which ids does {path} name?"),
        };
        let with = |id: &str| {
            let path = path.replace("{id}", id).replace("{alias}", id);
            let path = path.replace("{name}", id).replace("{*rest}", id);
            assert!(!path.contains('{'), "add a substitution for {path}");
            path
        };
        let requests = ids.iter().map(|id| CompatibleApiRequest {
            id: (*id).to_owned(),
            path: with(id),
            unknown: with(NEVER),
        });
        requests.collect()
    }

    /// Everything that the owner sees of it, without times of last use.
    pub async fn state(&self, owner: &Caller<'_>) -> Vec<(String, Value)> {
        let session = format!("/v1/sessions/{}", self.session);
        let mut state = Vec::new();
        for path in [
            "/v1/sessions".to_owned(),
            "/v1/runs".to_owned(),
            "/v1/chats".to_owned(),
            "/v1/tokens".to_owned(),
            "/v1/evaluations".to_owned(),
            "/v2/sandboxes".to_owned(),
            "/snapshots".to_owned(),
            "/api/kernels".to_owned(),
            session.clone(),
            format!("{session}/vars"),
            format!("{session}/files"),
            format!("{session}/journal"),
            format!("{session}/checkpoints"),
            format!("{session}/processes"),
            format!("/v1/runs/{}", self.run),
            format!("/v1/chats/{}", self.chat),
        ] {
            let answer = owner.get(&path).await;
            assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
            let mut told = answer.json();
            without_times(&mut told);
            state.push((path, told));
        }
        let contexts = self.sandbox.code(owner).get("/contexts").await.json();
        state.push(("contexts".to_owned(), contexts));
        let secret = json!({"secret": self.shared});
        let shared = owner.post("/v1/shared", secret).await;
        state.push(("shared".to_owned(), shared.json()));
        state
    }
}

impl OwnedSandbox {
    /// Asks the code interpreter of the sandbox with its token.
    fn code<'a>(&self, caller: &Caller<'a>) -> Caller<'a> {
        let caller = caller.server.anyone();
        caller
            .with("e2b-sandbox-id", &self.id)
            .with("e2b-sandbox-port", "49999")
            .with("x-access-token", &self.token)
    }
}

/// Creates a sandbox.
pub async fn sandbox(caller: &Caller<'_>, body: Value) -> OwnedSandbox {
    let told = made(caller, "/v2/sandboxes", body).await;
    OwnedSandbox {
        id: text(&told, "sandboxID"),
        token: text(&told, "envdAccessToken"),
    }
}

/// A caller that sends what clients of MCP send.
pub fn mcp_client<'a>(caller: &Caller<'a>) -> Caller<'a> {
    let kinds = "application/json, text/event-stream";
    caller.clone().with("accept", kinds)
}

/// Begins a session of MCP and returns its id.
pub async fn mcp_session(caller: &Caller<'_>) -> String {
    let begin = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let answer = mcp_client(caller).post("/mcp", begin).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let session = answer.header("mcp-session-id").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let client = mcp_client(caller).with("mcp-session-id", &session);
    client.post("/mcp", ready).await;
    session
}

async fn made(caller: &Caller<'_>, path: &str, body: Value) -> Value {
    let answer = caller.post(path, body).await;
    assert_eq!(
        answer.status,
        StatusCode::CREATED,
        "{path}: {}",
        answer.text()
    );
    answer.json()
}

/// Waits until the code of a run waits for approval.
async fn approval_of(owner: &Caller<'_>, run: &str) -> String {
    loop {
        let told = owner.get(&format!("/v1/runs/{run}")).await.json();
        if let Some(id) = told["approvals"][0]["approval"].as_str() {
            return id.to_owned();
        }
        assert_eq!(told["status"], "running", "{told}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn text(value: &Value, field: &str) -> String {
    let text = value[field].as_str();
    text.unwrap_or_else(|| panic!("no {field} in {value}"))
        .to_owned()
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !matches!(name.as_str(), "used_at" | "last_activity"));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}
