//! Calls that wait for the host's word. None waits for ever: a host that is slow or gone is not worth it.

/// How long a call waits, in milliseconds. A copy of a large file takes seconds.
const PATIENCE: u64 = 30_000;
/// How often it is looked whether one has waited too long, in milliseconds.
pub const PERIOD: i32 = 1_000;
/// Most calls that wait at once.
const MOST: usize = 256;

/// The calls, in no order.
pub struct Waiting {
    calls: [Option<Call>; MOST],
    count: usize,
}

#[derive(Clone, Copy)]
struct Call {
    id: u64,
    /// When it began to wait.
    since: u64,
}

impl Waiting {
    /// Nobody.
    pub const NOBODY: Waiting = Waiting {
        calls: [None; MOST],
        count: 0,
    };

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        self.count < MOST
    }

    /// One more, at this time.
    pub fn add(&mut self, id: u64, since: u64) {
        if let Some(slot) = self.calls.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(Call { id, since });
            self.count += 1;
        }
    }

    /// It goes on.
    pub fn remove(&mut self, id: u64) {
        self.take(|call| call.id == id, |_| {});
    }

    /// Those who have waited for too long at this time go on.
    pub fn release_overdue(&mut self, now: u64, release: impl FnMut(u64)) {
        self.take(|call| now.saturating_sub(call.since) >= PATIENCE, release);
    }

    /// All go on.
    pub fn release_all(&mut self, release: impl FnMut(u64)) {
        self.take(|_| true, release);
    }

    fn take(&mut self, which: impl Fn(&Call) -> bool, mut release: impl FnMut(u64)) {
        if self.is_empty() {
            return;
        }
        for slot in &mut self.calls {
            if let Some(call) = slot.take_if(|call| which(call)) {
                self.count -= 1;
                release(call.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn released(act: impl FnOnce(&mut dyn FnMut(u64))) -> Vec<u64> {
        let mut ids = Vec::new();
        act(&mut |id| ids.push(id));
        ids
    }

    #[test]
    fn who_is_not_answered_goes_on_after_a_while() {
        let mut waiting = Waiting::NOBODY;
        for id in 1..=3 {
            waiting.add(id, id * 1000);
        }
        waiting.remove(1);
        let early = released(|release| waiting.release_overdue(3000, release));
        let late = released(|release| waiting.release_overdue(2000 + PATIENCE, release));
        let rest = released(|release| waiting.release_all(release));
        assert_eq!(
            [early, late, rest],
            [std::vec![], std::vec![2], std::vec![3]]
        );
        assert!(waiting.is_empty());
    }

    #[test]
    fn room_for_calls_is_bounded_and_comes_back() {
        let mut waiting = Waiting::NOBODY;
        for id in 0..MOST as u64 {
            assert!(waiting.has_room());
            waiting.add(id, 0);
        }
        assert!(!waiting.has_room());
        waiting.remove(7);
        assert!(waiting.has_room());
    }
}
