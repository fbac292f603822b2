//! The tool `fetch_page`: a page of the web as Markdown, through the network of the session.

use super::page_text::markdown_of;
use crate::{Context, Tool, ToolError};
use cellblock_protocol::Spawn;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// The program that fetches: in the session's walls, so that the guard sees the connection and the rules of the session count.
const FETCH: &str = include_str!("fetch_page.py");
/// How long a page may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The characters of a page that are shown at a time.
const MAX_SHOWN_CHARS: usize = 12_000;

/// Fetches pages of the web.
#[derive(Debug)]
pub struct FetchPageTool;

/// Fetches a page over the network of the session and returns it as Markdown, with its links. Only hosts that the user opened can be
/// reached.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FetchPage {
    /// The address, http or https.
    url: String,
    /// The character to begin with, to read on in a long page.
    #[serde(default)]
    start: usize,
}

/// What the program says about a page, before its content.
#[derive(Debug, Deserialize)]
struct PageHead {
    status: u16,
    url: String,
    kind: String,
    charset: Option<String>,
    is_cut: bool,
}

impl Tool for FetchPageTool {
    type Parameters = FetchPage;
    type Output = String;

    fn time_limit(&self) -> Option<Duration> {
        // The program has its own limit.
        Some(TIME_LIMIT + Duration::from_secs(30))
    }

    async fn call(&self, page: FetchPage, context: &Context) -> Result<String, ToolError> {
        let is_web = ["http://", "https://"]
            .iter()
            .any(|scheme| page.url.starts_with(scheme));
        if !is_web {
            let message = "the address must begin with http:// or https://";
            return Err(ToolError::new(message));
        }
        let session = context.runner().session().await?;
        context.ask_about_hosts(&session);
        let argv = ["python3", "-c", FETCH, &page.url].map(str::to_owned);
        let spawn = Spawn {
            argv: argv.to_vec(),
            timeout: Some(TIME_LIMIT),
            ..Spawn::default()
        };
        let process = session.spawn(spawn).await?;
        let output = process.output().await;
        let end_of_head = output.stdout.iter().position(|byte| *byte == b'\n');
        let head = end_of_head.and_then(|end| serde_json::from_slice(&output.stdout[..end]).ok());
        let (Some(head), Some(end)) = (head, end_of_head) else {
            let reason = String::from_utf8_lossy(&output.stderr);
            let reason: String = reason.trim().chars().take(1_000).collect();
            return Err(ToolError::new(format!(
                "{} could not be fetched: {reason}. Only hosts that the user has opened can be reached (--allow-net HOST)",
                page.url
            )));
        };
        Ok(shown(&head, &output.stdout[end + 1..], page.start))
    }
}

/// A page as the text that a model reads.
fn shown(head: &PageHead, body: &[u8], start: usize) -> String {
    let is_html = head.kind == "text/html" || head.kind == "application/xhtml+xml";
    let is_text = is_html
        || head.kind.starts_with("text/")
        || head.kind.ends_with("json")
        || head.kind.ends_with("xml");
    let first = format!("{} ({}, status {})", head.url, head.kind, head.status);
    if !is_text {
        return format!(
            "{first}\n[{} bytes, no text; fetch it in Python]",
            body.len()
        );
    }
    let encoding = head
        .charset
        .as_deref()
        .and_then(|name| encoding_rs::Encoding::for_label(name.as_bytes()))
        .unwrap_or(encoding_rs::UTF_8);
    let (text, ..) = encoding.decode(body);
    let text = match is_html {
        true => markdown_of(&text, &head.url),
        false => text.into_owned(),
    };
    let total = text.chars().count();
    let part: String = text.chars().skip(start).take(MAX_SHOWN_CHARS).collect();
    let end = start + part.chars().count();
    let mut shown = format!("{first}\n\n{part}");
    if end < total {
        shown += &format!(
            "\n[… {} more characters: call again with start={end}]",
            total - end
        );
    } else if head.is_cut {
        shown += "\n[… the page is longer than what is fetched]";
    }
    shown
}
