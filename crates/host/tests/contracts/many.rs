//! Many sessions at once.

use crate::support::{Python, builder, session, wait};
use cellblock_host::{Host, PythonChoice, SessionBuilder};
use cellblock_protocol::{Cell, CellResult, Status};
use cellblock_session::Preload;
use std::collections::BTreeSet;
use std::time::Duration;

/// Does the same with each, all at the same time.
fn all(sessions: &[Python], code: impl Fn(usize) -> Cell) -> Vec<CellResult> {
    let start = |(n, session): (usize, &Python)| session.start(code(n));
    let running: Vec<_> = sessions.iter().enumerate().map(start).collect();
    running
        .into_iter()
        .map(|running| running.result())
        .collect()
}

#[test]
fn twenty_sessions_at_once_keep_their_variables_outputs_and_files_apart() {
    let opening: Vec<_> = (0..20)
        .map(|n| builder().variable("me", n).start())
        .collect();
    let sessions: Vec<Python> = wait(async {
        let tasks: Vec<_> = opening.into_iter().map(tokio::spawn).collect();
        let mut sessions = Vec::new();
        for task in tasks {
            sessions.push(Python(task.await.unwrap().unwrap()));
        }
        sessions
    });
    for round in 0..5 {
        let code = format!(
            "x = me * 1000 + {round}
print('I am', me)
open(f'{{me}}-{round}.txt', 'w').write(str(me))
x"
        );
        let results = all(&sessions, |_| Cell::new(code.clone()));
        for (n, result) in results.into_iter().enumerate() {
            let made: Vec<_> = result
                .files
                .created
                .iter()
                .map(|file| file.path.clone())
                .collect();
            assert_eq!(
                (result.value.unwrap().repr, result.stdout, made, result.cell),
                (
                    (n * 1000 + round).to_string(),
                    format!("I am {n}\n"),
                    vec![format!("{n}-{round}.txt")],
                    round as u64 + 1
                )
            );
        }
    }
    let ids: BTreeSet<_> = sessions
        .iter()
        .map(|session| session.id().to_owned())
        .collect();
    assert_eq!(ids.len(), 20);
}

#[test]
fn a_session_that_crashes_times_out_or_closes_disturbs_no_other() {
    let sessions: Vec<Python> = (0..6).map(|_| session()).collect();
    all(&sessions, |n| Cell::new(format!("x = {n}")));
    let codes = [
        "1",
        "import ctypes\nctypes.string_at(0)",
        "while True: pass",
        "import os\nos._exit(1)",
        "x",
        "1/0",
    ];
    let statuses: Vec<_> = all(&sessions, |n| {
        Cell::new(codes[n]).timeout(Duration::from_millis(1500))
    })
    .into_iter()
    .map(|result| result.status)
    .collect();
    assert_eq!(
        statuses,
        [
            Status::Success,
            Status::Crashed,
            Status::Timeout,
            Status::Crashed,
            Status::Success,
            Status::Failure
        ]
    );
    wait(sessions[0].close());
    assert_eq!([sessions[4].value("x"), sessions[5].value("x")], ["4", "5"]);
}

#[test]
fn handles_of_one_session_share_it() {
    let session = session();
    let other = session.0.clone();
    session.good("x = 1");
    assert_eq!(
        wait(other.run("x += 1\nx")).unwrap().value.unwrap().repr,
        "2"
    );
    assert_eq!(session.value("x"), "2");
}

/// The short way in: no host is named, and one is there for all that runs on this async runtime.
#[tokio::test]
async fn the_short_way_in_needs_nothing_but_an_async_runtime() {
    let session = SessionBuilder::new().start().await.unwrap();
    session.run("x = 20").await.unwrap();
    let result = session.run("x + 1").await.unwrap();
    assert_eq!(result.value.unwrap().repr, "21");
}

#[tokio::test]
async fn a_host_can_be_dropped_before_its_sessions() {
    let host = Host::builder()
        .python(PythonChoice::StandardLibrary)
        .preload(Preload::None)
        .build()
        .unwrap();
    let session = host.session().start().await.unwrap();
    drop(host);
    assert_eq!(session.run("1 + 1").await.unwrap().value.unwrap().repr, "2");
}

/// What was said to somebody who has gone must not be taken for the answer to the next one.
#[test]
fn a_start_that_was_given_up_leaves_nothing_to_the_next_session() {
    for round in 0..40 {
        let session = session();
        wait(async {
            let patience = Duration::from_micros(round * 500);
            drop(tokio::time::timeout(patience, builder().start()).await);
        });
        let fork = session.fork();
        for session in [session, fork] {
            let result = session.run("open('mine', 'w').write('here'); print('said')");
            assert_eq!(result.stdout, "said\n", "round {round}: {result:?}");
            let mine = session.workspace().join("mine");
            assert_eq!(std::fs::read_to_string(mine).unwrap(), "here");
        }
    }
}
