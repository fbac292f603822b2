use super::*;
use std::sync::Barrier;
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::oneshot::error::TryRecvError;

type Sender = mpsc::UnboundedSender<Command>;
type ListReceiver = oneshot::Receiver<CheckpointList>;

fn queue() -> (Sender, CommandQueue) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, CommandQueue::new(receiver))
}

/// Gives a command. `None` where the queue takes no more.
fn ask(sender: &Sender) -> Option<ListReceiver> {
    let (reply, answer) = oneshot::channel();
    let command = Command::Immediate(ImmediateCommand::Checkpoints { reply });
    sender.send(command).ok().map(|()| answer)
}

fn is_waiting(answer: &mut ListReceiver) -> bool {
    matches!(answer.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn no_caller_waits_for_a_session_that_ends_while_the_command_is_given() {
    let runtime = Builder::new_current_thread().build().unwrap();
    no_caller_is_left_by(|mut queue| runtime.block_on(queue.refuse_all()));
}

#[test]
fn no_caller_waits_for_a_session_whose_task_is_gone_while_the_command_is_given() {
    no_caller_is_left_by(drop);
}

fn no_caller_is_left_by(end: impl Fn(CommandQueue)) {
    const ROUNDS: usize = 20;
    const CALLERS: usize = 8;
    for round in 0..ROUNDS {
        // It lives as long as a caller waits, as the handle of a session does.
        let (sender, queue) = queue();
        let start = Barrier::new(CALLERS + 1);
        let mut answers = thread::scope(|scope| {
            let give_commands = || {
                start.wait();
                std::iter::from_fn(|| ask(&sender)).collect::<Vec<_>>()
            };
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(give_commands)).collect();
            start.wait();
            thread::yield_now();
            end(queue);
            let answers = callers.into_iter().map(|caller| caller.join().unwrap());
            answers.flatten().collect::<Vec<_>>()
        });
        let given = answers.len();
        answers.retain_mut(is_waiting);
        assert_eq!(answers.len(), 0, "of {given} callers, in round {round}");
    }
}

#[tokio::test]
async fn a_caller_is_refused_before_the_session_is_taken_apart() {
    let (sender, mut queue) = queue();
    let mut answer = ask(&sender).unwrap();
    let (reply, mut postponed) = oneshot::channel();
    queue.postpone(Command::Immediate(ImmediateCommand::Checkpoints { reply }));
    queue.refuse_all().await;
    assert!(!is_waiting(&mut answer) && !is_waiting(&mut postponed));
}

#[tokio::test]
async fn every_caller_that_closes_a_session_waits_until_nothing_is_left() {
    let (sender, mut queue) = queue();
    let closed: Vec<_> = (0..2)
        .map(|_| {
            let (reply, closed) = oneshot::channel();
            assert!(sender.send(Command::Close { reply }).is_ok());
            closed
        })
        .collect();
    queue.refuse_all().await;
    let closing = queue.take_closing();
    assert_eq!(closing.len(), closed.len());
    for (closing, mut closed) in closing.into_iter().zip(closed) {
        assert_eq!(closed.try_recv(), Err(TryRecvError::Empty));
        closing.send(()).unwrap();
        assert_eq!(closed.await, Ok(()));
    }
}
