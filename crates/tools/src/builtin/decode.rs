//! Bytes as text, in the encodings that Python knows by name.

use encoding_rs::{Encoding, UTF_8};
use std::str;

/// Why bytes are not the text that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// Nobody knows that encoding.
    UnknownEncoding,
    /// The bytes are no text in it.
    Malformed,
}

/// The text, or why it is none. Nothing is replaced: a wrong encoding must be seen.
pub(super) fn decode(bytes: &[u8], name: &str) -> Result<String, Undecodable> {
    let label = name.trim().to_ascii_lowercase().replace('_', "-");
    let strict = |encoding: &'static Encoding| {
        let (text, _, malformed) = encoding.decode(bytes);
        if malformed {
            Err(Undecodable::Malformed)
        } else {
            Ok(text.into_owned())
        }
    };
    match label.as_str() {
        // A byte order mark is a character there, as it is for Python.
        "utf-8" | "utf8" => str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| Undecodable::Malformed),
        "utf-8-sig" => strict(UTF_8),
        // Web browsers take it for something larger.
        "ascii" | "us-ascii" => match bytes.is_ascii() {
            true => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            false => Err(Undecodable::Malformed),
        },
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => {
            Ok(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        other => {
            let plain = match other {
                "cp936" => "gbk",
                "cp932" => "shift_jis",
                "cp949" => "euc-kr",
                "cp950" => "big5",
                "utf-16" | "utf16" => "utf-16le",
                other => other,
            };
            let shift = plain
                .strip_prefix("cp125")
                .map(|digit| format!("windows-125{digit}"));
            let label = shift.as_deref().unwrap_or(plain);
            strict(Encoding::for_label(label.as_bytes()).ok_or(Undecodable::UnknownEncoding)?)
        }
    }
}
