//! A second place for the records of a session: what is not there has not happened.

use crate::scene::{Scene, restore_as};
use crate::support::wait;
use cellblock_host::journal::{Checkpoints, Journal, JournalRecord, JournalSink, Restore};
use cellblock_host::{Host, Session};
use cellblock_protocol::SessionOptions;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps records, and refuses those after the first few.
#[derive(Debug)]
struct Place {
    records: Mutex<Vec<JournalRecord>>,
    most_commits: usize,
    commits: Mutex<usize>,
}

impl Place {
    fn new(most_commits: usize) -> Arc<Place> {
        Arc::new(Place {
            records: Mutex::default(),
            most_commits,
            commits: Mutex::default(),
        })
    }
}

impl JournalSink for Place {
    fn note(&self, record: JournalRecord) {
        self.records.lock().unwrap().push(record);
    }

    fn commit(
        &self,
        record: JournalRecord,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async move {
            // A session that does not wait for this is answered before the record is here.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut commits = self.commits.lock().unwrap();
            *commits += 1;
            if *commits > self.most_commits {
                return Err("the place is full".to_owned());
            }
            self.records.lock().unwrap().push(record);
            Ok(())
        })
    }
}

fn value(session: &Session, code: &str) -> String {
    let result = wait(session.run(code)).unwrap();
    result.repr().unwrap_or_default().to_owned()
}

#[test]
fn a_record_is_at_its_second_place_before_the_caller_is_answered() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("x = 1");
    let before = wait(session.records()).unwrap();
    let place = Place::new(usize::MAX);
    session.commit_to(Arc::clone(&place) as Arc<dyn JournalSink>);
    session.good("x += 1");
    wait(session.undo(1)).unwrap();
    wait(session.put_file("a.txt", b"text".to_vec())).unwrap();
    let names: Vec<String> = place.records.lock().unwrap().iter().map(name).collect();
    assert_eq!(names, ["begun", "ended", "undone", "put_file"]);

    // Both together are the session.
    let after = place.records.lock().unwrap().clone();
    let journal = Journal::from_records("other", before.into_iter().chain(after)).unwrap();
    let how = Restore::default().checkpoints(Checkpoints::Afterwards);
    let restored = restore_as(how, &journal);
    let seen = value(&restored.session, "(x, open('a.txt').read())");
    assert_eq!(seen, "(1, 'text')");
}

#[test]
fn a_record_that_is_refused_ends_the_session() {
    let scene = Scene::new();
    let session = scene.session();
    session.commit_to(Place::new(1));
    session.good("x = 1");
    let refused = session.attempt("x = 2").unwrap_err().to_string();
    assert!(refused.contains("the place is full"), "{refused}");
    assert!(session.attempt("x").is_err());
}

#[test]
fn sessions_with_the_same_seeds_draw_the_same_numbers_and_order_sets_alike() {
    let drawn = |hash_seed: u32, random_seed: u32| {
        let host = Host::builder().hash_seed(hash_seed).build().unwrap();
        let options = SessionOptions {
            random_seed: Some(random_seed),
            ..SessionOptions::default()
        };
        let session = wait(host.open(options)).unwrap();
        let order = value(&session, "list({str(n) for n in range(99)})");
        value(&session, "import random, os");
        let numbers = value(
            &session,
            "random.random(), os.environ.get('PYTHONHASHSEED')",
        );
        wait(session.close());
        (order, numbers)
    };
    let (order, numbers) = drawn(5, 7);
    assert_eq!(drawn(5, 7), (order.clone(), numbers.clone()));
    let (other_order, other_numbers) = drawn(6, 8);
    assert_ne!(order, other_order);
    assert_ne!(numbers, other_numbers);
    assert!(numbers.ends_with("None)"), "{numbers}");
}

fn name(record: &JournalRecord) -> String {
    let value = serde_json::to_value(record).unwrap();
    value["record"].as_str().unwrap().to_owned()
}
