//! A cell's own time: it stands still while the code waits for an answer from outside.

use std::time::Duration;
use tokio::time::Instant;

/// How much time a cell has left.
///
/// Code that waits in one thread may go on in another. So what it computes meanwhile is charged: of the time that the clock stood
/// still, as much as the processor was busy.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The time that was left when the state last changed.
    left: Duration,
    state: ClockState,
    /// How long it stood still since the last charge, and when that was, with how much of the processor used by then.
    stood: Duration,
    charged: Option<(Instant, Duration)>,
}

#[derive(Clone, Copy, Debug)]
enum ClockState {
    RunningSince(Instant),
    StoppedSince(Instant),
}

impl Clock {
    /// A running clock with this much time.
    pub(crate) fn new(left: Duration, now: Instant) -> Clock {
        Clock {
            left,
            state: ClockState::RunningSince(now),
            stood: Duration::ZERO,
            charged: None,
        }
    }

    /// The time when the clock runs out; `None` while it stands still.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            ClockState::RunningSince(since) => Some(since + self.left),
            ClockState::StoppedSince(_) => None,
        }
    }

    /// Whether the charges have used up the time.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    pub(crate) fn stop(&mut self) {
        if let ClockState::RunningSince(since) = self.state {
            let now = Instant::now();
            self.left = self.left.saturating_sub(now - since);
            self.state = ClockState::StoppedSince(now);
        }
    }

    pub(crate) fn go_on(&mut self) {
        if let ClockState::StoppedSince(since) = self.state {
            let now = Instant::now();
            self.stood += now - since;
            self.state = ClockState::RunningSince(now);
        }
    }

    /// Time in which the host itself did not run does not count: the host could neither hear the cell nor answer it.
    pub(crate) fn exclude(&mut self, lost: Duration) {
        match &mut self.state {
            ClockState::RunningSince(since) | ClockState::StoppedSince(since) => *since += lost,
        }
    }

    /// Until now, the session's processes have used this much of the processor in all.
    pub(crate) fn charge(&mut self, used: Duration, now: Instant) {
        if let ClockState::StoppedSince(since) = self.state {
            self.stood += now.saturating_duration_since(since);
            self.state = ClockState::StoppedSince(now);
        }
        let stood = std::mem::take(&mut self.stood);
        let Some((then, used_then)) = self.charged.replace((now, used)) else {
            return;
        };
        let ran = now.saturating_duration_since(then).saturating_sub(stood);
        let busy = used.saturating_sub(used_then).saturating_sub(ran);
        self.left = self.left.saturating_sub(busy.min(stood));
    }
}

/// Notices when this process did not run for a while: it was suspended, or the machine was.
#[derive(Debug)]
pub(crate) struct SuspendDetector {
    last: Instant,
}

impl SuspendDetector {
    /// How often it must be felt at least.
    pub(crate) const PERIOD: Duration = Duration::from_millis(200);
    /// A machine that has much to do is late by less than this.
    const MAX_SCHEDULING_DELAY: Duration = Duration::from_millis(500);

    pub(crate) fn new(now: Instant) -> SuspendDetector {
        SuspendDetector { last: now }
    }

    /// The time of the next call of [`time_suspended`](SuspendDetector::time_suspended).
    pub(crate) fn next(&self) -> Instant {
        self.last + SuspendDetector::PERIOD
    }

    /// How long this process did not run since it was last felt.
    pub(crate) fn time_suspended(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        if passed > SuspendDetector::PERIOD + SuspendDetector::MAX_SCHEDULING_DELAY {
            passed - SuspendDetector::PERIOD
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn time_that_the_code_waits_is_free() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        clock.charge(Duration::ZERO, begun);
        clock.stop();
        clock.charge(Duration::ZERO, begun + 60 * SECOND);
        assert!(!clock.is_over());
    }

    #[test]
    fn a_thread_that_computes_while_another_waits_is_charged() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        clock.charge(Duration::ZERO, begun);
        clock.stop();
        clock.charge(2 * SECOND, begun + 2 * SECOND);
        assert!(!clock.is_over());
        clock.charge(4 * SECOND, begun + 4 * SECOND);
        assert!(clock.is_over());
    }

    #[test]
    fn many_processes_at_once_are_charged_for_the_time_and_no_more() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        clock.charge(Duration::ZERO, begun);
        clock.stop();
        clock.charge(8 * SECOND, begun + 2 * SECOND);
        assert!(!clock.is_over());
    }

    #[test]
    fn time_in_which_the_host_did_not_run_is_free() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        let mut suspend_detector = SuspendDetector::new(begun);
        let mut now = begun;
        for _ in 0..5 {
            now += SuspendDetector::PERIOD;
            clock.exclude(suspend_detector.time_suspended(now));
        }
        assert_eq!(clock.deadline(), Some(begun + 3 * SECOND));
        now += 60 * SECOND;
        clock.exclude(suspend_detector.time_suspended(now));
        assert_eq!(
            clock.deadline(),
            Some(begun + 63 * SECOND - SuspendDetector::PERIOD)
        );
        // Nothing is forgiven twice, and a clock that stands still stands still.
        clock.exclude(suspend_detector.time_suspended(now));
        clock.stop();
        clock.exclude(60 * SECOND);
        assert_eq!(clock.deadline(), None);
    }

    #[test]
    fn a_running_clock_is_charged_nothing_more() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        let deadline = clock.deadline();
        clock.charge(Duration::ZERO, begun);
        clock.charge(8 * SECOND, begun + 2 * SECOND);
        assert_eq!(clock.deadline(), deadline);
    }
}
