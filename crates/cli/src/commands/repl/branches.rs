//! The forks of the session behind the prompt, and what it can go back to.

use super::shell::{AfterInput, Shell};
use crate::terminal::{next_crash, size};
use cellblock::{CheckpointList, Session};

impl Shell {
    /// Makes a fork and goes on in it. The session that was left stays as it is.
    pub(crate) async fn fork(&mut self) -> anyhow::Result<AfterInput> {
        let begun = std::time::Instant::now();
        let fork = match self.session.fork().await {
            Ok(fork) => fork,
            Err(error) => return self.recover(error.into()).await,
        };
        let took = crate::terminal::milliseconds(begun.elapsed());
        let not_copied = fork.not_copied().to_vec();
        let left = self.go_on_in(fork).await;
        self.say_dim(&format!(
            "now in {}, a fork made in {took}; %switch {left} goes back",
            self.session.id()
        ));
        self.say_dim(&format!("its files are in {}", self.workspace().display()));
        for what in not_copied {
            self.say_dim(&format!("not copied: {what}"));
        }
        Ok(AfterInput::Go)
    }

    /// Goes on in another session; without a name, lists them.
    pub(crate) async fn switch(&mut self, name: &str) -> anyhow::Result<AfterInput> {
        if name.is_empty() {
            return self.list_sessions();
        }
        if let Some(index) = self.others.iter().position(|session| session.id() == name) {
            let session = self.others.remove(index);
            self.go_on_in(session).await;
            self.say_dim(&format!("now in {name}"));
        } else if name == self.session.id() {
            self.say_dim(&format!("{name} is where you are"));
        } else {
            self.console().error(&format!(
                "there is no session {name}; %switch lists what there is"
            ));
        }
        Ok(AfterInput::Go)
    }

    /// Whether the next cell is safe, and what can be gone back to.
    pub(crate) async fn checkpoints(&mut self) -> anyhow::Result<AfterInput> {
        let CheckpointList { state, entries } = match self.session.checkpoints().await {
            Ok(answer) => answer,
            Err(error) => return self.recover(error.into()).await,
        };
        self.console()
            .print_line(&next_crash(&state, self.options.replay))?;
        for entry in entries {
            let place = match entry.cell {
                0 => "the beginning".to_owned(),
                cell => format!("after cell {cell}"),
            };
            let line = format!("{place:<16} {:>10} of its own", size(entry.bytes));
            self.console().print_line(&line)?;
        }
        Ok(AfterInput::Go)
    }

    fn list_sessions(&self) -> anyhow::Result<AfterInput> {
        for session in self.others.iter().chain([&self.session]) {
            let mark = if session.id() == self.session.id() {
                '*'
            } else {
                ' '
            };
            let line = format!(
                "{mark} {:<8} {}",
                session.id(),
                session.workspace().display()
            );
            self.console().print_line(&line)?;
        }
        Ok(AfterInput::Go)
    }

    /// Puts the session aside for another, and returns its name.
    async fn go_on_in(&mut self, session: Session) -> String {
        self.show_logs();
        self.logs = session.logs();
        // A session that replaces this one must find its files.
        self.options.workspace = Some(session.workspace().to_owned());
        let left = std::mem::replace(&mut self.session, session);
        self.current.replace(&self.session);
        let name = left.id().to_owned();
        self.others.push(left);
        self.load_names().await;
        name
    }
}
