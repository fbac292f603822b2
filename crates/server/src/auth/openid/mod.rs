//! Logins by OpenID Connect: another server says who a person is.
//!
//! The flow is that of an authorization code with PKCE. The browser goes to the provider with a random `state`, and comes back with a
//! code; this server exchanges the code for an identity token over a connection of its own to the provider. Because the token comes over
//! that connection and not through the browser, TLS proves who issued it.

mod attempts;
mod claims;
mod provider;

pub(crate) use claims::Identity;
pub(crate) use provider::Provider;

use crate::error::ServerError;
use reqwest::Url;

/// A provider of logins.
#[derive(Clone, Debug)]
pub struct OpenIdOptions {
    /// The address of the provider, as it names itself.
    pub issuer: String,
    /// The name under which the provider knows this server.
    pub client_id: String,
    /// What proves that a request comes from this server. Providers let public clients do without it.
    pub client_secret: Option<String>,
    /// The address under which browsers reach this server.
    pub public_url: String,
    /// The claim that holds a user's name. Every user must have another one, and must not be able to choose it freely.
    pub name_claim: String,
}

/// Where the provider sends the browser back to.
pub(crate) const CALLBACK_PATH: &str = "/v1/openid/callback";

impl OpenIdOptions {
    /// Refuses addresses by which secrets would travel unencrypted.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        for (what, address) in [
            ("the address of the OpenID provider", &self.issuer),
            ("the public address of this server", &self.public_url),
        ] {
            let is_safe = Url::parse(address).is_ok_and(|url| is_protected(&url));
            if !is_safe {
                return Err(ServerError::Options(format!(
                    "{what}, {address}, does not begin with https://"
                )));
            }
        }
        Ok(())
    }

    fn callback(&self) -> String {
        format!("{}{CALLBACK_PATH}", self.public_url.trim_end_matches('/'))
    }
}

/// Whether nothing on the way can read what is sent there: TLS, or this machine.
fn is_protected(url: &Url) -> bool {
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// Why a login by OpenID did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenIdError {
    /// The provider cannot be reached, or its answer cannot be understood.
    #[error("the OpenID provider: {0}")]
    Provider(String),
    /// The identity token is not for this login.
    #[error("the identity token is not accepted: {0}")]
    Token(String),
    /// The token does not say how the user is called.
    #[error("the identity token has no usable claim `{0}`")]
    NoName(String),
}
