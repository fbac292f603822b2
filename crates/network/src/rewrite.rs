//! What the guard would send, without a network: for tests that try to deceive it.

use crate::authority::Authority;
use crate::body::{self, BodyError};
use crate::error::Refusal;
use crate::guard::Guard;
use crate::head;
use std::io::Cursor;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncReadExt as _, BufReader};

/// A request that the guard lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The method that the rules were asked about.
    pub method: String,
    /// The host that the rules were asked about.
    pub authority: Authority,
    /// The path and query; `None` for a tunnel.
    pub path: Option<String>,
    /// The bytes that the server gets; none for a tunnel.
    pub bytes: Vec<u8>,
}

impl Guard {
    /// What becomes of these bytes of a client: the request as the server gets it over a plain connection, or why not. `None` for no bytes.
    pub fn rewrite(&self, bytes: &[u8]) -> Result<Option<Rewritten>, Refusal> {
        at_once(async {
            let mut client = bytes;
            let Some(head) = head::read(&mut client).await? else {
                return Ok(None);
            };
            let Authority { host, port } = &head.authority;
            let method = head.path.is_some().then_some(head.method.as_str());
            let rule = self.rule(host, *port, method)?;
            let mut sent = Vec::new();
            if let Some(path) = &head.path {
                sent = self.outgoing(&head, rule)?.write(path, 80, "").into_bytes();
                let mut from = BufReader::new(Cursor::new(&head.rest).chain(client));
                let passed = body::pass(&mut from, &mut sent, head.framing).await;
                match passed {
                    Ok(_) => {}
                    Err(BodyError::Client(problem)) => return Err(Refusal::Malformed(problem)),
                    Err(BodyError::Server) => unreachable!("memory takes everything"),
                }
            }
            Ok(Some(Rewritten {
                method: head.method,
                authority: head.authority,
                path: head.path,
                bytes: sent,
            }))
        })
    }
}

/// The value of a future that reads and writes memory alone, and so never waits.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}
