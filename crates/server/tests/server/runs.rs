//! Runs and chats with a model that says what a script says.

use crate::common::{Caller, TestServer, ended};
use axum::http::StatusCode;
use cellblock_model::{Reply, ScriptedModel};
use cellblock_server::{AgentSetup, ServerOptions};
use cellblock_tools::{ApprovalMode, ApprovalPolicy};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn scripted(replies: &[&str]) -> AgentSetup {
    AgentSetup::new(Arc::new(ScriptedModel::new(
        replies.iter().map(|text| Reply::text(*text)),
    )))
    .builder(cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown))
}

pub fn with(setup: AgentSetup) -> impl FnOnce(&mut ServerOptions) {
    |options| options.agent = Some(setup)
}

pub async fn ask(caller: &Caller<'_>, chat: &str, text: &str) -> String {
    let answer = caller
        .post(&format!("/v1/chats/{chat}/messages"), json!({"text": text}))
        .await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

pub async fn new_chat(caller: &Caller<'_>) -> String {
    let answer = caller.post("/v1/chats", json!({})).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

const CODE: &str = "I compute.\n```python\nx = 6 * 7\nprint(x)\n```";

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_over_the_session_of_its_chat() {
    let server = TestServer::with(with(scripted(&[
        CODE,
        "It is 42.",
        "```python\nprint(x + 1)\n```",
        "It is 43.",
    ])))
    .await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "What is 6 times 7?").await;
    let told = ended(&admin, &run).await;
    assert_eq!(
        (&told["status"], &told["answer"]),
        (&json!("answered"), &json!("It is 42."))
    );
    let events = admin.get(&format!("/v1/runs/{run}/events")).await.text();
    let names: Vec<&str> = events
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    for expected in [
        "begun", "session", "code", "cell", "done", "answer", "outcome",
    ] {
        assert!(names.contains(&expected), "{expected} in {names:?}");
    }
    let second = ask(&admin, &chat, "And one more?").await;
    assert_eq!(ended(&admin, &second).await["answer"], "It is 43.");
    let told = admin.get(&format!("/v1/chats/{chat}")).await.json();
    assert_eq!(told["title"], "What is 6 times 7?");
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(2));
    let session = told["session"].as_str().expect("a session").to_owned();
    assert_eq!(
        admin.run(&session, "x").await["value"]["repr"],
        "42",
        "a person looks at what the agent did"
    );
    let journal = admin
        .get(&format!("/v1/sessions/{session}/journal"))
        .await
        .json();
    assert_eq!(journal["cells"].as_array().map(Vec::len), Some(3));
    let found = admin.get("/v1/chats?search=6+TIMES").await.json();
    assert_eq!(found["chats"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        admin.get("/v1/chats?search=horse").await.json()["chats"],
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_exported_and_verified() {
    let server = TestServer::with(with(scripted(&[CODE, "It is 42."]))).await;
    let admin = server.admin().await;
    let run = admin.post("/v1/runs", json!({"text": "6 times 7?"})).await;
    assert_eq!(run.status, StatusCode::ACCEPTED, "{}", run.text());
    let run = run.json()["id"].as_str().expect("an id").to_owned();
    ended(&admin, &run).await;
    let export = |kind: &str| format!("/v1/runs/{run}/export?as={kind}");
    let markdown = admin.get(&export("md")).await.text();
    assert!(
        markdown.starts_with("# 6 times 7?\n")
            && markdown.contains("x = 6 * 7")
            && markdown.ends_with("It is 42.\n"),
        "{markdown}"
    );
    assert!(admin.get(&export("py")).await.text().contains("x = 6 * 7"));
    let notebook = admin.get(&export("ipynb")).await;
    assert_eq!(notebook.json()["nbformat"], 4);
    assert_eq!(
        admin.get(&export("exe")).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let verified = admin
        .post(&format!("/v1/runs/{run}/verify"), json!({}))
        .await
        .json();
    assert_eq!(
        (&verified["is_same"], &verified["replayed"]),
        (&json!(true), &json!([1]))
    );
    let record = admin.get(&format!("/v1/runs/{run}/record")).await.json();
    assert!(
        record["events"]
            .as_array()
            .is_some_and(|events| events.len() > 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_person_who_may_change_it() {
    let setup = scripted(&[CODE, "Done."]).policy(ApprovalPolicy::mode(ApprovalMode::All));
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "?").await;
    let approval = loop {
        let told = admin.get(&format!("/v1/runs/{run}")).await.json();
        if let Some(id) = told["approvals"][0]["approval"].as_str() {
            assert_eq!(
                told["approvals"][0]["code"],
                "x = 6 * 7\nprint(x)\n".trim_end(),
                "{told}"
            );
            break (id.to_owned(), told["approvals"][0]["arguments"].clone());
        }
        assert_eq!(told["status"], "running", "{told}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let (id, mut arguments) = approval;
    let path = |id: &str| format!("/v1/runs/{run}/approvals/{id}");
    let wrong = admin.post(&path("a1"), json!({"decision": "accept"})).await;
    assert_eq!(wrong.status, StatusCode::NOT_FOUND);
    let nonsense = admin.post(&path(&id), json!({"decision": "edit"})).await;
    assert_eq!(nonsense.status, StatusCode::UNPROCESSABLE_ENTITY);
    let name = arguments
        .as_object()
        .and_then(|all| {
            all.iter()
                .find(|(_, value)| value.as_str().is_some_and(|text| text.contains("6 * 7")))
        })
        .map(|(name, _)| name.clone())
        .expect("the code");
    arguments[name] = json!("x = 100");
    let edited = admin
        .post(
            &path(&id),
            json!({"decision": "edit", "arguments": arguments}),
        )
        .await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text());
    assert_eq!(ended(&admin, &run).await["answer"], "Done.");
    let session = admin.get(&format!("/v1/chats/{chat}")).await.json()["session"]
        .as_str()
        .expect("a session")
        .to_owned();
    assert_eq!(admin.run(&session, "x").await["value"]["repr"], "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled() {
    let server = TestServer::with(with(scripted(&["```python\nwhile True: pass\n```", "?"]))).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "?").await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(
        admin
            .post(&format!("/v1/runs/{run}/cancel"), json!({}))
            .await
            .status,
        StatusCode::OK
    );
    assert_eq!(ended(&admin, &run).await["status"], "cancelled");
    let again = admin
        .post(&format!("/v1/runs/{run}/cancel"), json!({}))
        .await;
    assert_eq!(again.status, StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_goes_on_after_a_restart() {
    let server = TestServer::with(with(scripted(&[CODE, "It is 42."]))).await;
    let admin = server.admin().await;
    let token = admin.post("/v1/tokens", json!({"name": "t"})).await.json()["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "What is 6 times 7?").await;
    ended(&admin, &run).await;
    let model = Arc::new(ScriptedModel::new([
        Reply::text("```python\nprint(x * 2)\n```"),
        Reply::text("84"),
    ]));
    let setup = AgentSetup::new(Arc::clone(&model) as Arc<dyn cellblock_model::Model>)
        .builder(cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown));
    let server = server.restarted(with(setup)).await;
    let caller = server
        .anyone()
        .with("authorization", &format!("Bearer {token}"));
    let run = ask(&caller, &chat, "And twice that?").await;
    assert_eq!(ended(&caller, &run).await["answer"], "84");
    let requests = format!("{:?}", model.requests());
    assert!(
        requests.contains("What is 6 times 7?") && requests.contains("It is 42."),
        "the model is told what was said"
    );
    assert!(
        requests.contains("84"),
        "the code saw the variable of the session before: {requests}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_chat_goes_its_own_way() {
    let server = TestServer::with(with(scripted(&[CODE, "It is 42."]))).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "6 times 7?").await;
    ended(&admin, &run).await;
    let fork = admin
        .post(&format!("/v1/chats/{chat}/fork"), json!({}))
        .await;
    assert_eq!(fork.status, StatusCode::CREATED, "{}", fork.text());
    let fork = fork.json();
    assert_eq!(fork["parent"], chat.as_str());
    let told = admin
        .get(&format!(
            "/v1/chats/{}",
            fork["id"].as_str().expect("an id")
        ))
        .await
        .json();
    assert_eq!(told["runs"][0]["answer"], "It is 42.");
    let (one, other) = (admin.get(&format!("/v1/chats/{chat}")).await.json(), told);
    let session = |chat: &Value| chat["session"].as_str().expect("a session").to_owned();
    assert_ne!(session(&one), session(&other));
    admin.run(&session(&other), "x = 0").await;
    assert_eq!(admin.run(&session(&one), "x").await["value"]["repr"], "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_model_says_so() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let answer = admin.post("/v1/chats", json!({})).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (StatusCode::CONFLICT, &json!("no_model"))
    );
    assert_eq!(admin.get("/v1/models").await.json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_answers_as_a_model() {
    let server = TestServer::with(with(scripted(&[
        CODE,
        "It is 42.",
        "```python\nprint(x + 1)\n```",
        "43",
    ])))
    .await;
    let admin = server.admin().await;
    let models = admin.get("/v1/models").await.json();
    let model = models["data"][0]["id"]
        .as_str()
        .expect("a model")
        .to_owned();
    let first = json!({"model": model, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 times 7?"}]});
    let answer = admin.post("/v1/chat/completions", first).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["content"], "It is 42.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let reasoning = answer["choices"][0]["message"]["reasoning_content"]
        .as_str()
        .unwrap_or("");
    assert!(reasoning.contains("x = 6 * 7"), "{reasoning}");
    // The next question comes with the whole conversation, and goes on in the same session.
    let second = json!({"model": model, "stream": true, "stream_options": {"include_usage": true}, "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 times 7?"},
        {"role": "assistant", "content": "It is 42."}, {"role": "user", "content": [{"type": "text", "text": "One more?"}]},
    ]});
    let stream = admin.post("/v1/chat/completions", second).await.text();
    let lines: Vec<&str> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    assert_eq!(lines.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> = lines[..lines.len() - 1]
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let content: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(content, "43");
    let reasons: Vec<&str> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["stop"]);
    assert!(
        chunks
            .last()
            .is_some_and(|chunk| chunk["usage"]["total_tokens"].is_u64())
    );
    assert_eq!(
        admin.get("/v1/chats").await.json()["chats"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_questions_are_refused() {
    let server = TestServer::with(with(scripted(&["1"]))).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let path = format!("/v1/chats/{chat}/messages");
    for body in [
        json!({"text": " "}),
        json!({"text": "x".repeat(10 << 20)}),
        json!({"text": "?", "model": "unknown"}),
        json!({}),
    ] {
        let answer = admin.post(&path, body).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{}",
            answer.text()
        );
    }
    let none = admin
        .post("/v1/chat/completions", json!({"messages": []}))
        .await;
    assert_eq!(none.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_ten_megabytes_is_refused_in_words_and_the_server_goes_on() {
    let server = TestServer::with(with(scripted(&[CODE, "It is 42."]))).await;
    let admin = server.admin().await;
    let text = "why ".repeat(10 << 18);
    let message = json!({"messages": [{"role": "user", "content": text}]});
    for (path, body) in [
        ("/v1/runs", json!({"text": text})),
        ("/v1/chat/completions", message),
    ] {
        let refused = admin.post(path, body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        let problem = refused.json()["message"].to_string();
        assert!(problem.contains("a question of at most"), "{problem}");
    }
    let run = admin.post("/v1/runs", json!({"text": "6 times 7?"})).await;
    let run = run.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(ended(&admin, &run).await["answer"], "It is 42.");
}

/// Two of the question's parts: a tool that the caller answers, and variables for the code.
fn question_with_a_tool() -> Value {
    json!({
        "text": "Double n.",
        "seed": {"n": 21},
        "schema": {"type": "integer"},
        "tools": [{
            "name": "double",
            "description": "Twice a number.",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_answers_the_tools_that_its_question_brought_along() {
    let setup = scripted(&["```python\nprint(double(n=n))\n```", "42"]);
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let asked = admin.post("/v1/runs", question_with_a_tool()).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.text());
    let run = asked.json()["id"].as_str().expect("an id").to_owned();
    let events = format!("/v1/runs/{run}/events");
    let call = admin.first_event(&events, "tool_call").await;
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("double"), &json!({"n": 21}))
    );
    let path = format!("/v1/runs/{run}/tool_result");
    let nothing = json!({"call": "t1", "result": 1});
    assert_eq!(
        admin.post(&path, nothing).await.status,
        StatusCode::NOT_FOUND
    );
    let other = server.user(&admin, "bob").await;
    let answer = json!({"call": call["call"], "result": 42});
    assert_eq!(
        other.post(&path, answer.clone()).await.status,
        StatusCode::NOT_FOUND,
        "the run is not the other user's"
    );
    assert_eq!(admin.post(&path, answer).await.status, StatusCode::OK);
    let told = ended(&admin, &run).await;
    assert_eq!(told["status"], "answered", "{told}");
    let record = admin.get(&format!("/v1/runs/{run}/record")).await.json();
    assert_eq!(record["outcome"]["answer"], 42);
    assert_eq!(
        record["outcome"]["steps"].as_array().map(Vec::len),
        Some(1),
        "{}",
        record["outcome"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_question_may_not_have_is_refused() {
    let server = TestServer::with(with(scripted(&["42"]))).await;
    let admin = server.admin().await;
    for body in [
        json!({"text": "?", "template": "+++\n+++\nx"}),
        json!({"text": "?", "schema": {"type": "no such type"}}),
        json!({"text": "?", "tools": [{"name": "a b", "description": "", "parameters": {}}]}),
        json!({"text": "?", "tools": [{"name": "execute_python_code", "description": "", "parameters": {"type": "object"}}]}),
        json!({"template": "no front matter: what is `x`?", "arguments": {"y": 1}}),
    ] {
        let answer = admin.post("/v1/runs", body.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{body}: {}",
            answer.text()
        );
    }
}
