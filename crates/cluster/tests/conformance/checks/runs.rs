//! The queue of runs, and the directory that it works on.

use super::{entry, eventually, new_node, new_session, record};
use crate::counted::counted;
use crate::tokio_runtime;
use cellblock_cluster::engine::{ClaimError, Engine, Followed};
use cellblock_cluster::{RecordBody, RunError, RunQueue, RunTicket, SessionId, Submitted};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeMap;

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

/// How many runs wait while the requests of one more are counted.
const WAITING: usize = 2_000;

pub(crate) async fn the_cost_of_a_run_does_not_grow_with_the_queue(engine: Engine) {
    let (engine, counts) = counted(&engine);
    let (queue, node) = (queue(&engine), new_node());
    let mut costs = Vec::new();
    for waiting in [0, WAITING] {
        let others: Vec<SessionId> = (0..waiting).map(|_| new_session()).collect();
        for some in others.chunks(100) {
            let tickets: Vec<RunTicket> = some.iter().map(|_| ticket("flood")).collect();
            let question = json!("why?");
            let submits = some.iter().zip(&tickets);
            let submits = submits.map(|(id, ticket)| queue.submit(id, &node, ticket, &question));
            for submitted in join_all(submits).await {
                assert_eq!(submitted, Ok(Submitted::New));
            }
        }
        assert_eq!(queue.open_count("flood").await, Ok(waiting));
        counts.take();
        let id = new_session();
        let submitted = queue.submit(&id, &node, &ticket("u"), &json!("why?")).await;
        assert_eq!(submitted, Ok(Submitted::New));
        let submit = counts.take();
        // A look at a run that waits, as its description needs it.
        let run = queue.find(&id).await.unwrap().unwrap();
        let wait = queue.wait(&id, 1, None).await.unwrap().unwrap();
        assert_eq!(wait.ahead, waiting.min(1));
        assert_eq!(queue.open_count("u").await, Ok(1));
        let look = counts.take();
        let mut taken = queue.take_for_end(&run, &node).await.unwrap().unwrap();
        let finished = queue.finish(&id, &mut taken.journal, json!("done")).await;
        finished.unwrap();
        costs.push((submit, look, counts.take()));
    }
    let look = BTreeMap::from([("get", 1)]);
    let submit = BTreeMap::from([("append", 1), ("claim", 1)]);
    assert_eq!((&costs[0].0, &costs[0].1), (&submit, &look));
    assert_eq!(costs[0], costs[1]);
}

pub(crate) async fn a_queue_learns_what_other_nodes_do(engine: Engine) {
    let (here, there, node) = (queue(&engine), queue(&engine), new_node());
    let (id, second) = (new_session(), new_session());
    let submit = async |id| here.submit(id, &node, &ticket("u"), &json!("why?")).await;
    submit(&id).await.unwrap();
    let is_open = async || there.open_count("u").await == Ok(1);
    eventually("the run is known elsewhere", is_open).await;
    let mut taken = here.take(&node, 1, |_| false).await.unwrap().unwrap();
    submit(&second).await.unwrap();
    let waits = async || {
        let waits = there.wait(&second, 1, None).await.unwrap();
        waits.is_some() && there.wait(&id, 1, None).await == Ok(None)
    };
    eventually("the claim and the second run are known elsewhere", waits).await;
    let finished = here.finish(&id, &mut taken.journal, json!("done"));
    finished.await.unwrap();
    eventually("the end is known elsewhere", is_open).await;
    // A queue that is opened now knows the same.
    let late = queue(&engine).open_runs().await.unwrap();
    let ids: Vec<_> = late.iter().map(|run| &run.id).collect();
    assert_eq!(ids, [&second]);
}

pub(crate) async fn a_follower_is_told_entries_and_then_changes(engine: Engine) {
    let runs = &engine.runs;
    let (first, removed, later) = (new_session(), new_session(), new_session());
    let one = entry("a");
    let epoch = runs.claim(&first, None, &one).await.unwrap();
    runs.claim(&removed, None, &one).await.unwrap();
    runs.remove(&removed).await.unwrap();
    let mut reader = runs.follow().await.unwrap();
    let mut told = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            Followed::Changed { entry: None, .. } => {}
            Followed::Current => break,
            change => told.push(change),
        }
    }
    let changed = |id: &SessionId, epoch, entry| Followed::Changed {
        id: id.clone(),
        epoch,
        entry,
    };
    assert_eq!(told, [changed(&first, epoch, Some(one.clone()))]);
    let later_epoch = runs.claim(&later, None, &one).await.unwrap();
    let next = reader.next().await.unwrap();
    assert_eq!(next, changed(&later, later_epoch, Some(one.clone())));
    runs.remove(&first).await.unwrap();
    match reader.next().await.unwrap() {
        Followed::Changed { id, epoch, entry } => {
            assert_eq!((id, entry), (first.clone(), None));
            assert!(epoch > later_epoch);
        }
        Followed::Current => panic!("told twice"),
    }
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
