//! Requests to the guard: code in a session writes whatever it likes to its proxy.

use crate::Outcome;
use crate::choices::{Choices, spoil};
use cellblock_network::{Authority, Credential, Guard, Rewritten};
use std::sync::{Arc, LazyLock};

/// The rules and the credential that the requests are judged with.
const RULES: [&str; 3] = [
    "GET,POST,PUT allowed.example",
    "open.example",
    "*.below.example:8080",
];
const CREDENTIAL: &str = "http://allowed.example X-Key: env:UNUSED";
/// The value of the credential.
const SECRET: &str = "5ecret";
/// Methods that the first rule allows.
const METHODS: [&str; 3] = ["GET", "POST", "PUT"];

/// A guard that allows GET, POST and PUT to `allowed.example`, with a credential, and all of `open.example`.
pub fn guard() -> &'static Guard {
    static GUARD: LazyLock<Guard> = LazyLock::new(|| {
        let rules: Vec<_> = RULES.iter().filter_map(|rule| rule.parse().ok()).collect();
        let credential = CREDENTIAL.parse().ok();
        let credential = credential.and_then(|rule| Credential::new(rule, SECRET));
        let credentials: Vec<_> = credential.into_iter().collect();
        assert_eq!((rules.len(), credentials.len()), (RULES.len(), 1));
        Guard::new(&rules, Arc::new(|_| {})).credentials(&credentials)
    });
    &GUARD
}

/// Sends a request to the guard. What it lets through is exactly the request that it asked the rules about, for every server that may read it.
pub fn requests(bytes: &[u8]) -> Outcome {
    let request = request(&mut Choices::new(bytes));
    match guard().rewrite(&request) {
        Ok(Some(rewritten)) => {
            check(&rewritten, &request);
            Outcome::Accepted
        }
        Ok(None) | Err(_) => Outcome::Refused,
    }
}

fn check(rewritten: &Rewritten, request: &[u8]) {
    let shown = || {
        format!(
            "{:?} became {:?}",
            String::from_utf8_lossy(request),
            String::from_utf8_lossy(&rewritten.bytes)
        )
    };
    let Authority { host, port } = &rewritten.authority;
    let is_limited = host == "allowed.example" && matches!(port, 80 | 443);
    let is_open = host == "open.example" && matches!(port, 80 | 443);
    let is_below = host.ends_with(".below.example") && *port == 8080;
    assert!(is_limited || is_open || is_below, "{}", shown());
    let Some(path) = &rewritten.path else {
        assert!(!is_limited && rewritten.bytes.is_empty(), "{}", shown());
        return;
    };
    let method = rewritten.method.as_str();
    assert!(!is_limited || METHODS.contains(&method), "{}", shown());
    let bytes = &rewritten.bytes;
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        panic!("the head has no end: {}", shown());
    };
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let is_plain = |line: &str| line.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    assert_eq!(
        lines.next(),
        Some(format!("{method} {path} HTTP/1.1").as_str()),
        "{}",
        shown()
    );
    let (mut hosts, mut keys, mut closes) = (0, 0, 0);
    let (mut length, mut is_chunked) = (None, false);
    for line in lines {
        assert!(is_plain(line), "{}", shown());
        let Some((name, value)) = line.split_once(": ") else {
            panic!("{line:?} is no header: {}", shown());
        };
        let is_token = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
        assert!(
            !name.is_empty() && name.chars().all(is_token),
            "{}",
            shown()
        );
        let plain: String = name
            .to_ascii_lowercase()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        match plain.as_str() {
            "host" => {
                hosts += 1;
                assert!(value.starts_with(host.as_str()), "{}", shown());
            }
            "connection" => {
                closes += 1;
                assert_eq!(value, "close", "{}", shown());
            }
            "content-length" => {
                assert!(length.is_none() && name == "Content-Length", "{}", shown());
                length = value.parse::<usize>().ok();
                assert!(length.is_some(), "{}", shown());
            }
            "transfer-encoding" => {
                assert!(!is_chunked && value == "chunked", "{}", shown());
                is_chunked = true;
            }
            "x-key" if is_limited => {
                keys += 1;
                assert_eq!((name, value), ("X-Key", SECRET), "{}", shown());
            }
            "upgrade"
            | "te"
            | "trailer"
            | "expect"
            | "keep-alive"
            | "proxy-authorization"
            | "proxy-connection" => panic!("{name} is passed on: {}", shown()),
            _ => {}
        }
    }
    assert_eq!(
        (hosts, keys, closes),
        (1, usize::from(is_limited), 1),
        "{}",
        shown()
    );
    match (length, is_chunked) {
        (None, false) => assert!(body.is_empty(), "{}", shown()),
        (Some(length), false) => assert_eq!(body.len(), length, "{}", shown()),
        (None, true) => assert!(is_chunks(body), "{}", shown()),
        (Some(_), true) => panic!("two lengths: {}", shown()),
    }
}

/// Whether a body is chunks, as the simplest reader has them, and nothing after the last one.
fn is_chunks(mut body: &[u8]) -> bool {
    loop {
        let Some(end) = body.windows(2).position(|two| two == b"\r\n") else {
            return false;
        };
        let size = std::str::from_utf8(&body[..end]).ok();
        let Some(size) = size.and_then(|size| usize::from_str_radix(size, 16).ok()) else {
            return false;
        };
        body = &body[end + 2..];
        let Some(rest) = body.get(size..).and_then(|rest| rest.strip_prefix(b"\r\n")) else {
            return false;
        };
        body = rest;
        if size == 0 {
            return body.is_empty();
        }
    }
}

/// A request to a proxy, with what is known to deceive servers in it now and then.
pub fn request(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |text: &str| bytes.extend_from_slice(text.as_bytes());
    let method = choices.mostly(
        &[
            "GET", "POST", "PUT", "DELETE", "HEAD", "CONNECT", "get", "PRI", "OPTIONS", "TRACE",
            "", "G T",
        ],
        2,
    );
    put(choices.mostly(&["", "\r\n", "\n", " ", "\t", "\0"], 20));
    put(method);
    put(separator(choices));
    if method == "CONNECT" && !choices.one_in(4) {
        put(choices.pick(&[
            "open.example:443",
            "allowed.example:443",
            "open.example",
            "[::1]:443",
            "a@open.example:443",
        ]));
    } else {
        put(choices.mostly(
            &[
                "http://",
                "https://",
                "HTTP://",
                "",
                "/",
                "http:/",
                "http:\\\\",
            ],
            20,
        ));
        put(choices.mostly(&["", "me@", "me:word@", "allowed.example@", "@"], 25));
        put(choices.mostly(
            &[
                "allowed.example",
                "open.example",
                "a.below.example:8080",
                "other.example",
                "ALLOWED.example",
                "allowed.example.",
                "allowed.example:80",
                "allowed.example:+80",
                "allowed.example:080",
                "allowed.example:",
                "allowed.example:8080",
                "[::1]",
                "allowed.example%00",
                "",
                "allowed.example..",
                "xn--bcher-kva.example",
            ],
            3,
        ));
        path(choices, &mut put);
    }
    put(separator(choices));
    put(choices.mostly(
        &[
            "HTTP/1.1",
            "HTTP/1.0",
            "HTTP/2.0",
            "HTTP/0.9",
            "HTTP/1.1 ",
            "HTTP/1.01",
            "http/1.1",
            "HTTP/1.2",
            "",
        ],
        12,
    ));
    put(line_end(choices));
    for _ in 0..choices.below(6) {
        header(choices, &mut put);
    }
    framing(choices, &mut put);
    put(line_end(choices));
    // What could be taken for a second request.
    if choices.one_in(2) {
        put(choices.pick(&[
            "DELETE /all HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            "x",
            "\r\n",
            "0\r\n\r\n",
            "GET http://other.example/ HTTP/1.1\r\n\r\n",
        ]));
    }
    if choices.one_in(4) {
        spoil(&mut bytes, choices);
    }
    bytes
}

fn separator(choices: &mut Choices<'_>) -> &'static str {
    choices.mostly(
        &[
            " ", "  ", "\t", "\r", "\u{b}", "\u{c}", " \t", "\u{a0}", "", "\u{85}",
        ],
        25,
    )
}

fn line_end(choices: &mut Choices<'_>) -> &'static str {
    choices.mostly(
        &[
            "\r\n", "\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\u{85}", "\u{2028}", "\0\r\n",
        ],
        30,
    )
}

fn path(choices: &mut Choices<'_>, put: &mut impl FnMut(&str)) {
    put(choices.mostly(&["/", "?", "", "#", "\\", "//", "/?", "/;"], 8));
    for _ in 0..choices.below(6) {
        put(choices.mostly(
            &[
                "a",
                "b/",
                "%41",
                "?q=1",
                "&x[]=|",
                "..",
                "/./",
                "%2e%2e/",
                "%0d%0a",
                "%00",
                "%",
                "%zz",
                "#f",
                "\\",
                " ",
                "\t",
                "\n",
                "\r\n",
                "\tHTTP/1.1\nHost:x\n\nDELETE\t/all",
                "é",
                "\u{85}",
                "//evil.example/",
                ";p=1",
                "{\"<>^`}",
                ":80",
                "@b",
                "*",
                "~!$'()+,=",
            ],
            2,
        ));
    }
}

fn header(choices: &mut Choices<'_>, put: &mut impl FnMut(&str)) {
    put(choices.mostly(
        &[
            "Accept",
            "X-Key",
            "x_key",
            "X.Key",
            "Host",
            "HOST",
            "Connection",
            "Keep-Alive",
            "Proxy-Connection",
            "Proxy",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "X-HTTP-Method-Override",
            "Cookie",
            "Content_Length",
            "Transfer_Encoding",
            "Transfer-Encoding\u{b}",
            " Folded",
            "\tFolded",
            "",
            "X:Y",
            "X(",
            "Ünicode",
            "Content-Type",
            "HTTP2-Settings",
            "X-Forwarded-For",
            "Via",
            "Authorization",
        ],
        2,
    ));
    put(choices.mostly(
        &[
            ": ", ":", ":  ", " : ", ":\t", "\t: ", "", " ", ":\u{b}", ": \u{a0}",
        ],
        12,
    ));
    put(choices.mostly(
        &[
            "y",
            "",
            "allowed.example",
            "open.example",
            "other.example",
            "keep-alive",
            "close",
            "close, x-key",
            "100-continue",
            "chunked",
            "trailers",
            "a\tb",
            "a\nX-Key: forged",
            "a\rX-Key: forged",
            "a\0b",
            "é",
            "a  ",
            "DELETE",
            "\u{85}b",
            "0",
            "h2c",
            "allowed.example:80",
            "a, b; c=\"d\"",
        ],
        2,
    ));
    put(line_end(choices));
}

fn framing(choices: &mut Choices<'_>, put: &mut impl FnMut(&str)) {
    let end = |choices: &mut Choices<'_>| line_end(choices);
    match choices.below(8) {
        0..=2 => {}
        3 | 4 => {
            put(choices.mostly(
                &[
                    "Content-Length: ",
                    "content-length:",
                    "Content-Length : ",
                    "Content-Length:\t",
                ],
                12,
            ));
            put(choices.mostly(
                &[
                    "3",
                    "03",
                    "+3",
                    "-3",
                    "3, 3",
                    "0x3",
                    "3 3",
                    " 3",
                    "3.0",
                    "",
                    "99999999999999999999",
                    "0",
                    "\"3\"",
                ],
                4,
            ));
            put(end(choices));
            if choices.one_in(10) {
                put("Content-Length: 4\r\n");
            }
            if choices.one_in(10) {
                put("Transfer-Encoding: chunked\r\n");
            }
            put("\r\nabc");
        }
        _ => {
            put(choices.mostly(
                &[
                    "Transfer-Encoding: ",
                    "transfer-encoding:",
                    "Transfer-Encoding : ",
                    "Transfer-Encoding:\u{b}",
                    "Transfer-Encoding:\n ",
                ],
                12,
            ));
            put(choices.mostly(
                &[
                    "chunked",
                    "Chunked",
                    "gzip, chunked",
                    "chunked, identity",
                    "\"chunked\"",
                    "xchunked",
                    "chunked;q=1",
                    "identity",
                    " chunked ",
                    "chunk\u{e9}d",
                    "",
                ],
                6,
            ));
            put(end(choices));
            if choices.one_in(12) {
                put("Content-Length: 3\r\n");
            }
            put("\r\n");
            for _ in 0..choices.below(4) {
                put(choices.mostly(
                    &[
                        "3\r\nabc\r\n",
                        "03\r\nabc\r\n",
                        "A\r\n0123456789\r\n",
                        "3;x=y\r\nabc\r\n",
                        "3 \r\nabc\r\n",
                        "3\nabc\n",
                        "3\r\nabc",
                        "3\r\nabcd\r\n",
                        "-1\r\n",
                        "0x3\r\nabc\r\n",
                        "ffffffffffffffff\r\nabc\r\n",
                        "1b\r\nDELETE /all HTTP/1.1\r\nX: y\r\n\r\n",
                        "3\r\r\nabc\r\n",
                    ],
                    3,
                ));
            }
            put(choices.mostly(
                &[
                    "0\r\n\r\n",
                    "0\r\nX-Key: forged\r\n\r\n",
                    "00\r\n\r\n",
                    "0\n\n",
                    "0\r\n",
                    "0;x\r\n\r\n",
                    "",
                ],
                4,
            ));
        }
    }
}
