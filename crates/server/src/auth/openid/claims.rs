//! The claims of an identity token.

use super::OpenIdError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// How far the clocks of two machines may differ, in seconds.
const CLOCK_DIFFERENCE: i64 = 60;
const MAX_SUBJECT_BYTES: usize = 255;

/// A person, as the provider knows them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) issuer: String,
    /// The provider's own id. It stays the same when the name changes.
    pub(crate) subject: String,
    pub(crate) name: String,
}

/// What the token of a login must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) name_claim: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
}

impl Expected<'_> {
    /// Reads a token that came from the provider itself. Its signature is not looked at: TLS has proved where it comes from.
    pub(super) fn identity(&self, token: &str) -> Result<Identity, OpenIdError> {
        let refuse = |problem: &str| Err(OpenIdError::Token(problem.to_owned()));
        let claims = claims_of(token)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let time = |name: &str| claims.get(name).and_then(Value::as_f64);
        if text("iss") != Some(self.issuer) {
            return refuse("another provider issued it");
        }
        if !self.is_audience(&claims) {
            return refuse("it is for another program");
        }
        if text("nonce") != Some(self.nonce) {
            return refuse("it belongs to another login");
        }
        let earliest = (self.now - CLOCK_DIFFERENCE) as f64;
        if !time("exp").is_some_and(|expires| expires > earliest) {
            return refuse("it has expired");
        }
        let subject = text("sub").unwrap_or_default();
        if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES {
            return refuse("it names no one");
        }
        // A provider tells addresses that it never asked the person to prove.
        let is_proved =
            self.name_claim != "email" || claims.get("email_verified") == Some(&Value::Bool(true));
        let name = text(self.name_claim).filter(|_| is_proved);
        Ok(Identity {
            issuer: self.issuer.to_owned(),
            subject: subject.to_owned(),
            name: name
                .ok_or_else(|| OpenIdError::NoName(self.name_claim.to_owned()))?
                .to_owned(),
        })
    }

    fn is_audience(&self, claims: &Value) -> bool {
        let is_this = |value: &Value| value.as_str() == Some(self.client_id);
        let party = claims.get("azp");
        match claims.get("aud") {
            Some(Value::Array(all)) if all.len() > 1 => {
                all.iter().any(is_this) && party.is_some_and(is_this)
            }
            Some(Value::Array(all)) => all.iter().all(is_this) && party.is_none_or(is_this),
            Some(one) => is_this(one) && party.is_none_or(is_this),
            None => false,
        }
    }
}

fn claims_of(token: &str) -> Result<Value, OpenIdError> {
    let malformed = || OpenIdError::Token("it is malformed".to_owned());
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    let bytes = URL_SAFE_NO_PAD.decode(payload).map_err(|_| malformed())?;
    serde_json::from_slice(&bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(claims: &Value, name_claim: &str) -> Result<Identity, OpenIdError> {
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        let expected = Expected {
            issuer: "https://id.example",
            client_id: "cellblock",
            nonce: "n",
            name_claim,
            now: 1000,
        };
        expected.identity(&format!("e30.{payload}.c2ln"))
    }

    fn good() -> Value {
        json!({
            "iss": "https://id.example", "aud": "cellblock", "sub": "7", "exp": 1300, "nonce": "n",
            "preferred_username": "grace", "email": "grace@example.org", "email_verified": true,
        })
    }

    #[test]
    fn a_token_for_this_login_names_the_user() {
        let identity = read(&good(), "preferred_username").unwrap();
        assert_eq!(
            (identity.subject.as_str(), identity.name.as_str()),
            ("7", "grace")
        );
        assert_eq!(read(&good(), "email").unwrap().name, "grace@example.org");
    }

    #[test]
    fn a_token_that_differs_in_one_claim_is_refused() {
        for (claim, value) in [
            ("iss", json!("https://other.example")),
            ("aud", json!("another")),
            ("aud", json!(["cellblock", "another"])),
            ("aud", Value::Null),
            ("azp", json!("another")),
            ("exp", json!(900)),
            ("exp", json!("1300")),
            ("nonce", json!("m")),
            ("sub", json!("")),
            ("sub", json!("x".repeat(256))),
            ("preferred_username", json!(["grace"])),
        ] {
            let mut claims = good();
            claims[claim] = value.clone();
            assert!(
                read(&claims, "preferred_username").is_err(),
                "{claim} {value}"
            );
        }
        let mut unproved = good();
        unproved["email_verified"] = json!(false);
        assert!(matches!(
            read(&unproved, "email"),
            Err(OpenIdError::NoName(_))
        ));
    }

    #[test]
    fn a_malformed_token_is_refused() {
        for token in ["", "a.b", "a.b.c.d", "a.!.c", "e30.e30"] {
            assert!(claims_of(token).is_err(), "{token}");
        }
    }
}
