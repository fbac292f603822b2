//! Bytes under their digest.

use super::EngineError;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::time::Duration;

/// The longest blob, in bytes. Files are cut into chunks before they are stored.
pub const MAX_BLOB_BYTES: usize = 16 << 20;

/// The SHA-256 of some bytes, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        let hash = Sha256::digest(bytes);
        Digest(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Digest, &'static str> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_digit) {
            return Ok(Digest(text));
        }
        Err("a digest has 64 hexadecimal digits")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Bytes under their digest: the same bytes are stored once.
///
/// A blob is put before a record names it. So a blob that no record names may be removed only once its last `put` is so long ago that no
/// record of it is under way.
pub trait Blobs: Send + Sync {
    /// Stores bytes, or notes that they are put again. Refused beyond [`MAX_BLOB_BYTES`]. Once this returns, the blob is there, whatever
    /// was removed at the same time.
    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Digest, EngineError>>;

    /// The bytes with this digest, checked against it. `None` if they are not stored.
    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>>;

    /// All blobs. The list may be behind by a moment.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Digest>, EngineError>>;

    /// Removes a blob whose last `put` is at least this long ago. Returns whether it is gone.
    fn remove<'a>(
        &'a self,
        digest: &'a Digest,
        unused: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>>;
}

/// Checks a blob's length, for engines.
pub(crate) fn check_length(bytes: &Bytes) -> Result<(), EngineError> {
    if bytes.len() > MAX_BLOB_BYTES {
        let message = format!(
            "a blob has {} bytes, more than {MAX_BLOB_BYTES}",
            bytes.len()
        );
        return Err(EngineError(message));
    }
    Ok(())
}

/// Checks stored bytes against their digest, for engines.
pub(crate) fn check_digest(bytes: &[u8], digest: &Digest) -> Result<(), EngineError> {
    if Digest::of(bytes) == *digest {
        return Ok(());
    }
    Err(EngineError(format!("the blob {digest} was changed")))
}
