//! The sender of a request: logins by cookie (with a password or by OpenID Connect), API tokens, a header of a trusted proxy, or no login at all on the machine of a single person.

mod caller;
mod openid;
mod passwords;
mod secrets;
mod tries;

pub(crate) use caller::{
    Access, Caller, LOGIN_SECONDS, Scope, authorize, login_cookie, login_hash, mark_programs,
    openid_binding, openid_cookie, remove_cookie,
};
pub use openid::OpenIdOptions;
pub(crate) use openid::{CALLBACK_PATH, Identity, OpenIdError, Provider};
pub(crate) use passwords::{check_password, hash_password, validate_password, validate_user_name};
pub(crate) use secrets::{Secret, hash_of, random_id, random_seed};
pub(crate) use tries::LoginTries;

/// How callers prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Names with passwords, and API tokens.
    #[default]
    Users,
    /// A proxy in front of the server names the user in this header. API tokens work too.
    Header(String),
    /// Every caller is the same administrator. Only for a server that other machines cannot reach.
    Off,
}
