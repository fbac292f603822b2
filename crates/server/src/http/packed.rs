//! Bodies that came packed (`Content-Encoding`). A few bytes of such a body can become very many, so it is refused.

use crate::e2b::unpacks_body;
use crate::error::ApiError;
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

/// Refuses the packed body of a request, whatever its path. The one route that unpacks a body bounds what becomes of it.
pub(crate) async fn refuse_packed_body(request: Request, next: Next) -> Result<Response, ApiError> {
    let codings = content_codings(request.headers());
    if codings.is_empty() || unpacks_body(&request) {
        return Ok(next.run(request).await);
    }
    Err(unsupported_coding(&codings))
}

/// How a body is packed, in the order in which it was done. Empty for a body as it is.
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

/// The error for a body that is packed in a way that its route does not unpack.
pub(crate) fn unsupported_coding(codings: &[String]) -> ApiError {
    let shown: String = codings.join(", ").chars().take(64).collect();
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "malformed",
        format!("the body is packed ({shown:?}), and this route takes it unpacked only"),
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
