//! H1: code reaches for a host that no rule names, and a person decides in the middle of the request.

use crate::approval::Scripted;
use crate::support::{sessions_with, wait};
use cellblock_protocol::{Cell, SessionOptions, Status, UnlistedHosts};
use cellblock_tools::{
    Approval, ApprovalMode, ApprovalPolicy, Approver, Decision, Registry, ToolRunner,
};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A web server on loopback that answers every request with the same page. Returns its port.
fn page_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let page = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            let _ = stream.write_all(page.as_bytes());
        }
    });
    port
}

fn runner(mode: ApprovalMode, person: Option<Arc<Scripted>>) -> ToolRunner {
    let options = SessionOptions {
        unlisted_hosts: UnlistedHosts::Ask,
        ..SessionOptions::default()
    };
    let person = person.map(|person| person as Arc<dyn Approver>);
    ToolRunner::builder(Registry::builder().built_in().build().unwrap())
        .open_sessions(sessions_with(options))
        .approval(Approval::new(ApprovalPolicy::mode(mode), person))
        .build()
}

/// Fetches a page in a cell. Returns what the cell printed, or the text that the guard refused it with.
fn fetch(runner: &ToolRunner, port: u16, seconds: u64) -> String {
    let code = format!(
        "import urllib.request, urllib.error\n\
         try:\n    print(urllib.request.urlopen('http://localhost:{port}/').read().decode())\n\
         except urllib.error.HTTPError as error:\n    print(error.code, error.read().decode())\n"
    );
    let cell = Cell {
        timeout: Some(Duration::from_secs(seconds)),
        ..Cell::new(code)
    };
    let result = wait(runner.run_cell(cell, None)).unwrap().result;
    assert_eq!(result.status, Status::Success, "{result:?}");
    result.stdout.trim().to_owned()
}

#[test]
fn a_person_opens_a_host_in_the_middle_of_the_request() {
    let person = Scripted::new([Decision::Accept]);
    let runner = runner(ApprovalMode::Effects, Some(Arc::clone(&person)));
    let port = page_server();
    assert_eq!(fetch(&runner, port, 30), "hello");
    // The person is asked once for a host.
    assert_eq!(fetch(&runner, port, 30), "hello");
    let asked = person.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].tool, "reach_host");
    let arguments = json!({"host": "localhost", "port": port});
    assert_eq!(json!(asked[0].arguments), arguments);
}

#[test]
fn the_clock_of_the_cell_stands_still_while_the_person_thinks() {
    let person = Arc::new(Scripted {
        decisions: Mutex::new([Decision::Accept].into()),
        thinks: Duration::from_secs(24),
        ..Scripted::default()
    });
    let runner = runner(ApprovalMode::Effects, Some(person));
    assert_eq!(fetch(&runner, page_server(), 20), "hello");
}

#[test]
fn a_person_who_rejects_is_asked_again_only_by_the_next_cell() {
    let reject = Decision::Reject(Some("not there".to_owned()));
    let answer = Decision::Respond("use the file".to_owned());
    let person = Scripted::new([reject, answer]);
    let runner = runner(ApprovalMode::Effects, Some(Arc::clone(&person)));
    let port = page_server();
    let refused =
        format!("403 this session may not reach localhost:{port}: the user rejected it: not there");
    assert_eq!(fetch(&runner, port, 30), refused);
    let answered =
        format!("403 this session may not reach localhost:{port}: the user answered: use the file");
    assert_eq!(fetch(&runner, port, 30), answered);
}

#[test]
fn without_a_person_the_host_is_refused_and_the_flag_named() {
    let port = page_server();
    let told = format!(
        "403 this session may not reach localhost:{port}: no rule names it (--allow-net HOST does)"
    );
    assert_eq!(fetch(&runner(ApprovalMode::Effects, None), port, 30), told);
    // A policy that asks about nothing opens nothing.
    let person = Scripted::new([]);
    let unasked = runner(ApprovalMode::Never, Some(person));
    assert_eq!(fetch(&unasked, port, 30), told);
}

#[test]
fn a_trial_asks_about_no_host() {
    let person = Scripted::new([]);
    let runner = runner(ApprovalMode::Effects, Some(person));
    let fork = wait(async { runner.session().await.unwrap().fork().await.unwrap() });
    let told = fetch(&runner.for_trial(fork), page_server(), 30);
    assert!(told.contains("no rule names it"), "{told}");
}
