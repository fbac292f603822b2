//! What the engine of a cluster holds: no secrets, and nothing of what was deleted.

use crate::cells::waiting_call;
use crate::cluster::{Cluster, Node};
use crate::runs::scripted;
use axum::http::StatusCode;
use cellblock_cluster::engine::Engine;
use cellblock_env::{Cancel, Dirs, Environments, Layer, Requirements, Search, Variables};
use cellblock_host::{Host, PythonChoice};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// All that can be read of an engine: journals, blobs and entries.
async fn everything(engine: &Engine) -> String {
    let mut all = String::new();
    for journal in engine.journals.list().await.expect("journals") {
        if let Some(last) = engine.journals.last(&journal).await.expect("a journal") {
            let read = engine.journals.read(&journal, last.sequence).await;
            for stored in read.expect("records") {
                all.push_str(&String::from_utf8_lossy(&stored.record));
            }
        }
    }
    for blob in engine.blobs.list().await.expect("blobs") {
        let bytes = engine.blobs.get(&blob).await.expect("an engine");
        all.push_str(&String::from_utf8_lossy(&bytes.unwrap_or_default()));
    }
    for directory in [&engine.directory, &engine.runs] {
        for (id, placed) in directory.list().await.expect("entries") {
            all.push_str(&format!("{id} {}", placed.entry.about));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_the_engine() {
    let cluster = Cluster::new();
    let replies = ["```python\nx = 6 * 7; x\n```", "It is 42."];
    let node = Node::start(&cluster, "a", |options, _| {
        options.agent = Some(scripted(&replies));
    });
    let node = node.await;
    let file = node.server.data.path().join("key");
    std::fs::write(&file, "secret-of-the-file").expect("a file");
    let rule = format!(
        "api.example.org Authorization: Bearer file:{}",
        file.display()
    );
    let options = json!({"network": ["api.example.org"], "credentials": [rule]});
    let token = node.caller().post("/v1/tokens", json!({"name": "t"})).await;
    let token = token.json()["token"].as_str().expect("a token").to_owned();
    let caller = node
        .caller()
        .with("authorization", &format!("Bearer {token}"));
    let opened = caller.post("/v1/sessions", options).await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.text());
    let session = opened.json()["id"].as_str().expect("an id").to_owned();
    // The code asks for a password, and uses it.
    let code = "import getpass, hashlib\nlength = len(getpass.getpass('Key: '))\nlength";
    let answer = async {
        let call = waiting_call(&caller, &session).await;
        let path = format!("/v1/sessions/{session}/input");
        let answer = json!({"call": call, "text": "secret-of-the-user"});
        let answered = caller.post(&path, answer).await;
        assert_eq!(answered.status, StatusCode::OK, "{}", answered.text());
    };
    let (result, ()) = tokio::join!(caller.run(&session, code), answer);
    assert_eq!(result["value"]["repr"], "18", "{result}");
    let asked = caller
        .post("/v1/runs", json!({"text": "What is 6 times 7?"}))
        .await;
    let path = format!("/v1/runs/{}", asked.json()["id"].as_str().expect("an id"));
    let told = crate::cluster::ended(&node, &path).await;
    assert_eq!(told["answer"], "It is 42.", "{told}");
    let all = everything(&cluster.engine).await;
    // The search finds what is there.
    assert!(all.contains("getpass.getpass") && all.contains("What is 6 times 7?"));
    assert!(all.contains("which is not recorded"), "{all}");
    for secret in ["secret-of-the-file", "secret-of-the-user", token.as_str()] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_nothing_in_the_engine() {
    let cluster = Cluster::new();
    let node = |name: &'static str| {
        Node::start(&cluster, name, |_, node| {
            node.retention.young_blobs = Duration::ZERO;
        })
    };
    let (first, second) = (node("a").await, node("b").await);
    let caller = first.caller();
    let write = "open('big.txt', 'w').write('own-bytes ' * 60_000)";
    let shared = "open('same.txt', 'w').write('shared-bytes ' * 10)";
    let (session, other) = (caller.open().await, caller.open().await);
    for code in [write, shared, "word = 'own-word'; print(word * 40_000)"] {
        caller.run(&session, code).await;
    }
    caller.run(&other, shared).await;
    let all = everything(&cluster.engine).await;
    assert!(all.contains("own-bytes own-bytes") && all.contains("own-word"));
    // Through the node that may not have it; a stranger of a session cannot.
    let missing = second
        .caller()
        .delete("/v1/sessions/none?forget=true")
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND, "{}", missing.text());
    let path = format!("/v1/sessions/{session}");
    let deleted = second.caller().delete(&format!("{path}?forget=true")).await;
    assert_eq!(deleted.status, StatusCode::OK, "{}", deleted.text());
    let told: Value = deleted.json();
    assert_eq!(told["blobs_left_for_the_next_sweep"], 0, "{told}");
    let all = everything(&cluster.engine).await;
    for text in [session.as_str(), "own-bytes", "own-word"] {
        assert!(!all.contains(text), "{text}");
    }
    assert!(all.contains("shared-bytes"), "another session has it too");
    assert_eq!(
        first.caller().get(&path).await.status,
        StatusCode::NOT_FOUND
    );
    let kept = caller.run(&other, "len(open('same.txt').read())").await;
    assert_eq!(kept["value"]["repr"], "130", "{kept}");
    // A closed session can be deleted later.
    caller.delete(&format!("/v1/sessions/{other}")).await;
    let deleted = caller
        .delete(&format!("/v1/sessions/{other}?forget=true"))
        .await;
    assert_eq!(deleted.status, StatusCode::OK, "{}", deleted.text());
    assert!(!everything(&cluster.engine).await.contains("shared-bytes"));
}

/// A node with environments of its own, whose installer finds only the wheels of a directory.
async fn node_with_wheels(cluster: &Cluster, name: &str, wheels: &Path) -> (Node, Environments) {
    let data = tempfile::tempdir().expect("a directory");
    let tools = Dirs::from_process().expect("directories").cache;
    if !tools.join("tools/uv/bin/uv").exists() {
        // The first environment of a user brings uv, from the package index.
        let own = Environments::from_process().expect("directories");
        install(&own, &[]).await.expect("an installer");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = Variables::from_process()
        .with("XDG_CACHE_HOME", data.path().join("cache"))
        .with("PATH", format!("{path}:{}/tools/uv/bin", tools.display()))
        .with("PIP_NO_INDEX", "1")
        .with("PIP_FIND_LINKS", wheels);
    let dirs = Dirs::new(&variables).expect("directories");
    let environments = Environments::new(variables, &dirs);
    let host = Host::builder()
        .python(PythonChoice::StandardLibrary)
        .dirs(dirs)
        .environments(environments.clone())
        .build();
    let host = host.expect("a Python");
    let node = Node::start_with(cluster, name, data, host, |_, _| {}).await;
    (node, environments)
}

async fn install(
    environments: &Environments,
    packages: &[&str],
) -> Result<Layer, cellblock_env::Error> {
    let (environments, wanted) = (environments.clone(), Requirements::parse(packages)?);
    let made = tokio::task::spawn_blocking(move || {
        let interpreter = Search::from_process()?.find()?;
        environments.make_layer(&interpreter, &[], &wanted, &Cancel::new(), &mut |_| {})
    });
    made.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_that_one_node_installed_come_to_another_without_an_index() {
    let wheels = tempfile::tempdir().expect("a directory");
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1] + '/tiny-1.0-py3-none-any.whl', 'w') as wheel:\n  info = 'tiny-1.0.dist-info/'\n  wheel.writestr('tiny.py', 'number = 1')\n  wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n  wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n  wheel.writestr(info + 'RECORD', ''.join(p + ',,\\n' for p in wheel.namelist()))";
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(wheels.path())
        .status();
    assert!(python.expect("Python").success());
    let cluster = Cluster::new();
    let (_first, environments) = node_with_wheels(&cluster, "a", wheels.path()).await;
    let nothing = tempfile::tempdir().expect("a directory");
    let (_second, elsewhere) = node_with_wheels(&cluster, "b", nothing.path()).await;
    assert!(
        install(&elsewhere, &["tiny"]).await.is_err(),
        "it has no index"
    );
    let made = install(&environments, &["tiny"]).await.expect("a layer");
    // The archive is stored in the background.
    let mut taken = install(&elsewhere, &["tiny"]).await;
    for _ in 0..200 {
        if taken.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        taken = install(&elsewhere, &["tiny"]).await;
    }
    let taken = taken.expect("a layer");
    assert_eq!(
        (&taken.packages, &taken.installer),
        (&made.packages, &made.installer)
    );
    assert_ne!(taken.path, made.path);
    assert!(taken.path.expect("a directory").join("tiny.py").is_file());
}
