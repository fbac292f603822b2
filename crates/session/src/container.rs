//! One session's container, while it lives.

use crate::Error;
use crate::echo::{self, Echo};
use crate::session::log_pieces;
use cellblock_docker::{Container, Output};
use cellblock_protocol::Event;
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long an engine may take to say that a container has gone.
const GOING: Duration = Duration::from_secs(10);
/// The last lines of a container that tell why it did not start.
const LAST_LINES: usize = 20;

/// A container that runs. When this is dropped, the container is removed.
#[derive(Debug)]
pub(crate) struct Containment {
    container: Container,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<Ended>>,
    watching: JoinHandle<()>,
    listening: Option<JoinHandle<()>>,
    last_lines: Lines,
    pub(crate) echo: Echo,
    gone: bool,
}

/// How a container ended.
#[derive(Clone, Debug)]
enum Ended {
    /// Its first process did.
    Exited(i64),
    /// Nobody can say any more.
    Lost(String),
}

/// Where the container's lines go.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// What stands in front of each.
    pub(crate) label: String,
    pub(crate) readers: broadcast::Sender<Event>,
}

type Lines = Arc<Mutex<VecDeque<String>>>;

impl Containment {
    /// Starts a container, and watches it from then on. What it writes is for the log, if there is one.
    pub(crate) async fn start(
        container: Container,
        log: Option<Log>,
    ) -> Result<Containment, Error> {
        let (telling, ended) = watch::channel(None);
        let mut containment = Containment {
            container: container.clone(),
            ended,
            watching: tokio::spawn(async {}),
            listening: None,
            last_lines: Lines::default(),
            echo: log
                .as_ref()
                .map(|log| Echo::of(&log.label))
                .unwrap_or_default(),
            gone: false,
        };
        let output = container.attach().await?;
        container.start().await?;
        let lines = Arc::clone(&containment.last_lines);
        containment.listening = Some(tokio::spawn(listen(output, lines, log)));
        containment.watching = tokio::spawn(async move {
            let ended = match container.wait().await {
                Ok(code) => Ended::Exited(code),
                Err(error) => Ended::Lost(error.to_string()),
            };
            telling.send_replace(Some(ended));
        });
        Ok(containment)
    }

    /// When the engine goes away, `init` hears nothing more: then it ends everything in the container.
    pub(crate) fn ends_with_engine(&self, init: OwnedFd) {
        let mut ended = self.ended.clone();
        tokio::spawn(async move {
            let lost = ended.wait_for(|ended| matches!(ended, Some(Ended::Lost(_))));
            if lost.await.is_ok() {
                let _ = shutdown(&init, Shutdown::Both);
            }
        });
    }

    /// Why it ended, as far as that can be told. To be asked when it seems to have.
    pub(crate) async fn why_lost(&self) -> String {
        let why = timeout(GOING, self.why_ended()).await;
        why.unwrap_or_else(|_| "its container does not answer".to_owned())
    }

    /// Waits until the container has ended, and says why.
    pub(crate) async fn why_ended(&self) -> String {
        let mut ended = self.ended.clone();
        let ended = match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_) => None,
        };
        match ended {
            Some(Ended::Exited(code)) => {
                format!("its container ended with exit code {code}{}", self.words())
            }
            Some(Ended::Lost(reason)) => {
                format!("its container was given up, for the engine went away: {reason}")
            }
            None => "its container is not watched any more".to_owned(),
        }
    }

    /// The container's last words.
    fn words(&self) -> String {
        let lines = self.last_lines.lock();
        let lines: Vec<String> = lines
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("; it said:\n{}", lines.join("\n"))
        }
    }

    /// Waits until the container, whose first process has been told to end, is gone; ends it if it does not.
    pub(crate) async fn end(&mut self) {
        let ended = self.ended.wait_for(Option::is_some);
        let by_itself = matches!(timeout(GOING, ended).await, Ok(Ok(ended)) if matches!(*ended, Some(Ended::Exited(_))));
        if !by_itself {
            let _ = timeout(GOING, self.container.remove()).await;
        }
        self.gone = true;
    }
}

impl Drop for Containment {
    fn drop(&mut self) {
        self.watching.abort();
        if let Some(listening) = &self.listening {
            listening.abort();
        }
        if self.gone {
            return;
        }
        let container = self.container.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { container.remove().await });
        }
    }
}

async fn listen(mut output: Output, last: Lines, log: Option<Log>) {
    while let Some((source, line)) = output.next_line().await {
        if let Some(Log { label, readers }) = &log {
            let line = echo::line_of(label, &source.to_string(), &line);
            echo::write(&line);
            for text in log_pieces(format!("{line}\n")) {
                let _ = readers.send(Event::Log { text });
            }
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(line);
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
}
