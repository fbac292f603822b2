//! One container, from its start to its end.

use crate::exchange::{Question, read, refused};
use crate::output::Output;
use crate::{Engine, Error};
use hyper::{Method, StatusCode};

/// A container that was made.
#[derive(Clone, Debug)]
pub struct Container {
    engine: Engine,
    id: String,
}

impl Container {
    pub(crate) fn new(engine: Engine, id: &str) -> Container {
        Container {
            engine,
            id: id.to_owned(),
        }
    }

    /// The engine's name for it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its processes write to their standard output and error from now on. Best asked for before the start.
    pub async fn attach(&self) -> Result<Output, Error> {
        let path = self.path("attach?stream=1&stdout=1&stderr=1");
        let question = Question::post("to listen to a container", &path);
        let answer = self.engine.send(question, true).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (status, answer) = read(question, answer).await?;
            return Err(refused(question, status, &answer));
        }
        let upgraded = hyper::upgrade::on(answer).await;
        Ok(Output::new(
            upgraded.map_err(|error| question.silent(error))?,
        ))
    }

    /// Starts it.
    pub async fn start(&self) -> Result<(), Error> {
        let path = self.path("start");
        let question = Question::post("to start a container", &path);
        self.engine.order(question).await.map(drop)
    }

    /// Waits until it has ended, and returns its exit code. The engine's own end is an error.
    pub async fn wait(&self) -> Result<i64, Error> {
        let path = self.path("wait?condition=removed");
        let question = Question::post("when a container ends", &path);
        let answer = self.engine.send(question, false).await?;
        match read(question, answer).await? {
            (status, answer) if status.is_success() => {
                let code = answer.get("StatusCode").and_then(|code| code.as_i64());
                code.ok_or_else(|| question.silent("what it said makes no sense"))
            }
            (status, answer) => Err(refused(question, status, &answer)),
        }
    }

    /// Ends it, if it runs, and removes it. One that is gone already is fine.
    pub async fn remove(&self) -> Result<(), Error> {
        let path = format!("/containers/{}?force=1&v=1", self.id);
        let question = Question {
            method: &Method::DELETE,
            ..Question::get("to remove a container", &path)
        };
        match self.engine.ask(question).await? {
            (status, _) if status.is_success() => Ok(()),
            // Gone, or going: it removes itself.
            (StatusCode::NOT_FOUND | StatusCode::CONFLICT, _) => Ok(()),
            (status, answer) => Err(refused(question, status, &answer)),
        }
    }

    fn path(&self, what: &str) -> String {
        format!("/containers/{}/{what}", self.id)
    }
}
