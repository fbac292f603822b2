//! What must not be written: keys, passwords, tokens, and anything named so.

use serde_json::Value;

const HIDDEN: &str = "<hidden>";

/// Words in a name that make its value a secret.
const ALWAYS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "authorization",
    "credential",
    "credentials",
    "apikey",
    "cookie",
    "bearer",
];

/// Words that make its value a secret unless it is a number: `input_tokens` is none.
const UNLESS_NUMBER: &[&str] = &["key", "keys", "token", "tokens"];

/// Shorter ones are too common to be searched for in every text.
const SHORTEST: usize = 8;

/// Finds secrets by the names of fields, by their form, and by their value where it is known.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Vec<String>,
}

impl Secrets {
    /// With the values of all environment variables that are named like secrets.
    pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let secret = variables
            .into_iter()
            .filter(|(name, _)| is_secret_name(name) != Named::Harmless);
        Self::known(secret.map(|(_, value)| value))
    }

    /// With these values, wherever they stand.
    pub fn known(values: impl IntoIterator<Item = String>) -> Self {
        let values = values.into_iter().map(|value| value.trim().to_owned());
        let mut known: Vec<_> = values.filter(|value| value.len() >= SHORTEST).collect();
        // A longer one may hold a shorter one.
        known.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { known }
    }

    /// The value of a field of this name, without secrets.
    pub fn hide(&self, name: &str, value: Value) -> Value {
        match (is_secret_name(name), &value) {
            (_, Value::Null) => return value,
            (Named::Secret, _) => return Value::String(HIDDEN.into()),
            (Named::SecretUnlessNumber, Value::Number(_) | Value::Bool(_)) => return value,
            (Named::SecretUnlessNumber, _) => return Value::String(HIDDEN.into()),
            (Named::Harmless, _) => {}
        }
        match value {
            Value::String(text) => Value::String(self.hide_in_text(&text)),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.hide("", item));
                Value::Array(items.collect())
            }
            Value::Object(map) => {
                let fields = map.into_iter();
                let fields = fields.map(|(key, item)| {
                    let item = self.hide(&key, item);
                    (key, item)
                });
                Value::Object(fields.collect())
            }
            other => other,
        }
    }

    /// A text without known secrets, without words that look like keys, and without what follows `password=` and the like.
    pub fn hide_in_text(&self, text: &str) -> String {
        // Arguments of tools are JSON in a text; there the names are known.
        if text.trim_start().starts_with(['{', '['])
            && let Ok(json) = serde_json::from_str::<Value>(text)
        {
            return self.hide("", json).to_string();
        }
        let mut text = text.to_owned();
        for secret in &self.known {
            text = text.replace(secret, HIDDEN);
        }
        hide_words(&text)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Secrets({} known)", self.known.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Secret,
    SecretUnlessNumber,
    Harmless,
}

fn is_secret_name(name: &str) -> Named {
    let mut words: Vec<String> = vec![String::new()];
    let mut last_was_small = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && last_was_small;
        last_was_small = character.is_lowercase();
        if !character.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && character.is_alphanumeric()
        {
            word.extend(character.to_lowercase());
        }
    }
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    if any(ALWAYS) {
        Named::Secret
    } else if any(UNLESS_NUMBER) {
        Named::SecretUnlessNumber
    } else {
        Named::Harmless
    }
}

fn hide_words(text: &str) -> String {
    let separators = |c: char| c.is_whitespace() || "\"'`,;()[]{}&?".contains(c);
    let mut hidden = String::with_capacity(text.len());
    let mut after_secret_name = false;
    for piece in text.split_inclusive(separators) {
        let word = piece.trim_end_matches(separators);
        let separator = &piece[word.len()..];
        if word.is_empty() {
            hidden.push_str(separator);
            continue;
        }
        let (name, value) = match word.find(['=', ':']) {
            Some(at) => word.split_at(at + 1),
            None => ("", word),
        };
        let named = is_secret_name(name.trim_end_matches(['=', ':'])) != Named::Harmless;
        if !name.is_empty() && named && !value.is_empty() && !is_number(value) {
            hidden.push_str(name);
            hidden.push_str(HIDDEN);
            after_secret_name = value.eq_ignore_ascii_case("bearer");
        } else if after_secret_name || looks_like_a_key(word) {
            after_secret_name =
                word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
            hidden.push_str(HIDDEN);
        } else {
            // `password: x`, `Bearer x`
            let announces = word.ends_with(['=', ':']) && named && is_always(name);
            after_secret_name = announces || word.eq_ignore_ascii_case("bearer");
            hidden.push_str(&hide_password_in_address(word));
        }
        hidden.push_str(separator);
    }
    hidden
}

fn is_always(name: &str) -> bool {
    is_secret_name(name.trim_end_matches(['=', ':'])) == Named::Secret
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

fn looks_like_a_key(word: &str) -> bool {
    let starts = ["sk-", "ghp_", "github_pat_", "xoxb-", "AKIA", "AIza", "hf_"];
    word.len() >= 12 && starts.iter().any(|start| word.starts_with(start))
}

/// `https://user:password@host` without the password.
fn hide_password_in_address(word: &str) -> String {
    let parts = word.split_once("://").and_then(|(scheme, rest)| {
        let host_at = rest.find('/').unwrap_or(rest.len());
        let at = rest[..host_at].rfind('@')?;
        Some((scheme, &rest[at..]))
    });
    match parts {
        Some((scheme, rest)) => format!("{scheme}://{HIDDEN}{rest}"),
        None => word.to_owned(),
    }
}
