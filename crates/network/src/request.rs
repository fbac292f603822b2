//! The request that a server gets. It is written anew from what was understood; no byte of the client's head is copied.

use crate::authority::Authority;
use crate::credentials::Credential;
use crate::head::Head;
use crate::headers::{Framing, Header};

/// What goes into the head of a request for a server.
pub(crate) struct Outgoing<'a> {
    pub(crate) head: &'a Head,
    /// Whom the request is for: the head's, or the same host at the port for TLS.
    pub(crate) authority: Authority,
    /// Those of the client's headers that are passed on.
    pub(crate) headers: Vec<&'a Header>,
    pub(crate) credentials: Vec<&'a Credential>,
}

impl Outgoing<'_> {
    /// Writes the head: `target` stands in the first line, `usual_port` need not be named in `Host`, and `more` are lines for a proxy
    /// between.
    pub(crate) fn write(&self, target: &str, usual_port: u16, more: &str) -> String {
        let Outgoing { head, .. } = self;
        let host = self.authority.host_header(usual_port);
        let mut request = format!(
            "{} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
            head.method
        );
        for Header { name, value } in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match head.framing {
            Framing::NoBody => {}
            Framing::Length(bytes) => request.push_str(&format!("Content-Length: {bytes}\r\n")),
            Framing::Chunked => request.push_str("Transfer-Encoding: chunked\r\n"),
        }
        for credential in &self.credentials {
            request.push_str(&credential.line());
        }
        request.push_str(more);
        request.push_str("\r\n");
        request
    }
}
