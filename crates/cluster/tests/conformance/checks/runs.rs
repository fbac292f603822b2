//! The queue of runs, and the directory that it works on.

use super::{entry, new_node, new_session, record};
use crate::tokio_runtime;
use cellblock_cluster::engine::{ClaimError, Engine};
use cellblock_cluster::{RecordBody, RunError, RunQueue, RunTicket, SessionId, Submitted};
use serde_json::json;

pub(crate) async fn a_run_is_taken_once_and_its_first_end_stays(engine: Engine) {
    let (queue, node, id) = (queue(&engine), new_node(), new_session());
    let asked = json!({"question": "why?"});
    let submit = async || queue.submit(&id, &node, &ticket("u"), &asked).await;
    assert_eq!(submit().await.unwrap(), Submitted::New);
    assert_eq!(submit().await.unwrap(), Submitted::Known(asked.clone()));
    let mut taken = queue.take(&node, 1, |_| false).await.unwrap().unwrap();
    assert_eq!((&taken.run.id, &taken.asked), (&id, &asked));
    assert_eq!((taken.run.ticket.deliveries, taken.events.len()), (1, 0));
    let has = |run: &SessionId| *run == id;
    assert!(queue.take(&node, 1, has).await.unwrap().is_none());
    let end = json!({"answer": 42});
    let finished = queue.finish(&id, &mut taken.journal, end.clone()).await;
    finished.unwrap();
    assert_eq!(queue.read(&id).await.unwrap().1, Some(end));
    // It is not in the queue any more, and its id is used up.
    assert_eq!(queue.find(&id).await.unwrap(), None);
    assert_eq!(submit().await.unwrap(), Submitted::Known(asked.clone()));
    assert!(queue.take(&node, 1, |_| false).await.unwrap().is_none());
}

pub(crate) async fn a_run_whose_node_is_gone_goes_on_elsewhere_from_its_record(engine: Engine) {
    let (queue, lost, other) = (queue(&engine), new_node(), new_node());
    let id = new_session();
    let (ticket, asked) = (ticket("u"), json!("why?"));
    let submitted = queue.submit(&id, &lost, &ticket, &asked).await;
    submitted.unwrap();
    let mut first = queue.take(&lost, 1, |_| false).await.unwrap().unwrap();
    let event = |text: &str| RecordBody::Event {
        event: json!({ "event": text }),
    };
    first.journal.append(event("first")).await.unwrap();
    // The first node is not among the members: it is gone.
    let mut second = queue.take(&other, 1, |_| false).await.unwrap().unwrap();
    assert_eq!(second.events, [json!({"event": "first"})]);
    assert_eq!(second.run.ticket.deliveries, 2);
    // It was stopped only, and goes on: nothing of it counts.
    let late = first.journal.append(event("late")).await;
    assert_eq!(late, Err(RunError::Fenced));
    let end = queue.finish(&id, &mut first.journal, json!("wrong"));
    assert_eq!(end.await, Err(RunError::Fenced));
    let end = queue.finish(&id, &mut second.journal, json!("right"));
    end.await.unwrap();
    assert_eq!(queue.read(&id).await.unwrap().1, Some(json!("right")));
}

pub(crate) async fn a_run_of_a_living_node_stays_there(engine: Engine) {
    let (queue, node, other) = (queue(&engine), new_node(), new_node());
    engine.members.renew(&record(&node)).await.unwrap();
    let _requests = engine.router.serve(&node).await.unwrap();
    let (id, second) = (new_session(), new_session());
    for id in [&id, &second] {
        let submitted = queue.submit(id, &node, &ticket("u"), &json!("why?")).await;
        submitted.unwrap();
    }
    let taken = queue.take(&node, 1, |_| false).await.unwrap().unwrap();
    // One run goes on, and the user may have one at a time.
    assert!(queue.take(&other, 1, |_| false).await.unwrap().is_none());
    let open = queue.open_runs().await.unwrap();
    assert_eq!(open.len(), 2);
    // A node that stops lets the run wait, and another takes it.
    queue.give_back(&taken.run, &node).await.unwrap();
    let again = queue.take(&other, 1, |_| false).await.unwrap().unwrap();
    assert_eq!(again.run.id, taken.run.id);
    // What was given back is no attempt that failed.
    let ticket = &again.run.ticket;
    assert_eq!((ticket.deliveries, ticket.attempts()), (2, 1));
}

pub(crate) async fn a_removed_entry_is_gone_and_epochs_go_on(engine: Engine) {
    let (session, node) = (new_session(), new_node());
    let claim = async |seen| {
        engine
            .runs
            .claim(&session, seen, &entry(node.as_str()))
            .await
    };
    let epoch = claim(None).await.unwrap();
    engine.runs.remove(&session).await.unwrap();
    assert_eq!(engine.runs.get(&session).await.unwrap(), None);
    assert_eq!(claim(Some(epoch)).await, Err(ClaimError::Lost));
    assert!(claim(None).await.unwrap() > epoch);
}

fn queue(engine: &Engine) -> RunQueue {
    RunQueue::new(engine.clone(), tokio_runtime())
}

fn ticket(user: &str) -> RunTicket {
    RunTicket {
        user: user.to_owned(),
        ..RunTicket::default()
    }
}
