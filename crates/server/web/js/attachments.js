// Files that belong to a question: they are put into the session's workspace.

import { put, fileAddress } from "./api.js";

/**
 * @param {string} chat
 * @param {string | undefined} session
 * @param {File[]} files
 * @returns {Promise<string[]>} the names in the workspace
 */
export async function uploadAll(chat, session, files) {
  const names = [];
  for (const file of files) {
    const address = session ? fileAddress(session, file.name) : `/v1/chats/${encodeURIComponent(chat)}/files/${encodeURIComponent(file.name)}`;
    await put(address, file);
    names.push(file.name);
  }
  return names;
}
