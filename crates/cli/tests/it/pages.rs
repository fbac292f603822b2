//! The pages tell of every status and message that a user of the agent can meet.

use std::fs;

fn page(name: &str) -> String {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    fs::read_to_string(format!("{docs}/{name}.md")).unwrap()
}

/// The fixed words of `#[error("…")]` in a file of the source: the longest piece between its blanks.
fn messages(path: &str) -> Vec<String> {
    let source = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(source).unwrap();
    let quoted = source.split("#[error(").skip(1).filter_map(|rest| {
        let text = rest.trim_start().strip_prefix('"')?;
        text.split("\")]")
            .next()
            .and_then(|text| text.split("\",").next())
    });
    quoted
        .map(|text| {
            let pieces = text
                .split('{')
                .map(|piece| piece.split('}').next_back().unwrap_or(piece));
            let pieces = pieces.map(|piece| piece.trim_matches(|c: char| !c.is_alphanumeric()));
            pieces
                .max_by_key(|piece| piece.len())
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[test]
fn every_message_of_models_and_runs_is_on_the_troubleshooting_of_the_page() {
    let page = page("troubleshooting");
    let known = messages("model/src/error.rs")
        .into_iter()
        .chain(messages("agent/src/run_store/mod.rs"));
    let missing: Vec<String> = known
        // A message for whoever writes a program, and two that say everything themselves.
        .filter(|text| !["cannot be read", "cannot be written"].contains(&&text[..]))
        .filter(|text| {
            let words: Vec<&str> = text.split(' ').take(4).collect();
            !page.contains(&words.join(" "))
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_status_of_the_page_about_the_agent() {
    let (agent, trouble) = (page("agent"), page("troubleshooting"));
    for status in [
        "max_steps",
        "max_time",
        "max_tokens",
        "max_cost",
        "max_failures",
        "stuck",
        "malformed_replies",
        "invalid_answer",
        "model_error",
        "cancelled",
        "answered",
    ] {
        assert!(agent.contains(&format!("`{status}`")), "{status}");
        let is_trouble = !["answered", "model_error"].contains(&status);
        assert!(!is_trouble || trouble.contains(status), "{status}");
    }
}
