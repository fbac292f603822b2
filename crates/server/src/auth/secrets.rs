//! Random ids and secrets, and the hashes that the store keeps of them.

use crate::error::ApiError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// A secret of 256 bits: shown once, kept as a hash.
pub(crate) struct Secret(pub(crate) String);

impl Secret {
    /// A new secret of 43 characters.
    pub(crate) fn random() -> Result<Secret, ApiError> {
        let mut bytes = [0; 32];
        fill(&mut bytes)?;
        Ok(Secret(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// What the store keeps. Secrets are random, so a fast hash is enough.
    pub(crate) fn hash(&self) -> [u8; 32] {
        hash_of(&self.0)
    }
}

/// The SHA-256 of a text.
pub(crate) fn hash_of(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// An id that cannot be guessed: a prefix and 80 random bits in lower-case letters and digits.
pub(crate) fn random_id(prefix: &str) -> Result<String, ApiError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    let letters = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    Ok(prefix.chars().chain(letters).collect())
}

/// A number with which generators of random numbers can begin.
pub(crate) fn random_seed() -> Result<u32, ApiError> {
    let mut bytes = [0; 4];
    fill(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Random bytes from the kernel.
pub(super) fn fill(bytes: &mut [u8]) -> Result<(), ApiError> {
    getrandom::fill(bytes)
        .map_err(|error| ApiError::internal(format!("there is no randomness: {error}")))
}
