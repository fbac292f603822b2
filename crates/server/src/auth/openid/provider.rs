//! The provider: its description, the address of its login page, and the exchange of a code for an identity.

use super::attempts::{Attempt, Attempts, Begun};
use super::claims::{Expected, Identity};
use super::{OpenIdError, OpenIdOptions, is_protected};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cellblock_protocol::parse_json_within;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long an answer of the provider may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The most memory that it may take once it is parsed.
const MAX_ANSWER_MEMORY: usize = 16 << 20;

/// A provider of logins, and the logins that were begun there.
#[derive(Debug)]
pub(crate) struct Provider {
    options: OpenIdOptions,
    /// Fetched with the first login. A failure is not kept.
    endpoints: OnceCell<Endpoints>,
    pub(crate) attempts: Attempts,
}

/// What the provider says about itself.
#[derive(Debug, Deserialize)]
struct Description {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
}

/// Where the provider is asked.
#[derive(Debug)]
struct Endpoints {
    authorization: Url,
    token: Url,
}

#[derive(Debug, Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl Provider {
    pub(crate) fn new(options: OpenIdOptions) -> Provider {
        Provider {
            options,
            endpoints: OnceCell::new(),
            attempts: Attempts::default(),
        }
    }

    /// The provider's page on which a person logs in.
    pub(crate) async fn login_page(&self, begun: &Begun) -> Result<Url, OpenIdError> {
        let mut url = self.endpoints().await?.authorization.clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("scope", "openid profile email")
            .append_pair("client_id", &self.options.client_id)
            .append_pair("redirect_uri", &self.options.callback())
            .append_pair("state", &begun.state)
            .append_pair("nonce", &begun.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// The person that a code stands for. The answer of the provider must not have ended before `now`.
    pub(crate) async fn identity(
        &self,
        code: &str,
        attempt: &Attempt,
        now: i64,
    ) -> Result<Identity, OpenIdError> {
        let endpoints = self.endpoints().await?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", &attempt.verifier),
        ];
        let callback = self.options.callback();
        form.push(("redirect_uri", &callback));
        let mut request = client()?
            .post(endpoints.token.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        match &self.options.client_secret {
            Some(secret) => {
                let value = basic_credentials(&self.options.client_id, secret)?;
                request = request.header(AUTHORIZATION, value);
            }
            None => form.push(("client_id", &self.options.client_id)),
        }
        let answer: TokenAnswer = answer(request.body(form_text(&form)?)).await?;
        let expected = Expected {
            issuer: &self.options.issuer,
            client_id: &self.options.client_id,
            nonce: &attempt.nonce,
            name_claim: &self.options.name_claim,
            now,
        };
        expected.identity(&answer.id_token)
    }

    async fn endpoints(&self) -> Result<&Endpoints, OpenIdError> {
        self.endpoints.get_or_try_init(|| self.discover()).await
    }

    async fn discover(&self) -> Result<Endpoints, OpenIdError> {
        let issuer = &self.options.issuer;
        let base = issuer.trim_end_matches('/');
        let url = format!("{base}/.well-known/openid-configuration");
        let found: Description = answer(client()?.get(url)).await?;
        if found.issuer != *issuer {
            return Err(OpenIdError::Provider(format!(
                "it calls itself {}, not {issuer}",
                found.issuer
            )));
        }
        Ok(Endpoints {
            authorization: protected_url(&found.authorization_endpoint)?,
            token: protected_url(&found.token_endpoint)?,
        })
    }
}

/// An address that the provider names.
fn protected_url(text: &str) -> Result<Url, OpenIdError> {
    let url = Url::parse(text).ok().filter(is_protected);
    url.ok_or_else(|| {
        let problem = format!("it names the address {text}, which does not begin with https://");
        OpenIdError::Provider(problem)
    })
}

/// Follows no redirect: what is sent is meant for one address.
fn client() -> Result<reqwest::Client, OpenIdError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(ANSWER_TIMEOUT)
        .build()
        .map_err(|error| OpenIdError::Provider(error.to_string()))
}

/// The JSON of a good answer.
async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, OpenIdError> {
    let failed = |error: reqwest::Error| OpenIdError::Provider(error.without_url().to_string());
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        if body.len() + part.len() > MAX_ANSWER_BYTES {
            return Err(OpenIdError::Provider("its answer is too long".to_owned()));
        }
        body.extend_from_slice(&part);
    }
    if !status.is_success() {
        return Err(OpenIdError::Provider(format!("it answered with {status}")));
    }
    parse_json_within(&body, MAX_ANSWER_MEMORY)
        .map_err(|error| OpenIdError::Provider(format!("its answer is not understood: {error}")))
}

/// Pairs in the encoding of forms.
fn form_text(pairs: &[(&str, &str)]) -> Result<String, OpenIdError> {
    let mut url = Url::parse("https://localhost/")
        .map_err(|error| OpenIdError::Provider(error.to_string()))?;
    url.query_pairs_mut().extend_pairs(pairs);
    Ok(url.query().unwrap_or_default().to_owned())
}

/// The header by which this server proves its name. Both parts are encoded as in a form first (RFC 6749, section 2.3.1).
fn basic_credentials(id: &str, secret: &str) -> Result<HeaderValue, OpenIdError> {
    let encoded = |text: &str| form_text(&[("", text)]).map(|text| text[1..].to_owned());
    let both = format!("{}:{}", encoded(id)?, encoded(secret)?);
    let text = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(both)
    );
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| OpenIdError::Provider("the client's secret cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_encoded_twice() {
        let value = basic_credentials("cell block", "a:b+c").unwrap();
        let expected = base64::engine::general_purpose::STANDARD.encode("cell+block:a%3Ab%2Bc");
        assert_eq!(value.to_str().unwrap(), format!("Basic {expected}"));
    }
}
