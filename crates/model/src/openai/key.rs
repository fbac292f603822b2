//! API keys: where they come from, and how they are kept out of messages.

use crate::ModelError;
use std::fmt;
use std::path::Path;

/// An API key. It is never shown, not even by `{:?}`, and cannot be serialised.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    source: String,
}

/// The HTTP header that carries the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`, which nearly all endpoints expect.
    #[default]
    Bearer,
    /// `api-key: …`, which Azure expects.
    ApiKey,
}

/// Hosts, and the environment variable that usually holds the key for them.
const KEY_VARIABLES: &[(&str, &str)] = &[
    ("dashscope", "DASHSCOPE_API_KEY"),
    ("openrouter.ai", "OPENROUTER_API_KEY"),
    (".azure.com", "AZURE_OPENAI_API_KEY"),
    ("anthropic.com", "ANTHROPIC_API_KEY"),
];

impl ApiKey {
    /// A key that the caller has. `source` says in error messages where it came from.
    pub fn new(secret: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            secret: secret.into(),
            source: source.into(),
        }
    }

    /// The environment variables in which a key for this endpoint is looked for, in order.
    pub fn variables(base_url: &str, named: Option<&str>) -> Vec<String> {
        if let Some(named) = named {
            return vec![named.to_owned()];
        }
        let known = KEY_VARIABLES
            .iter()
            .find(|(host, _)| host_of(base_url).contains(host));
        let own = known.map_or("OPENAI_API_KEY", |(_, variable)| *variable);
        vec!["CELLBLOCK_API_KEY".to_owned(), own.to_owned()]
    }

    /// Finds the key for an endpoint: in the variable `named`, else in those of [`variables`](Self::variables). `variable` reads an
    /// environment variable. An endpoint on this machine needs no key.
    pub fn find(
        base_url: &str,
        named: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ModelError> {
        let names = Self::variables(base_url, named);
        for name in &names {
            let secret = variable(name).map(|secret| secret.trim().to_owned());
            if let Some(secret) = secret.filter(|secret| !secret.is_empty()) {
                return Ok(Some(Self::new(secret, format!("the variable {name}"))));
            }
        }
        if named.is_none() && is_loopback(base_url) {
            return Ok(None);
        }
        Err(ModelError::NoKey {
            url: url_without_secrets(base_url),
            variables: names.join(" or "),
        })
    }

    /// Reads the key from a file that contains nothing else.
    pub fn from_file(path: &Path) -> Result<Self, ModelError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ModelError::Settings(format!(
                "the file with the key, {shown}, cannot be read: {error}"
            ))
        })?;
        let secret = text.trim();
        if secret.is_empty() {
            let problem = format!("the file with the key, {shown}, is empty");
            return Err(ModelError::Settings(problem));
        }
        Ok(Self::new(secret, format!("the file {shown}")))
    }

    /// Where the key came from, for error messages.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The name and the value of the header. The value is marked as sensitive, so that HTTP libraries do not log it.
    pub(super) fn header(
        &self,
        kind: KeyHeader,
    ) -> Result<(&'static str, reqwest::header::HeaderValue), ModelError> {
        let (name, value) = match kind {
            KeyHeader::Bearer => ("authorization", format!("Bearer {}", self.secret)),
            KeyHeader::ApiKey => ("api-key", self.secret.clone()),
        };
        let mut value = reqwest::header::HeaderValue::from_str(&value).map_err(|_| {
            let problem = "has characters that no key has, such as a line break";
            ModelError::Settings(format!("the key from {} {problem}", self.source))
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }

    /// A text of the endpoint without the key, whole or masked (`sk-ab…***…yz`).
    pub(super) fn remove_from(&self, text: &str) -> String {
        let text = text.replace(&self.secret, "<key>");
        let separators = |c: char| c.is_whitespace() || "\"'`(),".contains(c);
        text.split_inclusive(separators)
            .map(|word| {
                let bare = word.trim_end_matches(separators).trim_end_matches('.');
                if bare.starts_with("sk-") || bare.contains("***") {
                    word.replacen(bare, "<key>", 1)
                } else {
                    word.to_owned()
                }
            })
            .collect()
    }
}

impl KeyHeader {
    /// The header in which this endpoint expects the key.
    pub fn for_endpoint(base_url: &str) -> Self {
        if host_of(base_url).ends_with(".azure.com") {
            Self::ApiKey
        } else {
            Self::Bearer
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ApiKey(from {})", self.source)
    }
}

/// A URL that can be shown: without user, password and query, which may contain keys.
pub(crate) fn url_without_secrets(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut url) => {
            // These fail only for URLs that have no host, and so no user either.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.to_string().trim_end_matches('/').to_owned()
        }
        Err(_) => "an address that cannot be read".into(),
    }
}

pub(crate) fn is_loopback(url: &str) -> bool {
    let host = host_of(url);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn host_of(url: &str) -> String {
    let url = reqwest::Url::parse(url).ok();
    url.and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_default()
}
