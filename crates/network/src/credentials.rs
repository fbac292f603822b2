//! Secrets that are put on requests on their way out.

use cellblock_protocol::HostPattern;
use std::fmt;

/// A header that every plain HTTP request to a host gets, in place of one that the code may have sent.
#[derive(Clone)]
pub struct Credential {
    host: HostPattern,
    header: String,
    value: String,
}

impl Credential {
    /// `None` where the header could not stand in a request.
    pub fn new(host: HostPattern, header: &str, value: &str) -> Option<Credential> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let good = !header.is_empty()
            && header.chars().all(is_name)
            && !value.contains(['\r', '\n', '\0']);
        good.then(|| Credential {
            host,
            header: header.to_owned(),
            value: value.to_owned(),
        })
    }

    pub(crate) fn is_for(&self, host: &str) -> bool {
        self.host.matches(host)
    }

    pub(crate) fn replaces(&self, header: &str) -> bool {
        self.header.eq_ignore_ascii_case(header)
    }

    pub(crate) fn line(&self) -> String {
        format!("{}: {}\r\n", self.header, self.value)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credential({} for {})", self.header, self.host)
    }
}
