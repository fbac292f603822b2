//! Logins that were begun: the browser is at the provider.

use crate::auth::secrets::{Secret, hash_of};
use crate::error::ApiError;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// How long a person may take at the provider.
pub(crate) const ATTEMPT_LIMIT: Duration = Duration::from_secs(600);
/// Anyone can begin a login, so only so many are kept. The oldest is forgotten for a new one.
const MAX_ATTEMPTS: usize = 1000;

/// A login that was begun.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Comes back in the identity token.
    pub(super) nonce: String,
    /// Proves to the provider that the code is used by the server that asked for it.
    pub(super) verifier: String,
    /// The page that the browser goes to in the end.
    pub(crate) return_to: String,
}

/// What the browser carries: the state in the address, and the binding in a cookie.
pub(crate) struct Begun {
    pub(crate) state: String,
    pub(crate) binding: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
}

#[derive(Debug)]
struct BegunLogin {
    state: [u8; 32],
    /// The hash of the cookie: another browser cannot end the login.
    binding: [u8; 32],
    since: Instant,
    attempt: Attempt,
}

/// The logins that were begun, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    kept: Mutex<VecDeque<BegunLogin>>,
}

impl Attempts {
    /// Begins a login.
    pub(crate) fn begin(&self, return_to: &str) -> Result<Begun, ApiError> {
        let begun = Begun {
            state: Secret::random()?.0,
            binding: Secret::random()?.0,
            nonce: Secret::random()?.0,
            verifier: Secret::random()?.0,
        };
        let mut kept = self.lock();
        if kept.len() >= MAX_ATTEMPTS {
            kept.pop_front();
        }
        kept.push_back(BegunLogin {
            state: hash_of(&begun.state),
            binding: hash_of(&begun.binding),
            since: Instant::now(),
            attempt: Attempt {
                nonce: begun.nonce.clone(),
                verifier: begun.verifier.clone(),
                return_to: local_page(return_to),
            },
        });
        Ok(begun)
    }

    /// The login with this state, which the browser with this binding began. It can be taken once.
    pub(crate) fn take(&self, state: &str, binding: &str) -> Option<Attempt> {
        let (state, binding) = (hash_of(state), hash_of(binding));
        let mut kept = self.lock();
        kept.retain(|attempt| attempt.since.elapsed() < ATTEMPT_LIMIT);
        let at = kept.iter().position(|attempt| {
            bool::from(attempt.state.ct_eq(&state) & attempt.binding.ct_eq(&binding))
        })?;
        kept.remove(at).map(|kept| kept.attempt)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<BegunLogin>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A path of this server. Anything else would lead the browser elsewhere, and becomes the first page.
fn local_page(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let is_local = path.starts_with('/') && !path.starts_with("//") && path.chars().all(is_plain);
    if is_local { path } else { "/" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_ended_once_and_by_the_browser_that_began_it() {
        let attempts = Attempts::default();
        let (one, other) = (attempts.begin("/").unwrap(), attempts.begin("/").unwrap());
        assert!(attempts.take(&one.state, &other.binding).is_none());
        assert!(attempts.take("", "").is_none());
        assert_eq!(
            attempts.take(&one.state, &one.binding).unwrap().nonce,
            one.nonce
        );
        assert!(attempts.take(&one.state, &one.binding).is_none());
    }

    #[test]
    fn only_so_many_are_kept() {
        let attempts = Attempts::default();
        let first = attempts.begin("/").unwrap();
        for _ in 0..MAX_ATTEMPTS {
            attempts.begin("/").unwrap();
        }
        assert_eq!(attempts.lock().len(), MAX_ATTEMPTS);
        assert!(attempts.take(&first.state, &first.binding).is_none());
    }

    #[test]
    fn the_browser_stays_on_this_server() {
        for path in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "",
            "/a?b",
        ] {
            assert_eq!(local_page(path), "/", "{path}");
        }
        assert_eq!(local_page("/sessions/s-1"), "/sessions/s-1");
    }
}
