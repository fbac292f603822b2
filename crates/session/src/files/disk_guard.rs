//! The task that holds a session to its disk limit, while a cell runs and between cells.
//!
//! It hears of every write to a watched directory, and then looks as often as the session could fill the room that is left. A session
//! that makes files by the thousand stands still during a look that takes long. All processes of a session that is over its limit are killed
//! at once, but for its standbys, and again until the session's own task takes over, which judges. The task runs on threads that come before the
//! session's processes.

use crate::actor::exit_status::LimitHit;
use crate::files::disk::{Added, DiskMeter, Look, Standstill};
use crate::files::unlinked::WriteCount;
use crate::files::watch_runtime::watch_runtime;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until};

/// How often a session is looked at whose writes are not heard of. The cells' own clocks ask for a look as often.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// How often the processes of a session that is over its limit are killed: a list of processes may miss one that was just started.
const KILL_PERIOD: Duration = Duration::from_millis(20);
/// The least time between two looks.
const MIN_PAUSE: Duration = Duration::from_millis(2);
/// A look at a session that floods its workspace may take this long before the session stands still.
const STANDSTILL_AFTER: Duration = Duration::from_millis(100);
/// The longest time without a look after one that took long, if the room that is left asks for the next one.
const MAX_REST: Duration = Duration::from_millis(10);
/// Files that a session may add before a look that takes long makes it stand still.
const MANY_FILES: usize = 10_000;
/// Bytes in a second that many processes together may write. Where more were seen, twice that.
const MAX_BYTES_PER_SECOND: f64 = 8e9;

/// The processes whose disk use is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    /// The guard does not watch: the host itself works on the files.
    None,
    /// A cell: whatever is new in the workspace counts as its work.
    Cell,
    /// The guard watches what cells left running. A person may work in the workspace too, so what the session's processes cannot have written does not count.
    LeftBehind,
}

/// The commands for the guard's task.
#[derive(Clone, Copy, Debug)]
struct GuardCommands {
    target: WatchTarget,
    since: Instant,
    /// `None` for no limit.
    limit: Option<u64>,
    /// The bytes and files that the session had added when this duty began.
    ground: Added,
}

/// The report of the guard's task after each look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GuardReport {
    /// How much of the processor the session's processes have used.
    pub(crate) processor: Duration,
}

/// The session's side of it. The task ends when this is dropped.
#[derive(Debug)]
pub(crate) struct DiskGuard {
    state: Arc<GuardState>,
    reports: watch::Receiver<GuardReport>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct GuardState {
    commands: Mutex<GuardCommands>,
    /// The limit that the session is over, until its own task has dealt with that.
    hit: Mutex<Option<LimitHit>>,
    /// Wakes the task for a look now.
    nudge: Notify,
}

impl GuardState {
    /// Kills the session's processes if it has `added` more than it may, unless another look has done so. On the thread that looked: another one
    /// would have to wait for a processor first, while the session writes.
    fn end_if_over(&self, meter: &DiskMeter, commands: &GuardCommands, added: Added) {
        // Locked until the processes are killed: the session's task changes the commands before it wakes another head, which must not be killed.
        let current = lock(&self.commands);
        // The host may be at work on the files by now, or a cell has begun.
        let is_current = current.since == commands.since;
        let Some(hit) = added.over(commands.limit).filter(|_| is_current) else {
            return;
        };
        if lock(&self.hit).replace(hit).is_none() {
            meter.kill_code();
        }
    }

    /// Kills the processes of a session that is over its limit once more, unless the session's task has taken over.
    fn kill_again(&self, meter: &DiskMeter) {
        let commands = lock(&self.commands);
        let is_hit = lock(&self.hit).is_some();
        if is_hit && commands.target != WatchTarget::None {
            meter.kill_code();
        }
    }
}

impl DiskGuard {
    pub(crate) fn new(meter: Arc<DiskMeter>) -> DiskGuard {
        let commands = GuardCommands {
            target: WatchTarget::None,
            since: Instant::now(),
            limit: None,
            ground: Added::default(),
        };
        let state = Arc::new(GuardState {
            commands: Mutex::new(commands),
            hit: Mutex::default(),
            nudge: Notify::new(),
        });
        let (sender, reports) = watch::channel(GuardReport::default());
        let task = GuardTask {
            meter,
            state: Arc::clone(&state),
            reports: sender,
            last: Last {
                ended: Instant::now(),
                took: Duration::ZERO,
                bytes: 0,
                files: 0,
                rate: 0.0,
                is_ticking: false,
                processor: Duration::ZERO,
                write_count: WriteCount::default(),
            },
            processor: Duration::ZERO,
            has_taken_news: false,
        };
        DiskGuard {
            state,
            reports,
            task: watch_runtime().spawn(task.run()),
        }
    }

    /// Watches another target from now on. No task is woken for it: most cells are over before a look is due.
    pub(crate) fn watch(&mut self, target: WatchTarget, limit: Option<u64>, ground: Added) {
        *lock(&self.state.commands) = GuardCommands {
            target,
            since: Instant::now(),
            limit,
            ground,
        };
        self.reports.mark_unchanged();
    }

    /// The target that is watched now.
    pub(crate) fn target(&self) -> WatchTarget {
        lock(&self.state.commands).target
    }

    /// Asks for a look, whatever was heard.
    pub(crate) fn nudge(&self) {
        self.state.nudge.notify_one();
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> GuardReport {
        match self.reports.changed().await {
            Ok(()) => *self.reports.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }

    /// The limit that the session is over, if it is.
    pub(crate) fn hit(&self) -> Option<LimitHit> {
        lock(&self.state.hit).clone()
    }

    /// The session was dealt with.
    pub(crate) fn forget_hit(&self) {
        if lock(&self.state.hit).take().is_some() {
            self.nudge();
        }
    }
}

impl Drop for DiskGuard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task.
struct GuardTask {
    meter: Arc<DiskMeter>,
    state: Arc<GuardState>,
    reports: watch::Sender<GuardReport>,
    last: Last,
    /// How much of the processor had been used when what cells left behind was first looked at.
    processor: Duration,
    /// Whether the last look was followed by one at names alone, or files may still grow that it saw: the next look is due without news.
    has_taken_news: bool,
}

/// The last look.
struct Last {
    ended: Instant,
    took: Duration,
    bytes: u64,
    files: usize,
    /// Bytes in a second that were new.
    rate: f64,
    /// Whether there are things of which nothing is heard.
    is_ticking: bool,
    processor: Duration,
    write_count: WriteCount,
}

/// Why to look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    News,
    Nudge,
    Tick,
}

impl GuardTask {
    async fn run(mut self) {
        loop {
            if lock(&self.state.hit).is_some() {
                let (state, meter) = (Arc::clone(&self.state), Arc::clone(&self.meter));
                let _ = spawn_blocking(move || state.kill_again(&meter)).await;
                sleep(KILL_PERIOD).await;
                continue;
            }
            let cause = self.wait().await;
            let commands = *lock(&self.state.commands);
            if commands.target == WatchTarget::None {
                // Events that are not taken would wake the task again at once.
                sleep(LOOK_PERIOD / 10).await;
                continue;
            }
            let meter = Arc::clone(&self.meter);
            if cause == Cause::Tick && commands.target == WatchTarget::LeftBehind {
                let (write_count, processor) = (self.last.write_count, self.last.processor);
                let is_idle = spawn_blocking(move || meter.is_idle_since(write_count, processor));
                if is_idle.await.unwrap_or(false) {
                    continue;
                }
            }
            let begun = Instant::now();
            let enough = commands
                .limit
                .filter(|_| commands.target == WatchTarget::Cell);
            let Some((look, standstill)) = self.look(&commands, enough).await else {
                continue;
            };
            // The host may be at work on the files by now, or a cell has begun.
            let is_current = lock(&self.state.commands).since == commands.since;
            let added = if is_current {
                self.own_work(&look, &commands)
            } else {
                look.added
            };
            self.note(&look, added, begun);
            self.has_taken_news |= look.added.is_growing;
            if added.over(commands.limit).is_some() {
                let (state, meter) = (Arc::clone(&self.state), Arc::clone(&self.meter));
                let _ = spawn_blocking(move || state.end_if_over(&meter, &commands, added)).await;
            }
            // Init must run to end the others.
            drop(standstill);
            self.reports.send_replace(GuardReport {
                processor: look.processor,
            });
        }
    }

    /// Looks at the session. If it makes files faster than they can be looked at, it stands still meanwhile: a look would never catch up.
    ///
    /// To look at many processes takes long. So files with a name are looked at again all the time, and if they alone are over the limit
    /// `enough`, nothing else is waited for.
    async fn look(
        &mut self,
        commands: &GuardCommands,
        enough: Option<u64>,
    ) -> Option<(Look, Option<Standstill>)> {
        self.has_taken_news = false;
        let (state, meter, commands) =
            (Arc::clone(&self.state), Arc::clone(&self.meter), *commands);
        let mut looking = spawn_blocking(move || {
            let look = meter.look(enough);
            if enough.is_some() {
                state.end_if_over(&meter, &commands, look.added);
            }
            look
        });
        let begun = Instant::now();
        let mut names: Option<(JoinHandle<Added>, Instant)> = None;
        let mut pause = MIN_PAUSE;
        loop {
            // A session can begin to flood its workspace while it is looked at.
            let floods = self.last.files > MANY_FILES || self.meter.has_lost_paths();
            if floods && begun.elapsed() >= STANDSTILL_AFTER {
                break;
            }
            let is_time_for_names = enough.is_some() && !floods && names.is_none();
            let at_names = async {
                match &mut names {
                    Some((names, begun_at_names)) => (names.await, *begun_at_names),
                    None => std::future::pending().await,
                }
            };
            let (added, begun_at_names) = tokio::select! {
                look = &mut looking => return Some((look.ok()?, None)),
                added = at_names => added,
                () = sleep(pause), if is_time_for_names => {
                    let (state, meter) = (Arc::clone(&self.state), Arc::clone(&self.meter));
                    let looking_at_names = spawn_blocking(move || {
                        let added = meter.look_at_names();
                        state.end_if_over(&meter, &commands, added);
                        added
                    });
                    names = Some((looking_at_names, Instant::now()));
                    self.has_taken_news = true;
                    continue;
                }
                () = sleep(STANDSTILL_AFTER) => continue,
            };
            names = None;
            let added = added.ok()?;
            // Most of the time is left to the look at everything.
            pause = (3 * begun_at_names.elapsed()).clamp(MIN_PAUSE, MAX_REST);
            if added.over(enough).is_some() {
                let look = Look {
                    added,
                    ..Look::default()
                };
                return Some((look, None));
            }
        }
        let meter = Arc::clone(&self.meter);
        let standstill = spawn_blocking(move || meter.stand_still()).await;
        Some((looking.await.ok()?, standstill.ok().flatten()))
    }

    async fn wait(&self) -> Cause {
        let is_ticking = self.last.is_ticking;
        let news = async {
            if !self.has_taken_news {
                self.meter.wait_for_change().await;
            }
        };
        tokio::select! {
            () = self.state.nudge.notified() => Cause::Nudge,
            () = news => {
                let commands = *lock(&self.state.commands);
                sleep_until(self.last.ended.max(commands.since) + self.pause(commands.limit)).await;
                Cause::News
            }
            () = sleep(LOOK_PERIOD), if is_ticking => Cause::Tick,
        }
    }

    /// How long the session needs at least for the room that is left; but a look that takes long must not be all that the machine does.
    fn pause(&self, limit: Option<u64>) -> Duration {
        let room = limit.unwrap_or(u64::MAX).saturating_sub(self.last.bytes);
        let needed = room as f64 / MAX_BYTES_PER_SECOND.max(2.0 * self.last.rate);
        Duration::from_secs_f64(needed.min(LOOK_PERIOD.as_secs_f64()))
            .max(MIN_PAUSE)
            .max(if self.last.files > MANY_FILES {
                self.last.took.min(STANDSTILL_AFTER)
            } else {
                self.last.took.min(MAX_REST)
            })
    }

    /// Takes in a look, with `added` of it the session's.
    fn note(&mut self, look: &Look, added: Added, begun: Instant) {
        let Added { bytes, files, .. } = added;
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.last.ended);
        let new = bytes.saturating_sub(self.last.bytes) as f64;
        self.last = Last {
            ended: now,
            took: now - begun,
            bytes,
            files,
            rate: new / passed.as_secs_f64().max(1e-3),
            is_ticking: look.is_ticking,
            processor: look.processor,
            write_count: look.write_count,
        };
    }

    /// The additions that a look found, without those that cannot be the work of the session's own processes.
    fn own_work(&mut self, look: &Look, commands: &GuardCommands) -> Added {
        if commands.target == WatchTarget::Cell {
            return look.added;
        }
        let is_first = self.last.ended < commands.since;
        if is_first {
            self.processor = look.processor;
        }
        let known = if is_first {
            commands.ground.bytes
        } else {
            self.last.bytes
        };
        let brought = bytes_brought(look, known, &self.last.write_count, self.last.processor);
        self.meter.accept(brought);
        let ran = look.processor.saturating_sub(self.processor);
        let files = files_brought(look.added.files, commands.ground.files, ran);
        Added {
            bytes: look.added.bytes - brought,
            files: look.added.files - files,
            beyond: look.added.beyond && !ran.is_zero(),
            vanished: look.added.vanished,
            is_growing: look.added.is_growing,
        }
    }
}

/// Of the bytes that are new since `known`, those that the session's processes cannot have written.
fn bytes_brought(look: &Look, known: u64, write_count: &WriteCount, processor: Duration) -> u64 {
    let new = look.added.bytes.saturating_sub(known);
    if look.write_count.other_processes > write_count.other_processes {
        // What a process wrote may be forgotten with it.
        0
    } else if look.counts_writes && look.write_count.is_whole {
        new.saturating_sub(look.write_count.bytes.saturating_sub(write_count.bytes))
    } else if look.processor == processor {
        new
    } else {
        0
    }
}

/// Of the files that are new, those that the session's processes cannot have made in the time that they `ran`.
fn files_brought(files: usize, known: usize, ran: Duration) -> usize {
    /// To make a file takes at least this long.
    const ONE_FILE: Duration = Duration::from_micros(2);
    let new = files.saturating_sub(known);
    let needed = ONE_FILE * u32::try_from(new).unwrap_or(u32::MAX);
    if ran >= needed { 0 } else { new }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "disk_guard_tests.rs"]
mod tests;
