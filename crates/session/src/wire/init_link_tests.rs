use super::*;
use cellblock_native::wire::message::{Message, from_init};
use cellblock_sandbox::{BootTime, packet_pair, receive_packet, send_packet};

/// The link under test, and init's end of the socket.
fn link() -> (InitLink, OwnedFd) {
    let (near, far) = packet_pair().unwrap();
    (InitLink::new(near).unwrap(), far)
}

fn say(init: &OwnedFd, kind: u64, a: u64, b: u64) {
    let message = Message { kind, a, b, c: 0 };
    send_packet(init, &message.to_bytes(), &[]).unwrap();
}

fn protect(pid: u32) -> Protect {
    Protect {
        pid,
        origin: StandbyOrigin::Since(BootTime::now()),
    }
}

#[tokio::test]
async fn events_that_come_before_an_answer_are_kept_in_order() {
    let (mut link, init) = link();
    say(&init, from_init::LOST, 7, 0);
    say(&init, from_init::LOST, 8, 0);
    say(&init, from_init::PROTECTED, 5, 0);
    say(&init, from_init::LOST, 9, 0);
    assert!(link.request(protect(5)).await.unwrap());
    let mut lost = Vec::new();
    for _ in 0..3 {
        match link.next_event().await.unwrap() {
            InitEvent::StandbyLost { pid } => lost.push(pid),
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(lost, [7, 8, 9]);
}

#[tokio::test]
async fn each_answer_goes_to_its_own_request_in_any_order() {
    let (mut link, init) = link();
    let mut first = link.send_request(protect(5), &[]).await.unwrap();
    let mut second = link.send_request(Wake { pid: 6 }, &[]).await.unwrap();
    say(&init, from_init::WOKEN, 6, 0);
    say(&init, from_init::PROTECTED, 5, 3);
    assert!(!link.wait_for(&mut first).await.unwrap());
    assert!(link.wait_for(&mut second).await.unwrap());
}

#[tokio::test]
async fn an_answer_arrives_while_the_task_waits_for_events() {
    let (mut link, init) = link();
    let answer = link.send_request(protect(5), &[]).await.unwrap();
    say(&init, from_init::PROTECTED, 5, 0);
    say(&init, from_init::LOST, 7, 0);
    link.next_event().await.unwrap();
    assert_eq!(answer.await, Some(true));
}

#[tokio::test]
async fn an_answer_that_no_caller_waits_for_is_not_taken_for_the_next_one() {
    let (mut link, init) = link();
    drop(link.send_request(protect(5), &[]).await.unwrap());
    say(&init, from_init::PROTECTED, 5, 3);
    let mut second = link.send_request(protect(6), &[]).await.unwrap();
    say(&init, from_init::PROTECTED, 6, 0);
    assert!(link.wait_for(&mut second).await.unwrap());
    assert!(link.waiting.is_empty());
}

#[tokio::test]
async fn the_end_of_init_ends_every_wait() {
    let (mut link, init) = link();
    let mut answer = link.send_request(protect(5), &[]).await.unwrap();
    receive_packet(&init, 4096).unwrap();
    drop(init);
    assert!(link.next_event().await.is_err());
    assert!(link.wait_for(&mut answer).await.is_err());
    drop(link);
    assert_eq!(answer.await, None);
}
