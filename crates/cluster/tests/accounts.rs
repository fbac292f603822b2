//! Clusters in accounts of one NATS server, behind TLS: each connects with its credentials, and sees nothing of another.
//!
//! Without `nats-server` the test is skipped, and says so; in CI that is an error.
#![cfg(feature = "nats")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

use bytes::Bytes;
use cellblock_cluster::engine::{
    Digest, Engine, EngineError, Sequence, SessionEntry, SessionState,
};
use cellblock_cluster::nats::{NatsOptions, NatsTls, connect, examine};
use cellblock_cluster::{NodeId, Runtime, SessionId, TokioRuntime};
use serde_json::json;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A key for tests, as NATS's own documentation prints it.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC_KEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

/// A server with two accounts that wants certificates of its clients.
struct Server {
    process: Child,
    directory: TempDir,
    port: u16,
}

impl Server {
    fn start() -> Option<Server> {
        let program = program()?;
        let directory = tempfile::tempdir().unwrap();
        write_certificates(directory.path());
        for (name, text) in [
            ("acme", "acme:of-acme\n"),
            ("zeta", SEED),
            ("wrong", "acme:guess"),
        ] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let file = |name: &str| directory.path().join(name);
        let settings = format!(
            "listen: 127.0.0.1:{port}\nmax_payload: 2MB\n\
             jetstream {{ store_dir: {:?}, sync_interval: always }}\n\
             tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}\n\
             accounts {{\n\
               ACME {{ jetstream: enabled, users: [{{ user: acme, password: of-acme }}] }}\n\
               ZETA {{ jetstream: enabled, users: [{{ nkey: {PUBLIC_KEY} }}] }}\n\
             }}\n",
            file("store"),
            file("cert.pem"),
            file("key.pem"),
            file("ca.pem"),
        );
        std::fs::write(file("server.conf"), settings).unwrap();
        let process = Command::new(program)
            .arg("-c")
            .arg(file("server.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Server {
            process,
            directory,
            port,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A cluster in the account of these credentials. All have one name.
    fn options(&self, credentials: &str) -> NatsOptions {
        NatsOptions {
            servers: vec![format!("nats://127.0.0.1:{}", self.port)],
            credentials: Some(self.file(credentials)),
            tls: NatsTls {
                authorities: Some(self.file("ca.pem")),
                certificate: Some((self.file("cert.pem"), self.file("key.pem"))),
            },
            prefix: "shared".to_owned(),
            replicas: 1,
            shards: 2,
            lease: Duration::from_secs(600),
        }
    }

    /// Connects once the server is there.
    async fn connect(&self, credentials: &str) -> Engine {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match connect(&self.options(credentials), &runtime()).await {
                Ok(engine) => return engine,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server: of PATH, or where `tests/cluster` of the repository puts it.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server/bin");
    let found = std::env::split_paths(&path)
        .chain([in_target])
        .map(|directory| directory.join("nats-server"))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "nats-server is missing");
        eprintln!("skipped: there is no nats-server; `tests/cluster` brings it");
    }
    found
}

/// Writes an authority, and a certificate of it for this machine.
fn write_certificates(directory: &Path) {
    let made = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = authority.self_signed(&made).unwrap();
    std::fs::write(directory.join("ca.pem"), root.pem()).unwrap();
    let issuer = rcgen::Issuer::new(authority, made);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    std::fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
}

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::new())
}

#[test]
fn clusters_in_two_accounts_of_one_server_see_nothing_of_each_other() {
    let Some(server) = Server::start() else {
        return;
    };
    cellblock_test_support::wait(async move {
        let (acme, zeta) = (server.connect("acme").await, server.connect("zeta").await);
        let session = SessionId::new("the-same").unwrap();
        let of_acme = SessionEntry {
            node: NodeId::new("n").unwrap(),
            state: SessionState::Asleep,
            about: json!({"user": "acme/ann"}),
        };
        let claimed = acme.directory.claim(&session, None, &of_acme).await;
        claimed.unwrap();
        let record = Bytes::from_static(b"{\"of\":\"acme\"}");
        let appended = acme.journals.append(&session, Sequence::START, record);
        appended.await.unwrap();
        let file = acme.blobs.put(Bytes::from_static(b"a file")).await.unwrap();
        assert_eq!(file, Digest::of(b"a file"));

        assert_eq!(zeta.directory.get(&session).await.unwrap(), None);
        assert_eq!(zeta.directory.list().await.unwrap().len(), 0);
        assert_eq!(zeta.journals.last(&session).await.unwrap(), None);
        assert_eq!(zeta.journals.list().await.unwrap().len(), 0);
        assert_eq!(zeta.blobs.get(&file).await.unwrap(), None);
        // The other one's session of this name is another session.
        let record = Bytes::from_static(b"{\"of\":\"zeta\"}");
        let appended = zeta.journals.append(&session, Sequence::START, record);
        appended.await.unwrap();
        let last = acme.journals.last(&session).await.unwrap().unwrap();
        assert_eq!(last.record, "{\"of\":\"acme\"}");

        let report = examine(&server.options("acme"), &runtime()).await.unwrap();
        assert!(report.is_encrypted);
        assert_eq!(refusal(&server.options("wrong")).await, "authorization");
        let without_authority = NatsOptions {
            tls: NatsTls::default(),
            ..server.options("acme")
        };
        assert_eq!(refusal(&without_authority).await, "certificate");
        let missing = refused(&server.options("missing")).await.0;
        assert!(missing.contains(server.file("missing").to_str().unwrap()));
    });
}

async fn refused(options: &NatsOptions) -> EngineError {
    connect(options, &runtime()).await.map(drop).unwrap_err()
}

/// The word of an error by which the command chooses its hint.
async fn refusal(options: &NatsOptions) -> &'static str {
    let error = refused(options).await.0.to_ascii_lowercase();
    let words = ["authorization", "certificate"];
    let found = words.into_iter().find(|word| error.contains(word));
    found.unwrap_or_else(|| panic!("{error}"))
}
