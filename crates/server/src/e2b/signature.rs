//! Signatures of file URLs: a caller with a signature may read or write one file without the access token.

use super::error::E2bError;
use super::time::unix;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::time::SystemTime;
use subtle::ConstantTimeEq as _;

/// What a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignedOperation {
    Read,
    Write,
}

/// A file URL's parts that its signature covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedFile<'a> {
    pub(super) path: &'a str,
    pub(super) user: &'a str,
    pub(super) operation: SignedOperation,
    /// The second after which the URL is not valid any more.
    pub(super) expiration: Option<u64>,
}

impl SignedFile<'_> {
    /// The signature that a holder of this access token makes.
    fn signature(&self, token: &str) -> String {
        let operation = match self.operation {
            SignedOperation::Read => "read",
            SignedOperation::Write => "write",
        };
        let mut text = format!("{}:{operation}:{}:{token}", self.path, self.user);
        if let Some(expiration) = self.expiration {
            text.push_str(&format!(":{expiration}"));
        }
        let digest = Sha256::digest(text.as_bytes());
        format!("v1_{}", STANDARD_NO_PAD.encode(digest))
    }

    /// Whether a holder of this access token made the signature.
    pub(super) fn is_signed(&self, token: &str, signature: &str) -> bool {
        // Some clients put a `+` of the base64 into the URL as it is, which arrives as a space.
        let given = signature.replace(' ', "+");
        bool::from(self.signature(token).as_bytes().ct_eq(given.as_bytes()))
    }

    /// Refuses a URL whose time is over.
    pub(super) fn check_expiration(&self) -> Result<(), E2bError> {
        match self.expiration {
            Some(expiration) if expiration < unix(SystemTime::now()) => {
                Err(E2bError::unauthenticated("signature is already expired"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_official_clients() {
        let file = SignedFile {
            path: "test.txt",
            user: "user",
            operation: SignedOperation::Read,
            expiration: Some(1_800_000_000),
        };
        // Computed with `get_signature` of the Python SDK's rule.
        let signature = "v1_Tn/MIVuR3SxdI6mgHrELxeyMLVSxaEF8d32Gv+pwSq4";
        assert!(
            file.is_signed("tok", signature),
            "{}",
            file.signature("tok")
        );
        assert!(!file.is_signed("other", signature));
        let write = SignedFile {
            operation: SignedOperation::Write,
            ..file
        };
        assert!(!write.is_signed("tok", signature));
        let longer = SignedFile {
            expiration: Some(1_900_000_000),
            ..file
        };
        assert!(!longer.is_signed("tok", signature));
    }
}
