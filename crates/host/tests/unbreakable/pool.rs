//! Sessions made ahead of demand.

use crate::support::{session, wait};
use cellblock_host::{Host, PythonChoice};
use cellblock_protocol::{CheckpointStatus, Isolation, Limits, StateOutcome, Strategy};
use cellblock_session::Preload;
use std::time::Duration;

fn host() -> Host {
    Host::builder()
        .python(PythonChoice::StandardLibrary)
        .preload(Preload::None)
        .pool(2)
        .build()
        .unwrap()
}

/// Waits until the pool holds what it shall.
async fn filled(host: &Host) -> cellblock_session::PoolState {
    let runtime = host.runtime(&Isolation::default()).await.unwrap();
    loop {
        let state = runtime.pool();
        if state.ready == state.size {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_session_from_the_pool_is_armed_and_new() {
    wait(async {
        let host = host();
        filled(&host).await;
        let first = host
            .session()
            .name("mine")
            .variable("x", 20)
            .start()
            .await
            .unwrap();
        let result = first.run("x + 1").await.unwrap();
        assert_eq!(
            (
                result.session.as_str(),
                result.cell,
                result.value.unwrap().repr.as_str()
            ),
            ("mine", 1, "21")
        );
        assert_eq!(filled(&host).await.served, 1);
        let second = host.session().start().await.unwrap();
        assert_eq!(
            second
                .run("'x' in globals()")
                .await
                .unwrap()
                .value
                .unwrap()
                .repr,
            "False"
        );
    });
}

#[test]
fn what_a_pooled_session_cannot_have_is_made_on_demand() {
    wait(async {
        let host = host();
        filled(&host).await;
        let limits = Limits {
            open_files: 40,
            ..Limits::default()
        };
        let session = host.session().limits(limits).start().await.unwrap();
        let value = session
            .run("import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]")
            .await
            .unwrap()
            .value;
        assert_eq!(value.unwrap().repr, "40");
        assert_eq!(filled(&host).await.served, 0);
    });
}

#[test]
fn a_session_without_checkpoints_is_not_one_of_the_pool() {
    wait(async {
        let host = host();
        filled(&host).await;
        let session = host.session().strategy(Strategy::Direct);
        let session = session.start().await.unwrap();
        let crash = session.run("import os; os._exit(3)").await.unwrap();
        assert_eq!(
            (
                crash.strategy,
                crash.state.checkpoint.status,
                crash.state.outcome
            ),
            (
                Strategy::Direct,
                CheckpointStatus::Unavailable,
                StateOutcome::Ended
            )
        );
    });
}

#[test]
fn sessions_of_one_zygote_draw_different_numbers() {
    let draw = "import random, uuid; random.random()";
    assert_ne!(session().value(draw), session().value(draw));
}
