//! Who may come in over HTTP.

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use std::convert::Infallible;

pub(super) type Reply = Response<BoxBody<Bytes, Infallible>>;

/// The token that every request must carry.
#[derive(Clone)]
pub(super) struct Gate {
    token: String,
}

impl Gate {
    pub(super) fn new(token: String) -> Gate {
        Gate { token }
    }

    /// Whether a request may pass; else what it is told.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = given.and_then(|given| {
            let (scheme, token) = given.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        });
        match token {
            Some(token) if same(token, self.token.as_bytes()) => Ok(()),
            _ => {
                let mut reply = plain(
                    StatusCode::UNAUTHORIZED,
                    "the header `Authorization: Bearer TOKEN` is missing or has another token",
                );
                let how = HeaderValue::from_static("Bearer realm=\"cellblock\"");
                reply.headers_mut().insert(WWW_AUTHENTICATE, how);
                Err(Box::new(reply))
            }
        }
    }
}

/// An answer that is not the protocol's.
pub(super) fn plain(status: StatusCode, message: &str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(format!("{message}\n"))).boxed());
    *reply.status_mut() = status;
    reply
}

/// Compares in a time that does not tell how much of it was right.
fn same(one: &[u8], other: &[u8]) -> bool {
    let mut difference = one.len() ^ other.len();
    for (index, byte) in one.iter().enumerate() {
        let expected = other.get(index).copied().unwrap_or(0);
        difference |= usize::from(byte ^ expected);
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use http::HeaderMap;

    #[test]
    fn only_the_whole_token_opens() {
        let gate = Gate::new("secret".to_owned());
        let passes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                "authorization",
                value.parse().unwrap_or_else(|_| unreachable!()),
            );
            gate.check(&headers).is_ok()
        };
        assert!(passes("Bearer secret") && passes("bearer secret"));
        for wrong in [
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secret1",
            "Basic secret",
        ] {
            assert!(!passes(wrong), "{wrong}");
        }
        assert!(gate.check(&HeaderMap::new()).is_err());
    }
}
