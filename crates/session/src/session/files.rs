//! The files of a session's workspace, through its handle.

use super::Session;
use crate::Error;
use crate::files::workspace::Workspace;
use cellblock_protocol::FileEntry;
use std::sync::Arc;

impl Session {
    /// Writes a file of the workspace, with the directories above it.
    pub async fn put_file(&self, path: &str, contents: Vec<u8>) -> Result<(), Error> {
        let contents = Arc::new(contents);
        let (to, what) = (path.to_owned(), Arc::clone(&contents));
        self.with_files(move |workspace| workspace.put(&to, &what))
            .await?;
        let recorded = self.shared.journal.put_file(path, contents).await;
        recorded.map_err(|reason| Error::Ended {
            session: self.shared.id.clone(),
            reason,
        })
    }

    /// Writes a file that can be made again from a result, such as a picture that was shown. Unlike [`put_file`](Session::put_file), it is not in the journal.
    pub async fn save_file(&self, path: &str, contents: Vec<u8>) -> Result<(), Error> {
        let path = path.to_owned();
        self.with_files(move |workspace| workspace.put(&path, &contents))
            .await
    }

    /// Reads a file of the workspace of at most 64 MiB. Larger ones are read in parts, by [`get_file_part`](Session::get_file_part) or
    /// from what [`open_file`](Session::open_file) returns: code of a session makes a file of any size in no time.
    pub async fn get_file(&self, path: &str) -> Result<Vec<u8>, Error> {
        let path = path.to_owned();
        self.with_files(move |workspace| workspace.get(&path)).await
    }

    /// Reads a part of a file of the workspace: `length` bytes from the byte `offset` on, or as many as there are; at most 64 MiB.
    pub async fn get_file_part(
        &self,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Error> {
        let path = path.to_owned();
        self.with_files(move |workspace| workspace.get_part(&path, offset, length))
            .await
    }

    /// Opens a file of the workspace for reading: for what is too large to be held in memory.
    pub async fn open_file(&self, path: &str) -> Result<std::fs::File, Error> {
        let path = path.to_owned();
        self.with_files(move |workspace| workspace.open_file(&path))
            .await
    }

    /// Lists the files of the workspace.
    pub async fn list_files(&self) -> Result<Vec<FileEntry>, Error> {
        self.with_files(|workspace| Ok(workspace.list())).await
    }

    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let workspace = Arc::clone(&self.shared.base.workspace);
        let done = tokio::task::spawn_blocking(move || work(&workspace)).await;
        done.unwrap_or_else(|error| {
            Err(Error::System {
                what: "working with files",
                source: std::io::Error::other(error),
            })
        })
    }
}
