//! Who sends a request: logins by cookie, API tokens, a header of a trusted proxy, or no login at all on the machine of a single person.

mod caller;
mod passwords;
mod secrets;
mod tries;

pub(crate) use caller::{
    Access, Caller, LOGIN_SECONDS, Scope, authorize, login_cookie, login_hash, mark_programs,
    remove_cookie,
};
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
