//! Every route of the server: those of the OpenAPI document with a body each, and those of compatible APIs from their source.

use crate::common::{Answer, Caller};
use axum::http::Method;
use cellblock_server::openapi_document;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Which of two values takes the place of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitution {
    /// The id of something that another user has.
    Real,
    /// An id that never existed.
    Unknown,
}

/// A request of the API with ids of another user.
#[derive(Debug)]
pub struct ApiRequest {
    pub method: Method,
    /// The path with the ids of the other user.
    pub path: String,
    unknown: String,
    body: Value,
}

impl ApiRequest {
    pub async fn send(&self, caller: &Caller<'_>, substitution: Substitution) -> Answer {
        let path = match substitution {
            Substitution::Real => &self.path,
            Substitution::Unknown => &self.unknown,
        };
        caller
            .send(self.method.clone(), path, self.body.clone())
            .await
    }
}

/// Every operation of the OpenAPI document that names something, with each parameter replaced.
///
/// # Panics
/// For a parameter without a substitution, and for an operation whose body is not known here: both are new and not covered.
pub fn api_requests(substitutions: &[(&str, String, &str)]) -> Vec<ApiRequest> {
    let document = openapi_document();
    let paths = document["paths"].as_object().expect("paths");
    let mut requests = Vec::new();
    for (template, operations) in paths.iter().filter(|(path, _)| path.contains('{')) {
        let (mut path, mut unknown) = (template.clone(), template.clone());
        for (name, real, never) in substitutions {
            let parameter = format!("{{{name}}}");
            path = path.replace(&parameter, real);
            unknown = unknown.replace(&parameter, never);
        }
        assert!(!path.contains('{'), "add a substitution for {template}");
        for (method, operation) in operations.as_object().expect("operations") {
            let body = match operation.get("requestBody") {
                Some(_) => body_of(method, template),
                None => json!({}),
            };
            requests.push(ApiRequest {
                method: method.to_uppercase().parse().expect("a method"),
                path: path.clone(),
                unknown: unknown.clone(),
                body,
            });
        }
    }
    requests
}

/// A body that the operation takes, so that a route which does not look whose id it is would do something.
fn body_of(method: &str, template: &str) -> Value {
    let last = template.rsplit('/').next().unwrap_or_default();
    match (method, last) {
        ("patch", "{user}") => json!({"disabled": true}),
        ("patch", "{node}") => json!({"state": "draining"}),
        ("patch", "{session}" | "{chat}") => json!({"title": "changed"}),
        ("put", "{path}") => json!("changed"),
        ("post", "undo") => json!({}),
        ("post", "fork") => json!({"at": 0}),
        ("post", "seed") => json!({"variables": {"x": 2}}),
        ("post", "tools") => json!({"tools": []}),
        ("post", "cells" | "compute") => json!({"code": "x = 2"}),
        ("post", "is_complete") => json!({"code": "1"}),
        ("post", "complete" | "inspect") => json!({"code": "1", "pos": 1}),
        ("post", "input") => json!({"call": "c1", "text": "x"}),
        ("post", "tool_result") => json!({"call": "c1", "result": 1}),
        ("post", "move") => json!({"from": "a.txt", "to": "b.txt"}),
        ("post", "processes") => json!({"argv": ["touch", "made.txt"]}),
        ("post", "signal") => json!({"signal": 9}),
        ("post", "operations") => {
            json!({"op": "remove", "path": "/workspace/a.txt"})
        }
        ("post", "messages") => json!({"text": "?"}),
        ("post", "{approval}") => json!({"decision": "accept"}),
        _ => panic!("a body for {method} {template} is missing here"),
    }
}

/// The paths that a source file of the server adds to a router.
pub fn compatible_api_paths(files: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(source().join(file)).expect("a source file");
        let parts = text.split(".route(").skip(1);
        found.extend(parts.map(|part| {
            let part = part.trim_start();
            let literal = part.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            let (path, _) = literal.unwrap_or_else(|| panic!("no path in {file}: {part:.40}"));
            path.to_owned()
        }));
    }
    found
}

/// The source files that add routes to a router, in order.
pub fn files_with_routes() -> Vec<String> {
    let mut found = Vec::new();
    collect(&source(), "", &mut found);
    found.sort();
    found
}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the source") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found);
        } else if fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(".route(")) {
            found.push(name);
        }
    }
}

fn source() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
