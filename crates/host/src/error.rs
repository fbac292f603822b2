//! One error for the whole facade.

/// What can go wrong before a cell runs. A cell that fails is a result, not an error.
///
/// The errors of the parts are inside, whole: a program matches down to the cause.
///
/// ```
/// use cellblock_host::{Error, SessionBuilder};
/// use cellblock_session::{Error as SessionError, Refusal};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), cellblock_host::Error> {
/// let error = SessionBuilder::new().setup("1 / 0").start().await.unwrap_err();
/// assert_eq!(error.code(), "refused");
/// let Error::Session(SessionError::Refused(Refusal::Setup { output, .. })) = error else {
///     panic!("{error}");
/// };
/// assert!(output.ends_with("ZeroDivisionError: division by zero\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of finding or preparing a Python.
    #[error(transparent)]
    Environment(#[from] cellblock_env::Error),
    /// Of a session.
    #[error(transparent)]
    Session(#[from] cellblock_session::Error),
    /// Of the journal of an earlier session.
    #[error(transparent)]
    Journal(#[from] cellblock_session::journal::JournalError),
    /// Bad input.
    #[error(transparent)]
    Invalid(#[from] cellblock_protocol::Invalid),
    /// A task of ours was ended.
    #[error("a background task ended early: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// A short word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Environment(_) => "python",
            Error::Session(error) => error.code(),
            Error::Journal(_) => "journal",
            Error::Invalid(_) => "invalid",
            Error::Task(_) => "system",
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Environment(error) => error.hint(),
            _ => None,
        }
    }
}
