//! The OpenAPI document, made from the table of routes.

use super::{BodyKind, Route, all};
use crate::auth::Access;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The OpenAPI document of this version of the server.
pub fn document() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in all() {
        let body = match &route.body {
            Some(BodyKind::Json(schema)) => {
                Some(("application/json", schema(&mut generator).to_value()))
            }
            Some(BodyKind::Object(what)) => Some((
                "application/json",
                json!({"type": "object", "description": what}),
            )),
            Some(BodyKind::Bytes) => Some((
                "application/octet-stream",
                json!({"type": "string", "format": "binary"}),
            )),
            None => None,
        };
        let path = paths
            .entry(plain_path(route.path))
            .or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(&route, body);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": {"type": "string", "description": "a short word for programs"},
                "message": {"type": "string", "description": "what happened, for people"},
                "hint": {"type": ["string", "null"], "description": "what to do about it, where that is known"},
            },
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cellblock",
            "version": "1",
            "description": "Sealed, stateful Python sessions, and an agent that computes its answers in them.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "an API token, cb_…"},
                "login": {"type": "apiKey", "in": "cookie", "name": "cellblock"},
            },
        },
    })
}

fn operation(route: &Route, body: Option<(&str, Value)>) -> Value {
    let in_path = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{'));
    let in_path = in_path.map(|part| {
        let name = part.trim_end_matches('}').trim_start_matches('*');
        json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
    });
    let in_query = route.query.iter().map(|field| {
        json!({"name": field.name, "in": "query", "description": field.meaning, "schema": {"type": "string"}})
    });
    let (status, what) = route.answer;
    let mut operation = json!({
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<Value>>(),
        "responses": {
            status.to_string(): {"description": what},
            "default": {
                "description": "the request was refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    });
    if let Some((kind, schema)) = body {
        operation["requestBody"] = json!({"content": {kind: {"schema": schema}}});
    }
    operation["security"] = match route.access {
        Access::Public => json!([]),
        Access::Needs(scope) => json!([{"token": [scope.name()]}, {"login": []}]),
    };
    operation
}

/// The path as OpenAPI writes it: without the star of a parameter that holds slashes.
fn plain_path(path: &str) -> String {
    path.replace("{*", "{")
}
