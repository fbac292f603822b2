//! The sentence that tells a client once why its code reaches no host: E2B opens the internet by default, this server does not.

use super::sandbox::Internet;
use std::sync::atomic::{AtomicBool, Ordering};

/// What programs say when there is no network.
const REFUSALS: [&str; 6] = [
    "Temporary failure in name resolution",
    "Name or service not known",
    "Could not resolve host",
    "Network is unreachable",
    "No address associated with hostname",
    "Failed to establish a new connection",
];

const HINT: &str = "cellblock: sandboxes of this server reach no host; its operator opens one with `cellblock serve --e2b-allow HOST`\n";

/// Whether the sentence is still to be told.
#[derive(Debug)]
pub(super) struct NetworkHint {
    is_due: AtomicBool,
}

impl NetworkHint {
    /// For a sandbox without a network. A client that asked for none needs no explanation.
    pub(super) fn for_closed_network(internet: Internet) -> NetworkHint {
        NetworkHint {
            is_due: AtomicBool::new(internet == Internet::Wanted),
        }
    }

    /// For a sandbox that reaches hosts.
    pub(super) fn not_needed() -> NetworkHint {
        NetworkHint {
            is_due: AtomicBool::new(false),
        }
    }

    /// The sentence, the first time that a program complains about the network.
    pub(super) fn for_text(&self, text: &str) -> Option<&'static str> {
        let is_refusal = REFUSALS.iter().any(|refusal| text.contains(refusal));
        (is_refusal && self.is_due.swap(false, Ordering::SeqCst)).then_some(HINT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_names_the_flag_and_the_second_does_not() {
        let hint = NetworkHint::for_closed_network(Internet::Wanted);
        let complaint = "curl: (6) Could not resolve host: example.org";
        assert_eq!(hint.for_text("all is well"), None);
        assert!(
            hint.for_text(complaint)
                .is_some_and(|told| told.contains("--e2b-allow"))
        );
        assert_eq!(hint.for_text(complaint), None);
        let unwanted = NetworkHint::for_closed_network(Internet::Refused);
        assert_eq!(unwanted.for_text(complaint), None);
    }
}
