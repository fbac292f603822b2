//! What can be asked about the variables and about source text, also while the code of a cell waits for the answer to a tool call.

use super::ANSWER_LIMIT;
use crate::actor::commands::Effect;
use crate::{Error, Session};
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{
    Completeness, Completions, Cursor, CursorHelp, Detail, Inspection, Variable, validate_question,
};

impl Session {
    /// Lists the variables; also while the code of a cell waits for the answer to a tool call.
    pub async fn vars(&self) -> Result<Vec<Variable>, Error> {
        self.ask(
            Effect::ReadOnlyDuringCall,
            ANSWER_LIMIT,
            |seq| ToHead::Vars { seq },
            Reply::variables,
        )
        .await
    }

    /// Looks at one variable; also while the code of a cell waits for the answer to a tool call.
    pub async fn inspect(&self, name: &str) -> Result<Inspection, Error> {
        let name = name.to_owned();
        self.ask(
            Effect::ReadOnlyDuringCall,
            ANSWER_LIMIT,
            |seq| ToHead::Inspect { seq, name },
            Reply::inspection,
        )
        .await
    }

    /// Says what can stand at a cursor: names, attributes, keyword arguments, modules, keys of dictionaries, paths of files. Runs no code of
    /// the session's user; also while the code of a cell waits for the answer to a tool call.
    pub async fn complete(&self, cursor: Cursor) -> Result<Completions, Error> {
        cursor.validate()?;
        let Cursor { code, pos } = cursor;
        let code_points = code.chars().count() as u64;
        self.ask(
            Effect::ReadOnlyDuringCall,
            ANSWER_LIMIT,
            move |seq| ToHead::Complete { seq, code, pos },
            |reply| reply.completions(code_points),
        )
        .await
    }

    /// Describes what stands at a cursor: its signature, type and docstring; also while the code of a cell waits for the answer to a tool
    /// call.
    pub async fn inspect_at(&self, cursor: Cursor, detail: Detail) -> Result<CursorHelp, Error> {
        cursor.validate()?;
        let Cursor { code, pos } = cursor;
        self.ask(
            Effect::ReadOnlyDuringCall,
            ANSWER_LIMIT,
            move |seq| ToHead::InspectAt {
                seq,
                code,
                pos,
                detail,
            },
            Reply::cursor_help,
        )
        .await
    }

    /// Says whether source text can be run as it is, or needs more lines; also while the code of a cell waits for the answer to a tool
    /// call.
    pub async fn is_complete(&self, code: &str) -> Result<Completeness, Error> {
        validate_question(code)?;
        let code = code.to_owned();
        self.ask(
            Effect::ReadOnlyDuringCall,
            ANSWER_LIMIT,
            move |seq| ToHead::IsComplete { seq, code },
            Reply::completeness,
        )
        .await
    }
}
