//! A cell's own time: it stands still while the code waits for an answer from outside.

use std::time::Duration;
use tokio::time::Instant;

/// How much time a cell has left.
///
/// Code that waits in one thread may go on in another. So what it computes meanwhile is charged: of the time that the clock stood
/// still, as much as the processor was busy.
#[derive(Debug)]
pub(crate) struct Clock {
    /// What was left when the hand last changed.
    left: Duration,
    hand: Hand,
    /// How long it stood still since the last charge, and when that was, with how much of the processor used by then.
    stood: Duration,
    charged: Option<(Instant, Duration)>,
}

#[derive(Clone, Copy, Debug)]
enum Hand {
    RunsSince(Instant),
    StandsSince(Instant),
}

impl Clock {
    /// A running clock with this much time.
    pub(crate) fn new(left: Duration, now: Instant) -> Clock {
        Clock {
            left,
            hand: Hand::RunsSince(now),
            stood: Duration::ZERO,
            charged: None,
        }
    }

    /// When the time is up; `None` while it stands still.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.hand {
            Hand::RunsSince(since) => Some(since + self.left),
            Hand::StandsSince(_) => None,
        }
    }

    /// What was charged has used up the time.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    pub(crate) fn stop(&mut self) {
        if let Hand::RunsSince(since) = self.hand {
            let now = Instant::now();
            self.left = self.left.saturating_sub(now - since);
            self.hand = Hand::StandsSince(now);
        }
    }

    pub(crate) fn go_on(&mut self) {
        if let Hand::StandsSince(since) = self.hand {
            let now = Instant::now();
            self.stood += now - since;
            self.hand = Hand::RunsSince(now);
        }
    }

    /// Until now, the session's processes have used this much of the processor in all.
    pub(crate) fn charge(&mut self, used: Duration, now: Instant) {
        if let Hand::StandsSince(since) = self.hand {
            self.stood += now.saturating_duration_since(since);
            self.hand = Hand::StandsSince(now);
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
    fn a_running_clock_is_charged_nothing_more() {
        let begun = Instant::now();
        let mut clock = Clock::new(3 * SECOND, begun);
        let deadline = clock.deadline();
        clock.charge(Duration::ZERO, begun);
        clock.charge(8 * SECOND, begun + 2 * SECOND);
        assert_eq!(clock.deadline(), deadline);
    }
}
