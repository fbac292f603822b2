//! Operations on files by absolute path, also on open files of the client.

use super::operations::OperationError;
use cellblock::Session;
use cellblock::operations;
use cellblock::pipe::{FileOperation, OpenFile};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};

/// Does something with the files that a session sees.
pub(crate) async fn work_with_files(
    session: &Session,
    operation: FileOperation,
) -> Result<Value, OperationError> {
    let failed = |error| OperationError::from(cellblock::Error::Session(error));
    let paths = session.paths();
    match operation {
        FileOperation::CopyIn { path, source } => {
            let source = open_of_client(source, OpenOptions::new().read(true))?;
            let path = full_path(session, &path);
            let copied = paths.copy_in(&path, source).await;
            copied.map(|bytes| json!({"bytes": bytes})).map_err(failed)
        }
        FileOperation::CopyOut { path, target } => {
            let target = open_of_client(target, OpenOptions::new().write(true))?;
            let path = full_path(session, &path);
            let copied = paths.copy_out(&path, target).await;
            copied.map(|bytes| json!({"bytes": bytes})).map_err(failed)
        }
        operation => operations::work_with_files(session, operation)
            .await
            .map_err(OperationError::from),
    }
}

/// A path of the session, absolute or in the workspace, as an absolute one.
fn full_path(session: &Session, path: &str) -> String {
    let full = session.workspace_at().join(path);
    full.to_string_lossy().into_owned()
}

/// Opens a plain file that a process of this user has open, anew: the offset of its descriptor stays where it is.
///
/// The process is named by the client of the pipe, which may do all that this user may. A path could lead through a workspace, where
/// code of a session can put a link; a descriptor cannot.
fn open_of_client(open: OpenFile, options: &OpenOptions) -> Result<File, OperationError> {
    let OpenFile {
        process,
        descriptor,
    } = open;
    let refused = |problem: String| {
        let message =
            format!("the descriptor {descriptor} of process {process} cannot be used: {problem}");
        OperationError::new("descriptor", message)
    };
    let link = format!("/proc/{process}/fd/{descriptor}");
    // To open a pipe or a terminal could wait for ever, so it is looked at first.
    let is_plain = |metadata: std::fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(refused("it is no plain file".to_owned())),
    };
    let failed = |error: std::io::Error| refused(error.to_string());
    std::fs::metadata(&link)
        .map_err(failed)
        .and_then(is_plain)?;
    let file = options.open(&link).map_err(failed)?;
    file.metadata().map_err(failed).and_then(is_plain)?;
    Ok(file)
}
