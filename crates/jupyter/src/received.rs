//! The signatures of messages that a kernel received, so that none is obeyed twice.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How many signatures are remembered: those of the newest messages.
const MAX_TAGS: usize = 1 << 16;

/// The signatures that came on all channels of one kernel.
#[derive(Debug, Default)]
pub(crate) struct ReceivedTags(Mutex<Tags>);

#[derive(Debug, Default)]
struct Tags {
    known: HashSet<Vec<u8>>,
    /// The same signatures, oldest first.
    order: VecDeque<Vec<u8>>,
}

impl ReceivedTags {
    /// Remembers a signature. Returns `false` if it is remembered already.
    pub(crate) fn insert(&self, tag: Vec<u8>) -> bool {
        let mut tags = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !tags.known.insert(tag.clone()) {
            return false;
        }
        tags.order.push_back(tag);
        if tags.order.len() > MAX_TAGS
            && let Some(oldest) = tags.order.pop_front()
        {
            tags.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_signatures_are_remembered() {
        let received = ReceivedTags::default();
        let tag = |number: usize| number.to_le_bytes().to_vec();
        assert!((0..MAX_TAGS).all(|number| received.insert(tag(number))));
        assert!(!received.insert(tag(0)));
        assert!(received.insert(tag(MAX_TAGS)));
        assert!(received.insert(tag(0)), "forgotten");
        assert!(!received.insert(tag(2)));
    }
}
