//! Files of a workspace: written, read, removed, moved, in archives, and larger than memory should be.

use crate::common::{Caller, TestServer};
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::Read as _;

async fn put(caller: &Caller<'_>, session: &str, path: &str, body: Body) -> crate::common::Answer {
    let address = format!("/v1/sessions/{session}/files/{path}");
    caller
        .server
        .send(caller.request(Method::PUT, &address, body))
        .await
}

async fn names(caller: &Caller<'_>, session: &str) -> Vec<String> {
    let files = caller.get(&format!("/v1/sessions/{session}/files")).await;
    let files = files.json()["files"].as_array().cloned().expect("files");
    let names = files.iter().filter_map(|file| file["path"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_moved_and_removed_with_their_directories() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let session = ada.open().await;
    for path in ["a/one.txt", "a/two.txt", "three.txt"] {
        put(&ada, &session, path, Body::from("x")).await;
    }
    let address = |rest: &str| format!("/v1/sessions/{session}/{rest}");
    let moved = json!({"from": "three.txt", "to": "b/c/four.txt"});
    let answer = ada.post(&address("move"), moved.clone()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(
        ada.post(&address("move"), moved).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(ada.delete(&address("files/a")).await.status, StatusCode::OK);
    assert_eq!(names(&ada, &session).await, ["b/c/four.txt"]);
    for wrong in [
        "files/..%2F..%2Fetc",
        "files/.",
        "files/b/..",
        "files/nothing",
    ] {
        let answer = ada.delete(&address(wrong)).await;
        assert!(
            answer.status.is_client_error(),
            "{wrong}: {}",
            answer.status
        );
    }
    let out = json!({"from": "b/c/four.txt", "to": "../../tmp/x"});
    let answer = ada.post(&address("move"), out).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(names(&ada, &session).await, ["b/c/four.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_the_code_leads_no_removal_out_of_the_workspace() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let session = ada.open().await;
    let victim = server.data.path().join("victim");
    std::fs::create_dir(&victim).expect("a directory");
    std::fs::write(victim.join("file"), "kept").expect("a file");
    let code = format!(
        "import os; os.symlink({:?}, 'out')",
        victim.display().to_string()
    );
    ada.run(&session, &code).await;
    let address = format!("/v1/sessions/{session}/files/out/file");
    assert!(ada.delete(&address).await.status.is_client_error());
    let written = put(&ada, &session, "out/new", Body::from("x")).await;
    assert!(written.status.is_client_error(), "{}", written.text());
    assert_eq!(std::fs::read_dir(&victim).expect("a directory").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_comes_as_an_archive() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let session = ada.open().await;
    put(&ada, &session, "data/one.txt", Body::from("eins")).await;
    put(&ada, &session, "data/in/two.txt", Body::from("zwei")).await;
    put(&ada, &session, "other.txt", Body::from("x")).await;
    let archive = |query: &str| format!("/v1/sessions/{session}/archive{query}");
    let tar = ada.get(&archive("?path=data&as=tar")).await;
    assert!(tar.header("content-disposition").contains("data.tar"));
    let mut found = Vec::new();
    for entry in tar::Archive::new(tar.body.as_slice())
        .entries()
        .expect("tar")
    {
        let mut entry = entry.expect("an entry");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        found.push((entry.path().expect("a path").display().to_string(), text));
    }
    found.sort();
    let expected = [("in/two.txt", "zwei"), ("one.txt", "eins")];
    assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let zip = ada.get(&archive("")).await;
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip.body)).expect("zip");
    let mut names: Vec<String> = zip
        .file_names()
        .map(|name| name.expect("a name").into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["data/in/two.txt", "data/one.txt", "other.txt"]);
    let mut text = String::new();
    zip.by_name("data/one.txt")
        .expect("an entry")
        .read_to_string(&mut text)
        .expect("text");
    assert_eq!(text, "eins");
    for wrong in ["?path=nothing", "?as=rar"] {
        assert!(ada.get(&archive(wrong)).await.status.is_client_error());
    }
}

/// The memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).expect("pages");
    pages.parse::<u64>().expect("a number") * 4096
}

/// A body of so many megabytes, made while it is read. The memory of the process is looked at meanwhile.
fn megabytes(count: usize, peak: std::sync::Arc<std::sync::atomic::AtomicU64>) -> Body {
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let pieces = (0..count).map(move |_| {
        peak.fetch_max(resident_bytes(), std::sync::atomic::Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece.clone())
    });
    Body::from_stream(futures_util::stream::iter(pieces))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_a_gigabyte_takes_little_memory() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let opened = ada
        .post("/v1/sessions", json!({"limits": {"disk": 4_u64 << 30}}))
        .await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.text());
    let session = opened.json()["id"].as_str().expect("an id").to_owned();
    let before = resident_bytes();
    let peak = std::sync::Arc::default();
    let body = megabytes(1024, std::sync::Arc::clone(&peak));
    let answer = put(&ada, &session, "big.bin", body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.json()["bytes"], 1_u64 << 30);
    let grown = peak
        .load(std::sync::atomic::Ordering::Relaxed)
        .saturating_sub(before);
    assert!(grown < 256 << 20, "{} MB more", grown >> 20);
    let code = "import os; (os.path.getsize('big.bin'), os.listdir('.'))";
    assert_eq!(
        ada.run(&session, code).await["value"]["repr"],
        "(1073741824, ['big.bin'])"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_or_is_too_large_leaves_the_file_as_it_was() {
    let quota = 40_u64 << 20;
    let server = TestServer::with(|options| options.quotas.disk = quota).await;
    let ada = server.admin().await;
    let opened = ada
        .post("/v1/sessions", json!({"limits": {"disk": quota}}))
        .await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.text());
    let session = opened.json()["id"].as_str().expect("an id").to_owned();
    put(&ada, &session, "file.bin", Body::from("old")).await;
    let too_large = put(
        &ada,
        &session,
        "file.bin",
        megabytes(60, Default::default()),
    )
    .await;
    assert_eq!(too_large.status, StatusCode::PAYLOAD_TOO_LARGE);
    let pieces = (0..30).map(|index| match index {
        29 => Err(std::io::Error::other("gone")),
        _ => Ok(Bytes::from(vec![0; 1 << 20])),
    });
    let broken = Body::from_stream(futures_util::stream::iter(pieces));
    let broken = put(&ada, &session, "file.bin", broken).await;
    assert_eq!(broken.status, StatusCode::BAD_REQUEST);
    let code = "(open('file.bin').read(), __import__('os').listdir('.'))";
    let told: Value = ada.run(&session, code).await["value"]["repr"].clone();
    assert_eq!(told, "('old', ['file.bin'])");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_code_puts_in_the_place_of_a_file_leads_nowhere() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let session = ada.open().await;
    let made = "import os
open('a.txt', 'w').write('a')
os.symlink('a.txt', 'inside'); os.symlink('/etc/hosts', 'outside'); os.symlink('..', 'above')
os.mkfifo('pipe')
open('closed', 'w').write('b'); os.chmod('closed', 0)";
    ada.run(&session, made).await;
    let path = |name: &str| format!("/v1/sessions/{session}/files/{name}");
    assert_eq!(ada.get(&path("inside")).await.text(), "a");
    for name in ["outside", "above/x", "pipe"] {
        let read = ada.get(&path(name)).await;
        assert!(read.status.is_client_error(), "{name}: {}", read.text());
        let body = Body::from("changed");
        let request = ada.request(Method::PUT, &path(name), body);
        let written = server.send(request).await;
        assert!(
            written.status.is_client_error(),
            "{name}: {}",
            written.text()
        );
    }
    // Permissions are for code. The host's user reads it, if the kernel lets that user.
    let closed = ada.get(&path("closed")).await;
    match rustix::process::geteuid().is_root() {
        true => assert_eq!(closed.text(), "b"),
        false => assert!(closed.status.is_client_error(), "{}", closed.text()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_and_read_in_ranges() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let file = format!("/v1/sessions/{session}/files/in/a%20b.html");
    let put = server
        .send(admin.request(Method::PUT, &file, Body::from("0123456789")))
        .await;
    assert_eq!(
        put.json(),
        json!({"path": "in/a b.html", "bytes": 10, "mime": "text/html"})
    );
    assert_eq!(
        admin.run(&session, "open('in/a b.html').read()").await["value"]["repr"],
        "'0123456789'"
    );
    let whole = admin.get(&file).await;
    assert_eq!(
        (whole.status, whole.text().as_str()),
        (StatusCode::OK, "0123456789")
    );
    assert!(
        whole
            .header("content-disposition")
            .starts_with("attachment"),
        "never shown as a page"
    );
    assert_eq!(
        whole.header("content-security-policy"),
        "sandbox; default-src 'none'"
    );
    let part = admin.clone().with("range", "bytes=2-4").get(&file).await;
    assert_eq!(
        (part.status, part.text().as_str()),
        (StatusCode::PARTIAL_CONTENT, "234")
    );
    assert_eq!(part.header("content-range"), "bytes 2-4/10");
    let beyond = admin.clone().with("range", "bytes=20-").get(&file).await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let tag = whole.header("etag").to_owned();
    let same = admin.clone().with("if-none-match", &tag).get(&file).await;
    assert_eq!(
        (same.status, same.body.len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    admin
        .run(&session, "open('in/a b.html', 'w').write('new')")
        .await;
    let changed = admin.clone().with("if-none-match", &tag).get(&file).await;
    assert_eq!(
        (changed.status, changed.text().as_str()),
        (StatusCode::OK, "new")
    );
    let list = admin
        .get(&format!("/v1/sessions/{session}/files"))
        .await
        .json();
    assert_eq!(list["files"][0]["path"], "in/a b.html");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_workspace() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin
        .run(
            &session,
            "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')",
        )
        .await;
    for path in [
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "link",
        "root%2fetc%2fpasswd",
        "a%2f..%2f..%2fb",
        "%00",
    ] {
        let path = format!("/v1/sessions/{session}/files/{path}");
        let read = admin.get(&path).await;
        assert!(read.status.is_client_error(), "{path}: {}", read.text());
        assert!(!read.text().contains("root:"), "{path}");
        let written = server
            .send(admin.request(Method::PUT, &path, Body::from("x")))
            .await;
        // A link of the workspace may be replaced by a file, but never followed.
        assert!(
            written.status.is_client_error() || path.ends_with("link"),
            "{path}: {}",
            written.text()
        );
    }
}
