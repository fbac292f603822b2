//! Many sessions alive at the same time.

use super::census::Census;
use super::common::{descendants, memory_of};
use super::{alone, scaled, scene, wait};
use cellblock_host::Host;
use cellblock_protocol::Status;
use cellblock_session::Session;
use std::time::Instant;

/// Does the same with each, all at the same time.
async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    sessions: &[Session],
    work: impl Fn(usize, Session) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| tokio::spawn(work(n, session.clone())))
        .collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

async fn open(host: Host, count: usize) -> Vec<Session> {
    let start = |n: usize| tokio::spawn(host.session().variable("me", n).start());
    let tasks: Vec<_> = (0..count).map(start).collect();
    let mut sessions = Vec::new();
    for task in tasks {
        sessions.push(task.await.unwrap().unwrap());
    }
    sessions
}

#[test]
fn many_sessions_live_at_once_and_nothing_is_left_of_them() {
    let _alone = alone();
    let count = scaled(30, 200);
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let memory_before = memory_of(&descendants(std::process::id()));

    let begun = Instant::now();
    let sessions = wait("opening", open(host.clone(), count));
    let opened = begun.elapsed();
    for round in 0..3 {
        let values = wait(
            "a cell in each",
            each(&sessions, move |n, session| async move {
                let result = session.run(format!("x = (me, {round}); x")).await.unwrap();
                (n, result.status, result.value.map(|value| value.repr))
            }),
        );
        for (n, status, value) in values {
            assert_eq!(
                (status, value),
                (Status::Success, Some(format!("({n}, {round})")))
            );
        }
    }
    let memory = (memory_of(&descendants(std::process::id())) - memory_before) / count as u64;
    // One in three dies, all of these at once, and each comes back with what is its own.
    let values = wait(
        "a crash in many",
        each(&sessions, |n, session| async move {
            if n % 3 == 0 {
                let result = session
                    .run("x = 'lost'; import os; os.kill(os.getpid(), 11)")
                    .await
                    .unwrap();
                assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
            }
            session.run("x").await.unwrap().value.unwrap().repr
        }),
    );
    for (n, value) in values.into_iter().enumerate() {
        assert_eq!(value, format!("({n}, 2)"));
    }
    println!(
        "{count} sessions: opened in {opened:?}, {} KiB each after three cells, with their checkpoints",
        memory >> 10
    );
    wait(
        "closing",
        each(&sessions, |_, session| async move { session.close().await }),
    );
    drop(sessions);
    before.assert_unchanged(directory.path());
}
