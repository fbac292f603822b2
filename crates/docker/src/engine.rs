//! The engine: where it is, whether it is there, and what it has.

use crate::exchange::{Question, refused};
use crate::plan::Plan;
use crate::{Container, Error};
use hyper::StatusCode;
use std::path::{Path, PathBuf};

/// Where engines are unless somebody says otherwise.
const USUAL: &str = "/var/run/docker.sock";

/// A container engine on this machine. Nothing is sent before the first request.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: PathBuf,
}

impl Engine {
    /// The one that `DOCKER_HOST` names, or the one at the usual place.
    pub fn from_environment() -> Result<Engine, Error> {
        match std::env::var("DOCKER_HOST") {
            Ok(address) if !address.is_empty() => Engine::named(&address),
            _ => Ok(Engine::at(USUAL)),
        }
    }

    /// The one at an address as `DOCKER_HOST` has it: `unix:///var/run/docker.sock`.
    pub fn named(address: &str) -> Result<Engine, Error> {
        match address.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(Engine::at(path)),
            _ => Err(Error::Elsewhere {
                address: address.to_owned(),
            }),
        }
    }

    /// The one whose socket this is.
    pub fn at(socket: impl Into<PathBuf>) -> Engine {
        Engine {
            socket: socket.into(),
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it is, as `DOCKER_HOST` would say it.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Its version, if it answers.
    pub async fn version(&self) -> Result<String, Error> {
        let question = Question::get("what version it is", "/version");
        let answer = self.order(question).await?;
        match answer.get("Version").and_then(|version| version.as_str()) {
            Some(version) => Ok(version.to_owned()),
            None => Err(question.silent("what it said makes no sense")),
        }
    }

    /// Makes a container. It does not run yet.
    pub async fn create(&self, plan: &Plan) -> Result<Container, Error> {
        let path = format!("/containers/create?name={}", plan.name);
        let body = plan.to_json();
        let question = Question {
            body: Some(&body),
            ..Question::post("to make a container", &path)
        };
        let answer = match self.ask(question).await? {
            (status, answer) if status.is_success() => answer,
            (StatusCode::NOT_FOUND, _) => {
                return Err(Error::NoImage {
                    image: plan.image.clone(),
                });
            }
            (status, answer) => return Err(refused(question, status, &answer)),
        };
        let is_id = |id: &&str| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric());
        match answer.get("Id").and_then(|id| id.as_str()).filter(is_id) {
            Some(id) => Ok(Container::new(self.clone(), id)),
            None => Err(question.silent("it gave the container no id")),
        }
    }
}
