//! Network rules: how they are read, and which hosts and addresses a rule opens.

use cellblock_protocol::{HostPattern, NetworkRule, SessionOptions};
use serde_json::json;

fn rule(text: &str) -> NetworkRule {
    text.parse().unwrap()
}

#[test]
fn a_rule_is_written_as_it_was_read() {
    for text in [
        "example.org",
        "*.example.org:8080",
        "GET,HEAD example.org",
        "tcp://db.example.org:5432",
        "db.example.org:5432 private",
        "127.0.0.1:8000",
        "[::1]:8000",
        "localhost:8000",
    ] {
        assert_eq!(rule(text).to_string(), text);
    }
    assert_eq!(rule(".Example.ORG").to_string(), "*.example.org");
    assert_eq!(rule("get example.org").methods, ["GET"]);
}

#[test]
fn a_rule_without_a_port_opens_those_of_the_web() {
    let open = |text: &str| [80, 443, 8080, 22].map(|port| rule(text).opens(port));
    assert_eq!(open("example.org"), [true, true, false, false]);
    assert_eq!(open("example.org:8080"), [false, false, true, false]);
}

#[test]
fn hosts_below_a_name_are_not_the_name_itself_nor_one_that_only_looks_like_it() {
    let below = rule("*.example.org").host;
    assert!(below.matches("www.example.org") && below.matches("A.B.Example.Org"));
    for other in [
        "example.org",
        "notexample.org",
        ".example.org",
        "example.org.evil.net",
    ] {
        assert!(!below.matches(other), "{other}");
    }
    assert!(rule("::1").host.matches("0:0:0:0:0:0:0:1"));
    assert!(!rule("127.0.0.1").host.matches("127.1"));
}

#[test]
fn only_who_names_an_address_means_private_ones() {
    let private = |text: &str| rule(text).private;
    assert!(private("10.0.0.5:5432") && private("localhost") && private("db private"));
    assert!(!private("example.org") && !private("*.example.org"));
}

#[test]
fn what_is_no_rule_is_explained() {
    for (text, problem) in [
        ("", "no host"),
        ("https://example.org", "need none"),
        ("example.org/path", "not a path"),
        ("user@example.org", "not a path"),
        ("example.org:0", "1 to 65535"),
        ("example.org:99999", "1 to 65535"),
        ("exa mple .org", "too many words"),
        ("ex\u{e4}mple.org", "a host is"),
        ("*", "a host is"),
        ("10.0.0", "no whole address"),
        ("tcp://example.org", "one port"),
        ("tcp://*.example.org:1", "one host"),
        ("G-T example.org", "methods"),
        ("[::1", "bracket"),
    ] {
        let message = text.parse::<NetworkRule>().unwrap_err().to_string();
        assert!(message.contains(problem), "{text}: {message}");
    }
}

#[test]
fn the_options_of_a_session_name_what_it_may_reach() {
    let options: SessionOptions =
        serde_json::from_value(json!({"network": ["example.org", "tcp://db:5432"]})).unwrap();
    assert_eq!(
        options.network[0].host,
        HostPattern::Name("example.org".to_owned())
    );
    assert!(options.network[1].raw);
    let many = vec!["a.b"; 65];
    for wrong in [
        json!({"network": "example.org"}),
        json!({"network": ["a/b"]}),
        json!({"network": many}),
    ] {
        let refused = serde_json::from_value::<SessionOptions>(wrong).unwrap_err();
        assert!(refused.to_string().contains("`network`"), "{refused}");
    }
}
