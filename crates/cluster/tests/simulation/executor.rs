//! A single-threaded executor with a clock of its own, whose every choice comes from a seed.
//!
//! Tasks belong to groups: a group is a process. A group can be killed (its tasks are dropped) or paused (its tasks are not polled, while
//! time goes on), which is what `kill -9` and `SIGSTOP` do.

use cellblock_cluster::{BoxFuture, Runtime};
use cellblock_test_support::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A process of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group(pub(crate) u32);

/// The engine, the gateways and the callers: this group is never killed.
pub(crate) const OUTSIDE: Group = Group(0);

type TaskNumber = u64;

#[derive(Clone)]
pub(crate) struct Executor {
    state: Arc<Mutex<ExecutorState>>,
    ready: Arc<Mutex<BTreeSet<TaskNumber>>>,
}

struct ExecutorState {
    now: Duration,
    next_number: u64,
    tasks: BTreeMap<TaskNumber, Task>,
    timers: BTreeMap<(Duration, u64), Waker>,
    paused: BTreeSet<Group>,
    dice: Dice,
}

struct Task {
    group: Group,
    /// `None` while the task is polled.
    future: Option<BoxFuture<'static, ()>>,
}

impl Executor {
    pub(crate) fn new(dice: Dice) -> Executor {
        let state = ExecutorState {
            now: Duration::ZERO,
            next_number: 0,
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            paused: BTreeSet::new(),
            dice,
        };
        Executor {
            state: Arc::new(Mutex::new(state)),
            ready: Arc::default(),
        }
    }

    /// The runtime of a group.
    pub(crate) fn runtime(&self, group: Group) -> Arc<dyn Runtime> {
        Arc::new(GroupRuntime {
            executor: self.clone(),
            group,
        })
    }

    pub(crate) fn kill(&self, group: Group) {
        let mut state = self.state.lock().unwrap();
        let is_killed = |task: &Task| task.group == group;
        let killed: Vec<_> = state
            .tasks
            .iter()
            .filter(|(_, task)| is_killed(task))
            .map(|(number, _)| *number)
            .collect();
        let killed: Vec<_> = killed
            .iter()
            .map(|number| state.tasks.remove(number))
            .collect();
        drop(state);
        // Futures may wake others or drop timers when they are dropped, so the lock is not held.
        drop(killed);
    }

    pub(crate) fn pause(&self, group: Group) {
        self.state.lock().unwrap().paused.insert(group);
    }

    pub(crate) fn resume(&self, group: Group) {
        self.state.lock().unwrap().paused.remove(&group);
    }

    /// Polls tasks and lets time go on until `is_over`.
    ///
    /// # Panics
    /// When nothing can happen any more, or after `longest` of simulated time.
    pub(crate) fn run(&self, longest: Duration, is_over: impl Fn() -> bool) {
        while !is_over() {
            match self.choose() {
                Some(number) => self.poll(number),
                None => self.let_time_go_on(longest),
            }
        }
    }

    /// One of the tasks that can be polled, by chance.
    fn choose(&self) -> Option<TaskNumber> {
        let mut state = self.state.lock().unwrap();
        let mut ready = self.ready.lock().unwrap();
        ready.retain(|number| state.tasks.contains_key(number));
        let can_run = |number: &&TaskNumber| !state.paused.contains(&state.tasks[*number].group);
        let runnable: Vec<_> = ready.iter().filter(can_run).copied().collect();
        if runnable.is_empty() {
            return None;
        }
        let number = *state.dice.pick(&runnable);
        ready.remove(&number);
        Some(number)
    }

    fn poll(&self, number: TaskNumber) {
        let future = {
            let mut state = self.state.lock().unwrap();
            let task = state.tasks.get_mut(&number);
            task.and_then(|task| task.future.take())
        };
        let Some(mut future) = future else {
            return;
        };
        let waker = Waker::from(Arc::new(TaskWaker {
            number,
            ready: Arc::clone(&self.ready),
        }));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state.lock().unwrap();
        if polled.is_ready() {
            state.tasks.remove(&number);
        } else if let Some(task) = state.tasks.get_mut(&number) {
            task.future = Some(future);
            return;
        }
        drop(state);
        drop(future);
    }

    fn let_time_go_on(&self, longest: Duration) {
        let mut state = self.state.lock().unwrap();
        let ((time, _), waker) = state
            .timers
            .pop_first()
            .expect("nothing can happen any more");
        state.now = state.now.max(time);
        assert!(state.now < longest, "the simulation does not end");
        drop(state);
        waker.wake();
    }
}

struct TaskWaker {
    number: TaskNumber,
    ready: Arc<Mutex<BTreeSet<TaskNumber>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap().insert(self.number);
    }
}

struct GroupRuntime {
    executor: Executor,
    group: Group,
}

impl Runtime for GroupRuntime {
    fn now(&self) -> Duration {
        self.executor.state.lock().unwrap().now
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.executor.state.lock().unwrap();
        state.next_number += 1;
        Box::pin(Sleep {
            state: Arc::clone(&self.executor.state),
            key: (state.now + time, state.next_number),
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut state = self.executor.state.lock().unwrap();
        state.next_number += 1;
        let number = state.next_number;
        let future = Some(task);
        let group = self.group;
        state.tasks.insert(number, Task { group, future });
        self.executor.ready.lock().unwrap().insert(number);
    }
}

struct Sleep {
    state: Arc<Mutex<ExecutorState>>,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.now >= self.key.0 {
            return Poll::Ready(());
        }
        state.timers.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.state.lock().unwrap().timers.remove(&self.key);
    }
}
