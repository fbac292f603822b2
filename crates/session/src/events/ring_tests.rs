//! The ring of events: a reader that is cut off and goes on loses nothing and repeats nothing.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::ring::{EventGap, EventRing};
use cellblock_protocol::Event;
use proptest::prelude::*;
use std::sync::Arc;

fn stdout(text: impl Into<String>) -> Event {
    Event::Stdout { text: text.into() }
}

/// Something that happens to a ring and to its reader.
#[derive(Clone, Debug)]
enum ReaderStep {
    /// Events come, each with this many bytes.
    Push { count: u16, bytes: usize },
    /// The reader reads at most this many.
    Read(u16),
    /// The reader is cut off, and a new one goes on after the last event that was read.
    Reconnect,
}

fn steps() -> impl Strategy<Value = Vec<ReaderStep>> {
    let push = (0..3000_u16, prop_oneof![Just(1), Just(2000), Just(100_000)])
        .prop_map(|(count, bytes)| ReaderStep::Push { count, bytes });
    let step = prop_oneof![
        push,
        (0..3000_u16).prop_map(ReaderStep::Read),
        Just(ReaderStep::Reconnect)
    ];
    proptest::collection::vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_reader_that_is_cut_off_and_goes_on_loses_and_repeats_nothing(steps in steps()) {
        let ring = Arc::new(EventRing::default());
        let mut reader = ring.read(0).unwrap();
        let mut pushed = 0_u64;
        // Every number is either read or named by a gap, once, in order.
        let mut accounted = 0_u64;
        for step in steps {
            match step {
                ReaderStep::Push { count, bytes } => for _ in 0..count {
                    pushed += 1;
                    ring.push(Some(pushed), stdout("x".repeat(bytes)));
                },
                ReaderStep::Read(count) => for _ in 0..count {
                    match reader.next_kept() {
                        None => prop_assert_eq!(accounted, pushed),
                        Some(Ok(event)) => {
                            prop_assert_eq!(event.seq, accounted + 1);
                            prop_assert_eq!(event.cell, Some(event.seq));
                            accounted = event.seq;
                        }
                        Some(Err(gap)) => {
                            prop_assert_eq!(gap.after, accounted);
                            prop_assert_eq!(gap.newest, pushed);
                            prop_assert!(gap.oldest > accounted + 1 && gap.oldest <= pushed);
                            accounted = gap.oldest - 1;
                        }
                    }
                },
                ReaderStep::Reconnect => match ring.read(reader.position()) {
                    Ok(new) => reader = new,
                    Err(gap) => {
                        accounted = gap.oldest - 1;
                        reader = ring.read(accounted).unwrap();
                    }
                },
            }
            prop_assert_eq!(reader.position(), accounted);
            prop_assert_eq!(ring.newest(), pushed);
        }
    }
}

#[test]
fn the_ring_is_bounded_in_events_and_in_bytes() {
    let ring = Arc::new(EventRing::default());
    for _ in 0..10_000 {
        ring.push(None, stdout("x"));
    }
    assert_eq!(
        ring.read(0).unwrap_err(),
        EventGap {
            after: 0,
            oldest: 10_001 - 4096,
            newest: 10_000
        }
    );
    ring.push(None, stdout("x".repeat(2 << 20)));
    assert!(ring.read(10_000).is_ok());
}

#[test]
fn an_event_that_is_larger_than_the_ring_is_a_gap() {
    let ring = Arc::new(EventRing::default());
    ring.push(None, stdout("x"));
    let mut reader = ring.read(1).unwrap();
    ring.push(None, stdout("x".repeat(20 << 20)));
    let gap = EventGap {
        after: 1,
        oldest: 3,
        newest: 2,
    };
    assert_eq!(reader.next_kept(), Some(Err(gap)));
    assert_eq!(reader.next_kept(), None);
    ring.push(None, stdout("y"));
    assert_eq!(reader.next_kept().unwrap().unwrap().seq, 3);
}

#[test]
fn a_number_from_the_future_is_a_gap() {
    let ring = Arc::new(EventRing::default());
    ring.push(None, stdout("x"));
    let gap = ring.read(2).unwrap_err();
    assert_eq!((gap.after, gap.oldest, gap.newest), (2, 1, 1));
    assert!(gap.to_string().contains("after number 2"), "{gap}");
}

#[tokio::test]
async fn a_reader_waits_for_the_next_event_and_ends_with_the_session() {
    let ring = Arc::new(EventRing::default());
    let mut reader = ring.read(0).unwrap();
    let waiting = tokio::spawn(async move {
        let first = reader.next().await.unwrap().unwrap().seq;
        (first, reader.next().await.is_none())
    });
    tokio::task::yield_now().await;
    ring.push(None, stdout("x"));
    tokio::task::yield_now().await;
    ring.end();
    assert_eq!(waiting.await.unwrap(), (1, true));
}
