//! Links with which anyone reads a chat.

use super::{ChatRow, Store, StoreError};
use rusqlite::{OptionalExtension as _, params};

impl Store {
    /// Makes the link of a chat. A link that the chat had before ends.
    pub(crate) async fn share_chat(&self, chat: &str, hash: [u8; 32]) -> Result<(), StoreError> {
        let (chat, now) = (chat.to_owned(), self.now());
        self.call(move |db| {
            db.execute(
                "INSERT OR REPLACE INTO shares (chat, hash, created_at) VALUES (?, ?, ?)",
                params![chat, hash, now],
            )
        })
        .await
        .map(|_| ())
    }

    /// Ends the link of a chat.
    pub(crate) async fn unshare_chat(&self, chat: &str) -> Result<(), StoreError> {
        let chat = chat.to_owned();
        self.call(move |db| db.execute("DELETE FROM shares WHERE chat = ?", [&chat]))
            .await
            .map(|_| ())
    }

    /// Whether a chat has a link.
    pub(crate) async fn is_shared(&self, chat: &str) -> Result<bool, StoreError> {
        let chat = chat.to_owned();
        self.call(move |db| {
            db.prepare_cached("SELECT 1 FROM shares WHERE chat = ?")?
                .exists([&chat])
        })
        .await
    }

    /// The chat that a link leads to.
    pub(crate) async fn shared_chat(&self, hash: [u8; 32]) -> Result<Option<ChatRow>, StoreError> {
        let found: Option<(String, String)> = self
            .call(move |db| {
                db.prepare_cached(
                    "SELECT chats.user, chats.id FROM shares JOIN chats ON chats.id = shares.chat WHERE hash = ?",
                )?
                .query_row(params![hash], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
            })
            .await?;
        match found {
            Some((user, id)) => self.chat(&user, &id).await,
            None => Ok(None),
        }
    }
}
