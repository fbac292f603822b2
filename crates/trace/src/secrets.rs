//! Secrets that must not be written: keys, passwords, tokens, and any field or variable named like one.

use serde_json::Value;

/// The text that stands in place of a secret.
const REDACTED: &str = "<hidden>";

/// Words in the name of a field that make its value a secret.
const SECRET_WORDS: &[&str] = &[
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

/// Words in the name of a field that make its value a secret, unless the value is a number: `input_tokens` is no secret.
const SECRET_UNLESS_NUMBER_WORDS: &[&str] = &["key", "keys", "token", "tokens"];

/// The shortest value of an environment variable that is searched for in texts. Shorter ones are too common.
const MIN_SECRET_BYTES: usize = 8;

/// Replaces secrets by `<hidden>`: by the names of fields, by their form, and by their value where it is known.
#[derive(Clone, Default)]
pub struct SecretFilter {
    known: Vec<String>,
}

impl SecretFilter {
    /// A filter that knows the values of all environment variables that are named like secrets.
    pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let secret = variables
            .into_iter()
            .filter(|(name, _)| name_kind(name) != NameKind::Public);
        Self::with_values(secret.map(|(_, value)| value))
    }

    /// A filter that knows these values. Values of fewer than 8 bytes are left aside.
    pub fn with_values(values: impl IntoIterator<Item = String>) -> Self {
        let values = values.into_iter().map(|value| value.trim().to_owned());
        let mut known: Vec<_> = values
            .filter(|value| value.len() >= MIN_SECRET_BYTES)
            .collect();
        // The longest first: a longer value may contain a shorter one.
        known.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { known }
    }

    /// The value of a field without its secrets. The name of the field decides too.
    pub fn redact_field(&self, name: &str, value: Value) -> Value {
        match (name_kind(name), &value) {
            (_, Value::Null) => return value,
            (NameKind::Secret, _) => return Value::String(REDACTED.into()),
            (NameKind::SecretUnlessNumber, Value::Number(_) | Value::Bool(_)) => return value,
            (NameKind::SecretUnlessNumber, _) => return Value::String(REDACTED.into()),
            (NameKind::Public, _) => {}
        }
        match value {
            Value::String(text) => Value::String(self.redact_text(&text)),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.redact_field("", item));
                Value::Array(items.collect())
            }
            Value::Object(map) => {
                let fields = map.into_iter();
                let fields = fields.map(|(key, item)| {
                    let item = self.redact_field(&key, item);
                    (key, item)
                });
                Value::Object(fields.collect())
            }
            other => other,
        }
    }

    /// A text without known secrets, without words that look like keys, without what follows `password=` or `Bearer`, and without the
    /// texts that code assigns to names of secrets.
    pub fn redact_text(&self, text: &str) -> String {
        // Arguments of tools are JSON in a text, whose fields have names.
        if text.trim_start().starts_with(['{', '['])
            && let Ok(json) = serde_json::from_str::<Value>(text)
        {
            let redacted = self.redact_field("", json.clone());
            // A text without secrets keeps its spaces and its line breaks.
            return match redacted == json {
                true => text.to_owned(),
                false => redacted.to_string(),
            };
        }
        let mut text = text.to_owned();
        for secret in &self.known {
            text = text.replace(secret, REDACTED);
        }
        redact_words(&redact_literals(&text))
    }
}

impl std::fmt::Debug for SecretFilter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SecretFilter({} known)", self.known.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Secret,
    SecretUnlessNumber,
    Public,
}

fn name_kind(name: &str) -> NameKind {
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
    if any(SECRET_WORDS) {
        NameKind::Secret
    } else if any(SECRET_UNLESS_NUMBER_WORDS) {
        NameKind::SecretUnlessNumber
    } else {
        NameKind::Public
    }
}

/// Hides the literals of code that belong to the name of a secret: `password = "…"`, `{"api_key": "…"}`, `environ["TOKEN"] = "…"`,
/// `token: str = "…"` and `if secret == "…"`.
///
/// Every quote is looked at, also one inside a literal: an apostrophe in a comment must not hide what follows it.
fn redact_literals(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(offset) = text[at..].find(['"', '\'']) {
        let quote_at = at + offset;
        let rest = &text[quote_at..];
        let quote = &rest[..1];
        let triple = [quote, quote, quote].concat();
        let mark = if rest.starts_with(&triple) {
            &rest[..3]
        } else {
            quote
        };
        hidden.push_str(&text[at..quote_at]);
        hidden.push_str(mark);
        at = quote_at + mark.len();
        let length = literal_length(&text[at..], mark);
        if length > 0 && is_value_of_secret(&text[..quote_at]) {
            hidden.push_str(REDACTED);
            at += length;
        }
    }
    hidden.push_str(&text[at..]);
    hidden
}

/// The bytes of a literal up to its closing mark. One that is not closed ends with its line, or with the text.
fn literal_length(body: &str, mark: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in body.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if body[at..].starts_with(mark) || (c == '\n' && mark.len() == 1) {
            return at;
        }
    }
    body.len()
}

/// Whether a literal after this text is the value of a secret name.
fn is_value_of_secret(before: &str) -> bool {
    // `r"…"` and `f"…"`.
    let prefix = before.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let before = match before.len() - prefix.len() {
        0..=2 => prefix,
        _ => before,
    };
    let line = before.rsplit('\n').next().unwrap_or_default().trim_end();
    let Some(left) = line.strip_suffix(['=', ':']) else {
        return false;
    };
    let left = left.trim_end_matches(['=', '!', ' ', '\t']);
    let (name, left) = last_name(left);
    if name_kind(name) != NameKind::Public {
        return true;
    }
    // `token: str = "…"`
    let annotated = left.trim_end().strip_suffix(':');
    annotated.is_some_and(|left| name_kind(last_name(left).0) != NameKind::Public)
}

/// The name at the end of a text, maybe in quotes and brackets, and the text before it.
fn last_name(text: &str) -> (&str, &str) {
    let text = text.trim_end_matches(['"', '\'', ']', ' ', '\t']);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let start = text
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_name(*c))
        .last()
        .map_or(text.len(), |(at, _)| at);
    (&text[start..], &text[..start])
}

fn redact_words(text: &str) -> String {
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
        let named = name_kind(name.trim_end_matches(['=', ':'])) != NameKind::Public;
        if !name.is_empty() && named && !value.is_empty() && !is_number(value) {
            hidden.push_str(name);
            hidden.push_str(REDACTED);
            after_secret_name = value.eq_ignore_ascii_case("bearer");
        } else if after_secret_name || looks_like_key(word) {
            after_secret_name =
                word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
            hidden.push_str(REDACTED);
        } else {
            // `password: x`, `Bearer x`
            let announces = word.ends_with(['=', ':']) && named && is_secret_name(name);
            after_secret_name = announces || word.eq_ignore_ascii_case("bearer");
            hidden.push_str(&redact_password_in_url(word));
        }
        hidden.push_str(separator);
    }
    hidden
}

fn is_secret_name(name: &str) -> bool {
    name_kind(name.trim_end_matches(['=', ':'])) == NameKind::Secret
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

fn looks_like_key(word: &str) -> bool {
    let starts = ["sk-", "ghp_", "github_pat_", "xoxb-", "AKIA", "AIza", "hf_"];
    word.len() >= 12 && starts.iter().any(|start| word.starts_with(start))
}

/// A URL such as `https://user:password@host` without user and password.
fn redact_password_in_url(word: &str) -> String {
    let parts = word.split_once("://").and_then(|(scheme, rest)| {
        let host_at = rest.find('/').unwrap_or(rest.len());
        let at = rest[..host_at].rfind('@')?;
        Some((scheme, &rest[at..]))
    });
    match parts {
        Some((scheme, rest)) => format!("{scheme}://{REDACTED}{rest}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::SecretFilter;

    #[test]
    fn texts_that_code_gives_to_names_of_secrets_are_hidden() {
        for code in [
            "password = \"correct horse\"",
            "db_password='correct horse'",
            "token: str = \"correct horse\"",
            "config = {\"api_key\": \"correct horse\", \"n\": 1}",
            "os.environ['MY_TOKEN'] = 'correct horse'",
            "headers[\"Authorization\"] = f\"correct horse\"",
            "connect(user='me', password = r'correct horse')",
            "secret = \"\"\"correct horse\nstaple\"\"\"",
            "# don't tell\npassword = 'correct horse'",
            "if password == \"correct horse\": pass",
            "password = 'correct horse",
        ] {
            let shown = SecretFilter::default().redact_text(code);
            let is_hidden = !shown.contains("correct") && !shown.contains("horse");
            assert!(is_hidden && !shown.contains("staple"), "{code}\n{shown}");
            assert!(shown.contains("<hidden>"), "{code}\n{shown}");
        }
    }

    #[test]
    fn other_texts_of_code_stay() {
        for code in [
            "{ \"rows\": [1,  2] }",
            "name = \"correct horse\"",
            "print('password', 'is set')",
            "total_tokens = 12",
            "rows = [row for row in data if row['name'] == 'horse']",
        ] {
            assert_eq!(SecretFilter::default().redact_text(code), code);
        }
    }
}
