//! Rules for credentials: where a secret is, and never what it is.

use cellblock_protocol::{CredentialRule, SecretPlace, SessionOptions};

fn rule(text: &str) -> CredentialRule {
    text.parse().unwrap()
}

#[test]
fn a_rule_names_a_host_a_header_and_a_place() {
    let token = rule("API.example.org Authorization: Bearer env:API_TOKEN");
    assert!(token.tls);
    assert_eq!(token.header, "Authorization");
    assert_eq!(token.scheme.as_deref(), Some("Bearer"));
    assert_eq!(token.secret, SecretPlace::Variable("API_TOKEN".to_owned()));
    assert!(token.is_for("api.example.org", 80) && token.is_for("api.example.org", 443));
    assert!(!token.is_for("api.example.org", 8080) && !token.is_for("example.org", 80));
    let key = rule("http://localhost:8080 X-Key: file:/run/key");
    assert!(!key.tls && key.is_for("localhost", 8080) && !key.is_for("localhost", 80));
    for text in [
        "api.example.org Authorization: Bearer env:API_TOKEN",
        "http://*.example.org:8080 X-Key: file:/run/key",
    ] {
        assert_eq!(rule(text).to_string(), text);
    }
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
    for text in [
        "api.example.org Authorization: Bearer 5ecret",
        "api.example.org Authorization: 5ecret",
        "api.example.org Authorization 5ecret",
        "api.example.org X-Key: env:",
        "api.example.org/path X-Key: env:5ecret",
        "ftp://api.example.org X-Key: env:5ecret",
        "api.example.org X Key: Bearer env:5ecret",
        "api.example.org Content-Length: env:5ecret",
        "api.example.org HOST: env:5ecret",
        "api.example.org",
        "",
    ] {
        let message = text.parse::<CredentialRule>().unwrap_err().to_string();
        assert!(message.starts_with("`credentials`: expected"), "{message}");
        assert!(!message.contains("5ecret"), "{message}");
    }
}

#[test]
fn a_credential_without_a_rule_for_the_network_would_be_of_no_use() {
    let options = SessionOptions {
        credentials: vec![rule("a.example X-Key: env:KEY")],
        ..SessionOptions::default()
    };
    let message = options.validate().unwrap_err().to_string();
    assert!(message.contains("a rule in `network`"), "{message}");
}
