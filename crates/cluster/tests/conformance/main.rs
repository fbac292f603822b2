//! What every engine must do: the same tests for each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod checks;
mod counted;

use cellblock_cluster::engine::Engine;
use cellblock_cluster::{Runtime, TokioRuntime, embedded};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// So long that no lease lapses because the machine is busy.
const LONG_LEASE: Duration = Duration::from_secs(600);

/// For the test that waits for the end of a lease.
const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Makes a test of each check, for an engine that `$with` starts.
macro_rules! conformance {
    ($with:path, $lease:expr => $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $with($lease, |engine| Box::pin(super::checks::$check(engine)));
            }
        )*
    };
    ($with:path) => {
        conformance! { $with, super::SHORT_LEASE =>
            a_node_is_listed_until_its_lease_lapses
        }
        conformance! { $with, super::LONG_LEASE =>
            of_several_claims_of_the_same_entry_one_succeeds
            a_claim_of_an_entry_that_changed_is_lost
            epochs_grow_over_all_sessions
            an_append_names_the_last_record_or_is_refused
            of_many_appends_at_the_same_place_one_succeeds
            a_journal_gives_its_records_back_byte_for_byte
            a_record_that_is_too_long_is_refused
            a_request_reaches_its_node_and_its_reply_comes_back
            a_request_to_a_node_that_does_not_exist_has_no_responder
            a_request_that_is_not_replied_to_ends_in_silence
            a_node_that_leaves_is_not_listed
            a_node_whose_heartbeats_do_not_come_is_silent
            a_run_is_taken_once_and_its_first_end_stays
            a_run_whose_node_is_gone_goes_on_elsewhere_from_its_record
            a_run_of_a_living_node_stays_there
            the_cost_of_a_run_does_not_grow_with_the_queue
            a_queue_learns_what_other_nodes_do
            a_follower_is_told_entries_and_then_changes
            a_session_that_its_node_does_not_have_can_be_taken
            a_session_that_its_node_has_is_let_go_of_first
            a_removed_entry_is_gone_and_epochs_go_on
            events_come_in_order_and_from_any_place_on
            two_readers_get_all_events
            blobs_are_stored_under_their_digest
            a_removed_blob_is_gone_and_can_be_put_again
            a_blob_that_is_put_while_it_is_removed_is_there
            a_removed_journal_is_gone_and_refuses_its_old_owner
            a_forgotten_session_leaves_nothing_and_others_keep_what_they_share
            closed_sessions_are_deleted_after_their_time
            a_session_moves_with_its_variables_and_the_old_owner_is_fenced
            a_key_that_is_sent_a_hundred_times_runs_once
            a_drained_node_has_no_sessions_and_they_go_on_elsewhere
            a_changed_journal_is_not_replayed
        }
    };
}

type Check = fn(Engine) -> Pin<Box<dyn Future<Output = ()>>>;

fn tokio_runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::new())
}

fn with_memory(lease: Duration, check: Check) {
    cellblock_test_support::wait(async move {
        check(embedded::in_memory(&tokio_runtime(), lease)).await;
    });
}

fn with_files(lease: Duration, check: Check) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    cellblock_test_support::wait(async move {
        check(embedded::open(&path, &tokio_runtime(), lease).unwrap()).await;
    });
}

mod memory {
    conformance!(super::with_memory);
}

mod files {
    conformance!(super::with_files);
}

/// An engine on the servers of `tests/cluster`, with streams of its own.
#[cfg(feature = "nats")]
fn with_nats(lease: Duration, check: Check) {
    use cellblock_cluster::nats::{NatsOptions, NatsTls, connect};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Ok(servers) = std::env::var("CELLBLOCK_NATS") else {
        // The feature is on wherever the command is built too.
        println!("skipped: CELLBLOCK_NATS names no servers; tests/cluster starts some");
        return;
    };
    let options = NatsOptions {
        servers: servers.split(',').map(str::to_owned).collect(),
        credentials: None,
        tls: NatsTls::default(),
        prefix: format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        replicas: 3,
        shards: 2,
        lease,
    };
    cellblock_test_support::wait(async move {
        // Servers that were just started have no leader yet.
        let engine = loop {
            match connect(&options, &tokio_runtime()).await {
                Ok(engine) => break engine,
                Err(error) => println!("not yet: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        check(engine).await;
    });
}

#[cfg(feature = "nats")]
mod nats {
    conformance!(super::with_nats);
}
