//! What a session wanted to reach and did not, read from the log of its guard.

use cellblock_env::UnreachedHost;
use cellblock_protocol::Event;
use cellblock_session::Session;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// More than this is not told.
const MOST: usize = 5;

/// Listens to the log, and keeps each host once.
pub(crate) struct Refusals {
    logs: Receiver<Event>,
    found: Vec<UnreachedHost>,
}

impl Refusals {
    pub(crate) fn of(session: &Session) -> Refusals {
        Refusals {
            logs: session.logs(),
            found: Vec::new(),
        }
    }

    /// Takes in what was logged since the last time. The log forgets what nobody takes in.
    pub(crate) fn listen(&mut self) {
        loop {
            match self.logs.try_recv() {
                Ok(Event::Log { text }) => {
                    for one in text.lines().filter_map(read) {
                        let is_new = self.found.iter().all(|other| other.host != one.host);
                        if is_new && self.found.len() < MOST {
                            self.found.push(one);
                        }
                    }
                }
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// All of them.
    pub(crate) fn collect(mut self) -> Vec<UnreachedHost> {
        self.listen();
        self.found
    }
}

/// `network: refused CONNECT example.com:443: this session may not reach …`
fn read(line: &str) -> Option<UnreachedHost> {
    let rest = line.strip_prefix("network: refused ")?;
    let (_, rest) = rest.split_once(' ')?;
    let (target, why) = rest.split_once(": ")?;
    let host = target
        .strip_suffix(":443")
        .or(target.strip_suffix(":80"))
        .unwrap_or(target);
    Some(UnreachedHost {
        host: host.to_owned(),
        why: why.chars().take(400).collect(),
        is_foreign: why.starts_with("this session may not reach"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_says_who_was_refused() {
        let why = "this session may not reach files.example:443; it may reach packages.example.org";
        let line = format!("network: refused CONNECT files.example:443: {why}");
        assert_eq!(
            read(&line),
            Some(UnreachedHost {
                host: "files.example".to_owned(),
                why: why.to_owned(),
                is_foreign: true,
            })
        );
        assert_eq!(
            read("network: allowed CONNECT a.example:443 at 1.2.3.4:443"),
            None
        );
    }
}
