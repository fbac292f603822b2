//! The engine: its address, its errors, and one request with its answer.

use crate::container::{Container, ContainerSpec};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The socket of an engine where `DOCKER_HOST` names none.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Creating a container on a slow disk takes seconds; after a minute the engine hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A container engine on this machine. A value of this type opens no connection: each request opens
/// one of its own.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: PathBuf,
}

impl Engine {
    /// The engine that `DOCKER_HOST` names, else the one at `/var/run/docker.sock`.
    ///
    /// # Errors
    ///
    /// [`Error::NotLocal`] where `DOCKER_HOST` is no `unix://` address.
    pub fn from_environment() -> Result<Engine, Error> {
        match std::env::var("DOCKER_HOST") {
            Ok(address) if !address.is_empty() => Engine::from_address(&address),
            _ => Ok(Engine::at(DEFAULT_SOCKET)),
        }
    }

    /// The engine at an address in the form of `DOCKER_HOST`: `unix:///var/run/docker.sock`.
    ///
    /// ```
    /// use cellblock_docker::{Engine, Error};
    ///
    /// let engine = Engine::from_address("unix:///run/docker.sock")?;
    /// assert_eq!(engine.address(), "unix:///run/docker.sock");
    /// assert!(matches!(Engine::from_address("tcp://other:2375"), Err(Error::NotLocal { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_address(address: &str) -> Result<Engine, Error> {
        match address.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(Engine::at(path)),
            _ => Err(Error::NotLocal {
                address: address.to_owned(),
            }),
        }
    }

    /// The engine that listens on this socket.
    pub fn at(socket: impl Into<PathBuf>) -> Engine {
        Engine {
            socket: socket.into(),
        }
    }

    /// The engine's address in the form of `DOCKER_HOST`.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Creates a container. It does not run before [`Container::start`].
    ///
    /// # Errors
    ///
    /// [`Error::ImageMissing`] where the engine does not have the image: images are never pulled.
    pub async fn create(&self, spec: &ContainerSpec) -> Result<Container, Error> {
        let path = format!("/containers/create?name={}", spec.name);
        let body = spec.to_json();
        let request = ApiRequest {
            body: Some(&body),
            ..ApiRequest::post("to create a container", &path)
        };
        let answer = match self.send_and_read(request).await? {
            (status, answer) if status.is_success() => answer,
            (StatusCode::NOT_FOUND, _) => {
                return Err(Error::ImageMissing {
                    image: spec.image.clone(),
                });
            }
            (status, answer) => return Err(request.refused(status, &answer)),
        };
        let is_id = |id: &&str| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric());
        match answer.get("Id").and_then(|id| id.as_str()).filter(is_id) {
            Some(id) => Ok(Container::new(self.clone(), id)),
            None => Err(request.no_answer("it gave the container no id")),
        }
    }

    /// Sends a request and reads the whole answer, within [`REQUEST_TIMEOUT`]. The caller judges the status.
    pub(crate) async fn send_and_read(
        &self,
        request: ApiRequest<'_>,
    ) -> Result<(StatusCode, Value), Error> {
        let exchange = async {
            let answer = self.send(request, Connection::Plain).await?;
            read_answer(request, answer).await
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(request.no_answer(format!("nothing came for {} s", REQUEST_TIMEOUT.as_secs())))
            }
        }
    }

    /// Sends a request and returns when the head of the answer is there. Has no time limit.
    pub(crate) async fn send(
        &self,
        request: ApiRequest<'_>,
        connection: Connection,
    ) -> Result<Response<Incoming>, Error> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => Error::PermissionDenied {
                address: self.address(),
            },
            _ => Error::NotRunning {
                address: self.address(),
                source,
            },
        })?;
        let no_answer = |error: hyper::Error| request.no_answer(error);
        let (mut sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(no_answer)?;
        // Ends with the answer, or when the upgraded connection is dropped.
        tokio::spawn(driver.with_upgrades());
        let body = request.body.map(Value::to_string).unwrap_or_default();
        let mut http = Request::builder()
            .method(request.method)
            .uri(request.path)
            .header("Host", "engine")
            .header("Content-Type", "application/json");
        if connection == Connection::Upgraded {
            http = http
                .header("Connection", "Upgrade")
                .header("Upgrade", "tcp");
        }
        let http = http
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| request.no_answer(error))?;
        sender.send_request(http).await.map_err(no_answer)
    }
}

/// Whether the connection goes on as a byte stream after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Plain,
    Upgraded,
}

/// One request to the engine's API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiRequest<'a> {
    /// The request in words, for messages: `to start a container`.
    pub(crate) purpose: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: Option<&'a Value>,
}

impl<'a> ApiRequest<'a> {
    pub(crate) fn post(purpose: &'static str, path: &'a str) -> ApiRequest<'a> {
        ApiRequest {
            purpose,
            method: &Method::POST,
            path,
            body: None,
        }
    }

    pub(crate) fn no_answer(&self, reason: impl ToString) -> Error {
        Error::NoAnswer {
            request: self.purpose,
            reason: reason.to_string(),
        }
    }

    /// The error for an answer with a bad status, in the engine's own words where it has some.
    pub(crate) fn refused(&self, status: StatusCode, answer: &Value) -> Error {
        let message = answer.get("message").unwrap_or(answer).as_str();
        Error::Refused {
            request: self.purpose,
            message: match message {
                Some(message) if !message.is_empty() => message.to_owned(),
                _ => status.to_string(),
            },
        }
    }
}

/// Reads an answer to its end. Has no time limit.
pub(crate) async fn read_answer(
    request: ApiRequest<'_>,
    answer: Response<Incoming>,
) -> Result<(StatusCode, Value), Error> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
    let bytes = body
        .collect()
        .await
        .map_err(|error| request.no_answer(error))?
        .to_bytes();
    if bytes.is_empty() {
        return Ok((status, Value::Null));
    }
    let text = String::from_utf8_lossy(&bytes);
    // A proxy in front of the engine may answer with plain text.
    let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.trim()));
    Ok((status, value))
}

/// Why the engine did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No engine listens on the socket.
    #[error(
        "no container engine answers at {address}: {source}; start Docker, or name its socket in DOCKER_HOST"
    )]
    NotRunning {
        /// The engine's address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// This user may not open the engine's socket.
    #[error(
        "this user may not use the container engine at {address}; members of the socket's group may (`usermod -aG docker NAME`, which gives NAME all rights of root)"
    )]
    PermissionDenied {
        /// The engine's address.
        address: String,
    },
    /// `DOCKER_HOST` names an engine that is not on this machine.
    #[error(
        "DOCKER_HOST is {address}, and only an engine on this machine can be used: the workspace and the channel to the code are shared with the container as files; give a path such as unix:///var/run/docker.sock"
    )]
    NotLocal {
        /// The value of `DOCKER_HOST`.
        address: String,
    },
    /// The engine does not have the image.
    #[error("the container engine has no image {image}; `docker pull {image}` brings it")]
    ImageMissing {
        /// The image that was asked for.
        image: String,
    },
    /// The engine answered with an error.
    #[error("the container engine refused {request}: {message}")]
    Refused {
        /// The request in words.
        request: &'static str,
        /// The engine's own message.
        message: String,
    },
    /// The engine went away, or its answer could not be read.
    #[error("the container engine did not answer {request}: {reason}")]
    NoAnswer {
        /// The request in words.
        request: &'static str,
        /// What happened instead.
        reason: String,
    },
}
