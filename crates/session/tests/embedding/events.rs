//! Many readers of the events of one session.

use crate::support::{Python, session, wait};
use cellblock_protocol::{Event, SessionEvent};
use cellblock_session::{Error, EventReader};
use std::sync::Arc;
use std::time::Duration;

/// Reads until the result of the cell with this number.
fn until_result(reader: &mut EventReader, cell: u64) -> Vec<Arc<SessionEvent>> {
    let mut events = Vec::new();
    loop {
        let next =
            wait(async { tokio::time::timeout(Duration::from_secs(60), reader.next()).await });
        let event = next.expect("no event came").unwrap().unwrap();
        events.push(Arc::clone(&event));
        if matches!(event.event, Event::Result { .. }) && event.cell == Some(cell) {
            return events;
        }
    }
}

fn kinds(events: &[Arc<SessionEvent>]) -> Vec<(u64, Option<u64>, String)> {
    let kind = |event: &Event| match event {
        Event::Begun { code, .. } => format!("begun {code}"),
        Event::Stdout { text } => text.trim().to_owned(),
        Event::Result { result } => result.status.name().to_owned(),
        other => format!("{other:?}"),
    };
    let events = events.iter();
    events
        .map(|event| (event.seq, event.cell, kind(&event.event)))
        .collect()
}

fn started(session: &Python) -> u64 {
    session.newest_event()
}

#[test]
fn every_reader_sees_every_event_also_those_before_it_came() {
    let session = session();
    let before = started(&session);
    let mut early = session.events(before).unwrap();
    // One write: a line and its end can be two events.
    let code = "print('one', end='')";
    session.good(code);
    let expected = [
        (before + 1, Some(1), format!("begun {code}")),
        (before + 2, Some(1), "one".to_owned()),
        (before + 3, Some(1), "success".to_owned()),
    ];
    assert_eq!(kinds(&until_result(&mut early, 1)), expected);
    let mut late = session.events(before).unwrap();
    assert_eq!(kinds(&until_result(&mut late, 1)), expected);
    let mut in_the_middle = session.events(before + 2).unwrap();
    assert_eq!(kinds(&until_result(&mut in_the_middle, 1)), expected[2..]);
}

#[test]
fn events_that_are_not_kept_are_a_gap_and_the_reader_goes_on_after_it() {
    let session = session();
    let before = started(&session);
    let mut slow = session.events(before).unwrap();
    session.good("import os\nfor n in range(200): os.write(1, b'x' * 65536)");
    let Err(Error::EventGap(gap)) = session.events(before) else {
        panic!("13 MB are kept")
    };
    assert_eq!(gap.after, before);
    assert!(
        gap.oldest > before + 1 && gap.newest == session.newest_event(),
        "{gap:?}"
    );
    assert_eq!(wait(slow.next()).unwrap().unwrap_err(), gap);
    assert_eq!(wait(slow.next()).unwrap().unwrap().seq, gap.oldest);
    assert_eq!(Error::EventGap(gap).code(), "gap");
}

#[test]
fn readers_end_with_the_session() {
    let session = session();
    let mut reader = session.events(started(&session)).unwrap();
    session.good("1");
    wait(session.close());
    until_result(&mut reader, 1);
    assert!(wait(reader.next()).is_none());
}
