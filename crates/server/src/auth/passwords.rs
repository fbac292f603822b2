//! Passwords: argon2id with the parameters that OWASP names (19 MiB, two passes).

use super::secrets::fill;
use crate::error::ApiError;
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use tokio::sync::Semaphore;

const MIN_PASSWORD_CHARS: usize = 10;
/// A longer one is no password, and hashing it takes time.
const MAX_PASSWORD_BYTES: usize = 1024;
const MAX_USER_NAME_CHARS: usize = 64;

/// Hashes at the same time. Each takes 19 MiB, and callers who are not logged in cause them.
static HASHING: Semaphore = Semaphore::const_new(2);

/// Refuses a password that is too short to be safe.
pub(crate) fn validate_password(password: &str) -> Result<(), ApiError> {
    let chars = password.chars().count();
    if chars < MIN_PASSWORD_CHARS || password.len() > MAX_PASSWORD_BYTES {
        return Err(ApiError::invalid(format!(
            "a password has at least {MIN_PASSWORD_CHARS} characters and at most {MAX_PASSWORD_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Refuses a name that would look like another one or cannot be shown.
pub(crate) fn validate_user_name(name: &str) -> Result<(), ApiError> {
    let is_good = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
    let chars = name.chars().count();
    if chars == 0 || chars > MAX_USER_NAME_CHARS || !name.chars().all(is_good) {
        return Err(ApiError::invalid(format!(
            "a user's name has 1 to {MAX_USER_NAME_CHARS} letters, digits or . _ - @ +"
        )));
    }
    Ok(())
}

/// The hash of a password, as a PHC string.
pub(crate) async fn hash_password(password: &str) -> Result<String, ApiError> {
    let password = password.to_owned();
    on_thread(move || {
        let mut salt = [0; 16];
        fill(&mut salt)?;
        let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        hash.map(|hash: PasswordHash| hash.to_string())
            .map_err(|error| ApiError::internal(format!("the password cannot be hashed: {error}")))
    })
    .await
}

/// Whether a password has this hash. Without a hash the same work is done, so that the time does not tell whether a name exists.
pub(crate) async fn check_password(password: &str, hash: Option<String>) -> Result<bool, ApiError> {
    if password.len() > MAX_PASSWORD_BYTES {
        return Ok(false);
    }
    let password = password.to_owned();
    on_thread(move || {
        let argon = Argon2::default();
        let Some(hash) = hash else {
            let mut unused = [0; 32];
            let _ = argon.hash_password_into(password.as_bytes(), &[0; 16], &mut unused);
            return Ok(false);
        };
        let hash = PasswordHash::new(&hash).map_err(|error| {
            ApiError::internal(format!("a stored password is damaged: {error}"))
        })?;
        Ok(argon.verify_password(password.as_bytes(), &hash).is_ok())
    })
    .await
}

async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let _turn = HASHING.acquire().await;
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))
}
