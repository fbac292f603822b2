//! Bodies that came compressed (`Content-Encoding`). A few bytes of a compressed body can become very many, so it is refused.

use crate::error::ApiError;
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

/// Refuses the compressed body of a request, whatever its path, but for a request whose route `decompresses` bodies: it bounds what becomes of
/// them.
pub(crate) async fn refuse_compressed_body(
    request: Request,
    next: Next,
    decompresses: fn(&Request) -> bool,
) -> Result<Response, ApiError> {
    let codings = content_codings(request.headers());
    if codings.is_empty() || decompresses(&request) {
        return Ok(next.run(request).await);
    }
    Err(unsupported_coding(&codings))
}

/// How a body is compressed, in the order in which it was done. Empty for an uncompressed body.
pub(crate) fn content_codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let codings = texts.flat_map(|text| {
        let codings = text.split(',').map(|coding| coding.trim().to_owned());
        codings.collect::<Vec<String>>()
    });
    codings
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect()
}

/// The error for a body that is compressed in a way that its route does not take.
pub(crate) fn unsupported_coding(codings: &[String]) -> ApiError {
    let shown: String = codings.join(", ").chars().take(64).collect();
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "malformed",
        format!(
            "the body is compressed (`{shown}`), and this route takes only uncompressed bodies"
        ),
    )
    .hint("send the body as it is, without the header `Content-Encoding`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_of_every_header_counts() {
        let codings = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = axum::http::HeaderValue::from_static(value);
                headers.append(CONTENT_ENCODING, value);
            }
            content_codings(&headers)
        };
        assert_eq!(codings(&[]), [""; 0]);
        assert_eq!(codings(&["", "identity", "Identity , "]), [""; 0]);
        assert_eq!(codings(&["identity", "GZIP"]), ["gzip"]);
        assert_eq!(codings(&["br, gzip", "zstd"]), ["br", "gzip", "zstd"]);
    }
}
