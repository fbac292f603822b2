//! LibreChat's code API: code, its files, and what is refused.

use crate::common::{Answer, Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use cellblock_server::Authentication;
use serde_json::{Value, json};

/// A server for one person, and a program that asks it as LibreChat does.
async fn open_server() -> TestServer {
    TestServer::with(|options| options.authentication = Authentication::Off).await
}

async fn execute(caller: &Caller<'_>, request: Value) -> Value {
    let answer = caller.post("/librechat/exec", request).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    answer.json()
}

/// Sends files as a form.
async fn upload(caller: &Caller<'_>, files: &[(&str, &str)]) -> Answer {
    let mut body = "--edge\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\nuser".to_owned();
    for (name, text) in files {
        body += "\r\n--edge\r\nContent-Disposition: form-data; name=\"file\"; ";
        body += &format!("filename=\"{name}\"\r\n\r\n{text}");
    }
    body += "\r\n--edge--\r\n";
    let form = "multipart/form-data; boundary=edge";
    let caller = caller.clone().with("content-type", form);
    let request = caller.request(Method::POST, "/librechat/upload", Body::from(body));
    caller.server.send(request).await
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn code_reads_uploaded_files_and_tells_of_those_that_it_made() {
    let server = open_server().await;
    let caller = server.anyone();
    let uploaded = upload(&caller, &[("in.csv", "a,b\n1,2\n"), ("notes.txt", "n")]).await;
    assert_eq!(uploaded.status, StatusCode::OK, "{}", uploaded.text());
    let uploaded = uploaded.json();
    let storage = text(&uploaded, "storage_session_id");
    // LibreChat takes ids of this length only.
    assert_eq!(
        (uploaded["message"].clone(), storage.len()),
        (json!("success"), 21)
    );
    let file = &uploaded["files"][0];
    assert_eq!(
        (text(file, "filename"), text(file, "fileId").len()),
        ("in.csv", 21)
    );

    let reference =
        json!([{"id": file["fileId"], "name": "in.csv", "storage_session_id": storage}]);
    let code =
        "text = open('in.csv').read()\nprint(text)\nopen('out.txt', 'w').write(text.upper())";
    let given = execute(
        &caller,
        json!({"lang": "py", "code": code, "files": reference}),
    )
    .await;
    assert_eq!(given["stdout"], "a,b\n1,2\n\n", "{given}");
    assert_eq!(given["stderr"], "");
    let made = &given["files"][0];
    assert_eq!(text(made, "name"), "out.txt");

    let path = format!("/librechat/download/{storage}/{}", text(made, "id"));
    let read = caller.get(&path).await;
    assert_eq!(read.text(), "A,B\n1,2\n");
    assert!(read.header("content-disposition").contains("out.txt"));
    let about = format!("/librechat/sessions/{storage}/objects/{}", text(made, "id"));
    assert_eq!(caller.get(&about).await.json()["size"], 8);
    let listed = caller
        .get(&format!("/librechat/files/{storage}"))
        .await
        .json();
    let names: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| text(file, "name"))
        .collect();
    assert_eq!(names, ["in.csv", "notes.txt", "out.txt"]);
    let gone = format!("/librechat/files/{storage}/{}", text(made, "id"));
    assert_eq!(caller.delete(&gone).await.status, StatusCode::NO_CONTENT);
    assert_eq!(caller.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_variables_and_takes_files_of_another_one() {
    let server = open_server().await;
    let caller = server.anyone();
    let first = execute(&caller, json!({"lang": "py", "code": "x = 5; print(x)"})).await;
    let session = text(&first, "session_id");
    let again = json!({"lang": "py", "code": "print(x + 1)", "session_id": session});
    assert_eq!(execute(&caller, again).await["stdout"], "6\n");

    let uploaded = upload(&caller, &[("data.txt", "from elsewhere")])
        .await
        .json();
    let storage = text(&uploaded, "storage_session_id");
    let id = &uploaded["files"][0]["fileId"];
    let files = json!([{"id": id, "name": "data.txt", "storage_session_id": storage}]);
    let code = "print(open('data.txt').read(), x)";
    let request = json!({"lang": "py", "code": code, "session_id": session, "files": files});
    assert_eq!(
        execute(&caller, request).await["stdout"],
        "from elsewhere 5\n"
    );

    let failed = execute(
        &caller,
        json!({"lang": "py", "code": "1 / 0", "session_id": session}),
    )
    .await;
    assert!(
        text(&failed, "stderr").contains("ZeroDivisionError"),
        "{failed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_is_refused_and_leaves_no_session() {
    let server = open_server().await;
    let caller = server.anyone();
    for (path, body, status) in [
        ("/librechat/exec", json!({"lang": "js", "code": "1"}), 501),
        (
            "/librechat/exec",
            json!({"lang": "py", "code": "1", "args": ["a"]}),
            501,
        ),
        ("/librechat/exec/programmatic", json!({"code": "1"}), 501),
        (
            "/librechat/exec",
            json!({"lang": "py", "code": "1", "session_id": "nothing"}),
            404,
        ),
        ("/librechat/exec", json!({"lang": "py"}), 422),
    ] {
        let answer = caller.post(path, body.clone()).await;
        assert_eq!(answer.status.as_u16(), status, "{body}: {}", answer.text());
    }
    let outside = upload(&caller, &[("../outside.txt", "text")]).await;
    assert!(outside.status.is_client_error(), "{}", outside.text());
    assert_eq!(
        upload(&caller, &[]).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let sessions = caller.get("/v1/sessions").await.json();
    let sessions = sessions["sessions"].as_array().cloned().unwrap_or_default();
    assert!(
        !sessions.iter().any(|session| session["status"] == "open"),
        "{sessions:?}"
    );
    // A page of another site cannot use the server of a single person.
    let foreign = caller.with("origin", "https://other.example");
    let answer = foreign
        .post("/librechat/exec", json!({"lang": "py", "code": "1"}))
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_a_token_of_the_server() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let made = admin
        .post("/v1/tokens", json!({"name": "chat", "scopes": ["run"]}))
        .await;
    let token = text(&made.json(), "token").to_owned();
    let request = json!({"lang": "py", "code": "print(1)"});
    let refused = server
        .anyone()
        .post("/librechat/exec", request.clone())
        .await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let caller = server.anyone().with("x-api-key", &token);
    assert_eq!(execute(&caller, request).await["stdout"], "1\n");
}
