//! The pages and files through the router, as a browser asks for them.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

async fn ask(request: Request<Body>) -> Response {
    let render = axum::routing::post(super::render::render).layer(super::render::body_limit());
    super::files_and_pages()
        .nest_service("/web/render", render)
        .with_state(())
        .oneshot(request)
        .await
        .unwrap()
}

async fn get(address: &str) -> Response {
    ask(Request::get(address).body(Body::empty()).unwrap()).await
}

async fn text(response: Response) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

fn header_of(response: &Response, name: header::HeaderName) -> &str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_file_that_the_page_names_is_there() {
    let document = text(get("/").await).await;
    let names: Vec<&str> = document
        .split('"')
        .filter(|part| part.starts_with("/assets/"))
        .collect();
    assert!(names.len() > 4, "{document}");
    for name in names {
        let response = get(name).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        assert!(
            header_of(&response, header::CACHE_CONTROL).contains("immutable"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn every_module_that_a_module_imports_is_there() {
    let document = text(get("/").await).await;
    let base = document
        .split('"')
        .find(|part| part.ends_with("/js/main.js"))
        .unwrap()
        .replace("main.js", "");
    let mut waiting = vec!["main.js".to_owned()];
    let mut seen = Vec::new();
    while let Some(name) = waiting.pop() {
        let response = get(&format!("{base}{name}")).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        let source = text(response).await;
        for import in source
            .split("\"./")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .filter(|name| name.ends_with(".js"))
        {
            if !seen.iter().any(|known| known == import) {
                seen.push(import.to_owned());
                waiting.push(import.to_owned());
            }
        }
    }
    assert!(
        seen.iter().any(|name| name == "session_page.js"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_file_of_another_version_is_not_served() {
    assert_eq!(
        get("/assets/0000/js/main.js").await.status(),
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        get("/assets/0000/..%2f..%2fCargo.toml").await.status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_file_is_compressed_and_not_sent_twice() {
    let request = Request::get("/").header(header::ACCEPT_ENCODING, "br, gzip;q=1");
    let response = ask(request.body(Body::empty()).unwrap()).await;
    assert_eq!(header_of(&response, header::CONTENT_ENCODING), "gzip");
    let tag = header_of(&response, header::ETAG).to_owned();
    let again = ask(Request::get("/")
        .header(header::IF_NONE_MATCH, tag)
        .body(Body::empty())
        .unwrap())
    .await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn the_first_load_is_small_and_the_page_names_all_of_it() {
    let document = text(get("/").await).await;
    let mut bytes = 0;
    let mut named = Vec::new();
    for address in document
        .split('"')
        .filter(|part| part.starts_with("/assets/"))
    {
        let request = Request::get(address).header(header::ACCEPT_ENCODING, "gzip");
        let response = ask(request.body(Body::empty()).unwrap()).await;
        bytes += response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .len();
        named.push(address.rsplit('/').next().unwrap().to_owned());
        // A module that the page does not name would be found only after the one that imports it has come.
        if address.ends_with(".js") {
            let source = text(get(address).await).await;
            let lines = source.lines().filter(|line| line.starts_with("import "));
            for import in lines.filter_map(|line| line.split("\"./").nth(1)) {
                let name = import.trim_end_matches("\";");
                assert!(
                    document.contains(&format!("/js/{name}\"")),
                    "{name} of {address}"
                );
            }
        }
    }
    assert!(bytes < 60_000, "{bytes} bytes");
    assert!(named.iter().any(|name| name == "chat_page.js"), "{named:?}");
}

#[tokio::test]
async fn pages_run_only_their_own_scripts_and_the_frame_has_no_origin() {
    let page = get("/sessions/s1").await;
    let policy = header_of(&page, header::CONTENT_SECURITY_POLICY);
    assert!(
        policy.contains("script-src 'self';")
            && policy.contains("require-trusted-types-for 'script'"),
        "{policy}"
    );
    let frame = get("/frame").await;
    let policy = header_of(&frame, header::CONTENT_SECURITY_POLICY);
    assert!(
        policy.starts_with("sandbox allow-scripts;") && !policy.contains("allow-same-origin"),
        "{policy}"
    );
    assert!(policy.contains("default-src 'none'"), "{policy}");
}

#[tokio::test]
async fn texts_are_rendered_in_one_request_and_too_many_are_refused() {
    let send = |body: String| {
        Request::post("/web/render")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .unwrap()
    };
    let parts = r#"[{"kind":"markdown","text":"*a*"},{"kind":"code","language":"py","text":"1"},{"kind":"ansi","text":"<"},{"kind":"csv","text":"a\n1"}]"#;
    let answer = ask(send(parts.to_owned())).await;
    assert_eq!(
        text(answer).await,
        r#"[{"html":"<p><em>a</em></p>\n"},{"html":"<span class=\"hl-number\">1</span>"},{"html":"&lt;"},{"table":{"columns":["a"],"rows":[["1"]],"is_cut":false}}]"#
    );
    let many = format!("[{}]", vec![r#"{"kind":"ansi","text":""}"#; 201].join(","));
    assert_eq!(
        ask(send(many)).await.status(),
        StatusCode::PAYLOAD_TOO_LARGE
    );
}
