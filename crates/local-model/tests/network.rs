//! Downloads and the search for servers, against servers of our own.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cellblock_env::{Environments, Interpreter, Variables};
use cellblock_local_model::{Discovery, Error, LocalModels, StoredModel, WeightsSource};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

const WEIGHTS: &[u8] = b"GGUF and so on, the weights of a small model";
const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A server that answers each request by a function of its head, and keeps the heads.
struct Server {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let mut connection: TcpStream = connection.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).unwrap() == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                kept.lock().unwrap().push(head.clone());
                let _ = connection.write_all(&answer(number, &head));
            }
        });
        Server { url, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn response(status: &str, headers: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The weights from the byte that the request asks for.
fn ranged(head: &str) -> Vec<u8> {
    let range = head.split("range: bytes=").nth(1);
    match range.and_then(|range| range.split('-').next()?.parse::<usize>().ok()) {
        Some(from) => {
            let rest = &WEIGHTS[from..];
            response("206 Partial Content", "", rest, rest.len())
        }
        None => response("200 OK", "", WEIGHTS, WEIGHTS.len()),
    }
}

async fn get(models: &LocalModels, source: &str, hash: Option<&str>) -> Result<StoredModel, Error> {
    let hub = source.strip_prefix("hub ");
    let source = match hub {
        Some(url) => {
            let endpoint = |_: &str| Some(url.to_owned());
            WeightsSource::parse("hub:owner/models/small.gguf", hash, endpoint)?
        }
        None => WeightsSource::parse(source, hash, |_| None)?,
    };
    let dirs = cellblock_env::Dirs {
        cache: "/nonexistent".into(),
        state: "/nonexistent".into(),
    };
    let environments = Environments::new(Variables::default(), &dirs);
    let no_python = || -> Result<Interpreter, cellblock_env::Error> { panic!("not needed") };
    let progress = &mut |_| {};
    models
        .get("small", &source, &environments, no_python, progress)
        .await
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn partial(directory: &Path) -> std::path::PathBuf {
    directory.join("small/weights.partial")
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    let server = Server::start(|number, head| match number {
        0 => response("200 OK", "", &WEIGHTS[..10], WEIGHTS.len()),
        _ => ranged(head),
    });
    let directory = tempfile::tempdir().unwrap();
    let models = LocalModels::new(directory.path());
    let address = format!("{}/small.gguf", server.url);
    let model = get(&models, &address, Some(&sha256(WEIGHTS)))
        .await
        .unwrap();
    assert_eq!(std::fs::read(&model.weights).unwrap(), WEIGHTS);
    assert_eq!(models.list(), [model]);
    assert!(server.heads()[1].contains("range: bytes=10-"));
}

#[tokio::test]
async fn what_an_earlier_process_left_is_continued() {
    let server = Server::start(|_, head| ranged(head));
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("small")).unwrap();
    std::fs::write(partial(directory.path()), &WEIGHTS[..20]).unwrap();
    let models = LocalModels::new(directory.path());
    assert!(models.is_partial("small"));
    let address = format!("{}/small.gguf", server.url);
    get(&models, &address, Some(&sha256(WEIGHTS)))
        .await
        .unwrap();
    assert!(server.heads()[0].contains("range: bytes=20-"));
}

#[tokio::test]
async fn weights_with_another_hash_are_refused_and_removed() {
    let server = Server::start(|_, head| ranged(head));
    let directory = tempfile::tempdir().unwrap();
    let models = LocalModels::new(directory.path());
    let address = format!("{}/small.gguf", server.url);
    let refused = get(&models, &address, Some(HASH)).await;
    assert!(
        matches!(refused, Err(Error::WrongHash { .. })),
        "{refused:?}"
    );
    assert!(!partial(directory.path()).exists());
    assert_eq!(models.list(), []);
}

#[tokio::test]
async fn weights_that_do_not_fit_on_the_disk_are_refused_before_they_come() {
    let server = Server::start(|_, _| response("200 OK", "", b"", 1 << 60));
    let directory = tempfile::tempdir().unwrap();
    let models = LocalModels::new(directory.path());
    let refused = get(&models, &format!("{}/a.gguf", server.url), Some(HASH)).await;
    assert!(
        matches!(refused, Err(Error::DiskFull { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_file_of_the_hub_is_checked_by_the_hash_that_the_hub_says() {
    let hash = sha256(WEIGHTS);
    let server = Server::start(move |_, head| match head.starts_with("head") {
        true => response(
            "302 Found",
            &format!("x-linked-etag: \"{hash}\"\r\n"),
            b"",
            0,
        ),
        false => ranged(head),
    });
    let directory = tempfile::tempdir().unwrap();
    let models = LocalModels::new(directory.path());
    let model = get(&models, &format!("hub {}", server.url), None)
        .await
        .unwrap();
    assert_eq!(model.sha256, sha256(WEIGHTS));
    assert!(server.heads()[0].starts_with("head /owner/models/resolve/main/small.gguf "));
}

#[tokio::test]
async fn a_file_of_the_user_stays_where_it_is_also_when_the_model_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.gguf");
    std::fs::write(&file, WEIGHTS).unwrap();
    let models = LocalModels::new(directory.path().join("models"));
    let model = get(&models, &file.display().to_string(), None)
        .await
        .unwrap();
    assert_eq!(model.weights, file);
    models.remove("small").await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), WEIGHTS);
    assert_eq!(models.list(), []);
}

#[tokio::test]
async fn a_file_that_is_no_gguf_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("notes.txt");
    std::fs::write(&file, "some notes").unwrap();
    let models = LocalModels::new(directory.path().join("models"));
    let refused = get(&models, &file.display().to_string(), None).await;
    assert!(matches!(refused, Err(Error::NotGguf { .. })), "{refused:?}");
}

#[tokio::test]
async fn no_name_leads_out_of_the_directory_of_models() {
    let directory = tempfile::tempdir().unwrap();
    let models = LocalModels::new(directory.path().join("models"));
    for name in ["..", "../x", "a/b", "", ".hidden"] {
        assert!(models.find(name).is_err(), "{name}");
        assert!(models.remove(name).await.is_err(), "{name}");
    }
}

/// A search at these addresses alone.
fn discovery(servers: &str) -> Discovery {
    Discovery::new(|_| Some(servers.to_owned()))
}

#[tokio::test]
async fn the_first_server_that_has_a_model_for_chats_is_taken() {
    let web_page = Server::start(|_, _| response("200 OK", "", b"<html>", 6));
    let body =
        br#"{"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:4b", "owned_by": "library"}]}"#;
    let ollama = Server::start(move |_, _| response("200 OK", "", body, body.len()));
    let servers = format!(
        "http://127.0.0.1:1/v1 {}/v1 {}/v1",
        web_page.url, ollama.url
    );
    let found = discovery(&servers).by_server().await.unwrap();
    assert_eq!(found.choice.model.as_deref(), Some("qwen3:4b"));
    assert_eq!(found.choice.base_url, Some(format!("{}/v1", ollama.url)));
}

#[tokio::test]
async fn llama_cpp_is_asked_for_its_context() {
    let list = br#"{"data": [{"id": "m", "owned_by": "llamacpp"}]}"#;
    let properties = br#"{"default_generation_settings": {"n_ctx": 4096}}"#;
    let server = Server::start(move |_, head| match head.starts_with("get /props ") {
        true => response("200 OK", "", properties, properties.len()),
        false => response("200 OK", "", list, list.len()),
    });
    let found = discovery(&format!("{}/v1", server.url)).by_server().await;
    let capabilities = found.unwrap().choice.capabilities;
    assert_eq!(capabilities.context_tokens, Some(4096));
    assert_eq!(capabilities.json_schema, Some(true));
}

#[test]
fn a_key_in_the_environment_chooses_its_providers_model() {
    let variable = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "sk-ant-example".to_owned());
    let found = discovery("").by_key(variable).unwrap();
    assert_eq!(
        found.choice.base_url.as_deref(),
        Some("https://api.anthropic.com/v1")
    );
    assert_eq!(found.reason, "Anthropic, by the key in ANTHROPIC_API_KEY");
    let empty = |_: &str| Some(" ".to_owned());
    assert_eq!(discovery("").by_key(empty), None);
}
