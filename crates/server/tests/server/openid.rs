//! Logging in by OpenID Connect, with a provider that runs in the test.

use crate::common::{Answer, Caller, TestServer};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cellblock_server::OpenIdOptions;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A provider that lets everyone in as the user of its claims.
#[derive(Clone)]
struct FakeProvider {
    issuer: String,
    claims: Arc<Mutex<Value>>,
    /// The query with which the browser came.
    asked: Arc<Mutex<HashMap<String, String>>>,
    /// The credentials and the form of the last exchange.
    exchanged: Arc<Mutex<(String, HashMap<String, String>)>>,
}

impl FakeProvider {
    async fn start() -> FakeProvider {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let provider = FakeProvider {
            issuer: format!("http://{}", listener.local_addr().expect("an address")),
            claims: Arc::new(Mutex::new(
                json!({"sub": "g-1", "preferred_username": "grace"}),
            )),
            asked: Arc::default(),
            exchanged: Arc::default(),
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/token", post(exchange))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    /// A server whose users log in here.
    async fn server(&self) -> TestServer {
        let openid = OpenIdOptions {
            issuer: self.issuer.clone(),
            client_id: "cellblock".to_owned(),
            client_secret: Some("s3cret".to_owned()),
            public_url: "http://localhost".to_owned(),
            name_claim: "preferred_username".to_owned(),
        };
        TestServer::with(|options| options.openid = Some(openid)).await
    }

    fn set(&self, claim: &str, value: Value) {
        self.claims.lock().expect("no panic")[claim] = value;
    }
}

async fn describe(State(provider): State<FakeProvider>) -> Json<Value> {
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
    }))
}

async fn exchange(
    State(provider): State<FakeProvider>,
    headers: HeaderMap,
    body: String,
) -> Result<Json<Value>, StatusCode> {
    let form = pairs(&body);
    let asked = provider.asked.lock().expect("no panic").clone();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
    if form["code"] != "good" || challenge != asked["code_challenge"] {
        return Err(StatusCode::BAD_REQUEST);
    }
    let mut claims = json!({
        "iss": provider.issuer, "aud": "cellblock", "nonce": asked["nonce"], "exp": 4_000_000_000_u64,
    });
    let own = provider.claims.lock().expect("no panic").clone();
    claims
        .as_object_mut()
        .expect("an object")
        .extend(own.as_object().expect("an object").clone());
    let credentials = headers["authorization"]
        .to_str()
        .expect("a text")
        .to_owned();
    *provider.exchanged.lock().expect("no panic") = (credentials, form);
    let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
    Ok(Json(json!({"id_token": format!("e30.{payload}.c2ln")})))
}

fn pairs(text: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://localhost/?{text}")).expect("a query");
    url.query_pairs().into_owned().collect()
}

/// A browser that was sent to the provider.
struct Browser<'a> {
    caller: Caller<'a>,
    state: String,
}

impl<'a> Browser<'a> {
    async fn begin(provider: &FakeProvider, server: &'a TestServer) -> Browser<'a> {
        let answer = server
            .anyone()
            .get("/v1/openid/begin?return_to=%2Fsessions")
            .await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text());
        let location = answer.header("location").to_owned();
        let query = location.split_once('?').expect("a query");
        assert_eq!(query.0, format!("{}/authorize", provider.issuer));
        let asked = pairs(query.1);
        let state = asked["state"].clone();
        *provider.asked.lock().expect("no panic") = asked;
        let cookie = answer
            .header("set-cookie")
            .split(';')
            .next()
            .expect("a text");
        Browser {
            caller: server.anyone().with("cookie", cookie),
            state,
        }
    }

    async fn come_back(&self, code: &str) -> Answer {
        let path = format!("/v1/openid/callback?code={code}&state={}", self.state);
        self.caller.get(&path).await
    }
}

async fn log_in(provider: &FakeProvider, server: &TestServer) -> Answer {
    Browser::begin(provider, server)
        .await
        .come_back("good")
        .await
}

/// What the server says to the browser that an answer logged in.
async fn account_of(server: &TestServer, login: &Answer) -> Value {
    let browser = server.anyone().logged_in_by(login);
    browser.get("/v1/me").await.json()
}

#[tokio::test]
async fn a_person_of_the_provider_gets_an_account_and_keeps_it() {
    let provider = FakeProvider::start().await;
    let server = provider.server().await;
    assert_eq!(
        server.anyone().get("/v1/server").await.json()["openid"],
        true
    );
    let first = log_in(&provider, &server).await;
    assert_eq!(first.header("location"), "/sessions");
    let me = account_of(&server, &first).await;
    assert_eq!(
        (&me["user"]["name"], &me["user"]["role"]),
        (&json!("grace"), &json!("user"))
    );
    // The provider's id counts, not the name.
    provider.set("preferred_username", json!("hopper"));
    let again = log_in(&provider, &server).await;
    let same = account_of(&server, &again).await;
    assert_eq!(same["user"]["id"], me["user"]["id"]);
    let (credentials, form) = provider.exchanged.lock().expect("no panic").clone();
    let expected = base64::engine::general_purpose::STANDARD.encode("cellblock:s3cret");
    assert_eq!(credentials, format!("Basic {expected}"));
    assert_eq!(form["redirect_uri"], "http://localhost/v1/openid/callback");
    // There is no administrator yet, so the link for the first one can still be had.
    assert!(
        server
            .server
            .first_start_secret()
            .await
            .expect("a store")
            .is_some()
    );
}

#[tokio::test]
async fn a_name_never_leads_to_an_account_that_exists() {
    let provider = FakeProvider::start().await;
    let server = provider.server().await;
    server.admin().await;
    provider.set("preferred_username", json!("ADA"));
    let answer = log_in(&provider, &server).await;
    assert_eq!(answer.header("location"), "/login#name_taken");
    assert_eq!(answer.header("set-cookie"), "");
    provider.set("preferred_username", json!("a/../b"));
    assert_eq!(
        log_in(&provider, &server).await.header("location"),
        "/login#bad_name"
    );
}

#[tokio::test]
async fn a_login_belongs_to_the_browser_that_began_it_and_ends_once() {
    let provider = FakeProvider::start().await;
    let server = provider.server().await;
    let mut browser = Browser::begin(&provider, &server).await;
    let own = std::mem::replace(&mut browser.caller, server.anyone());
    assert_eq!(
        browser.come_back("good").await.header("location"),
        "/login#expired"
    );
    browser.caller = own;
    assert_eq!(
        browser.come_back("good").await.header("location"),
        "/sessions"
    );
    assert_eq!(
        browser.come_back("good").await.header("location"),
        "/login#expired"
    );
    let other = Browser::begin(&provider, &server).await;
    assert_eq!(
        other.come_back("bad").await.header("location"),
        "/login#failed"
    );
}

#[tokio::test]
async fn a_closed_account_and_a_refusal_of_the_provider_let_no_one_in() {
    let provider = FakeProvider::start().await;
    let server = provider.server().await;
    let first = log_in(&provider, &server).await;
    let me = account_of(&server, &first).await;
    let admin = server.admin().await;
    let path = format!("/v1/users/{}", me["user"]["id"].as_str().expect("an id"));
    let closed = admin
        .send(axum::http::Method::PATCH, &path, json!({"disabled": true}))
        .await;
    assert_eq!(closed.status, StatusCode::OK, "{}", closed.text());
    assert_eq!(
        log_in(&provider, &server).await.header("location"),
        "/login#disabled"
    );
    let browser = Browser::begin(&provider, &server).await;
    let path = format!(
        "/v1/openid/callback?error=access_denied&state={}",
        browser.state
    );
    assert_eq!(
        browser.caller.get(&path).await.header("location"),
        "/login#denied"
    );
    let audit = admin.get("/v1/audit").await.text();
    assert!(audit.contains("denied: access_denied"), "{audit}");
}
