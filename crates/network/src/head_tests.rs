use super::*;

async fn read_text(text: &str) -> Result<Option<Head>, Refusal> {
    read(&mut text.as_bytes()).await
}

async fn accepted(text: &str) -> Head {
    read_text(text).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_request_and_a_tunnel() {
    let text = "POST http://Example.org:8080/a?b HTTP/1.1\r\nHost: example.org:8080\r\nAccept: x\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(
        accepted(text).await,
        Head {
            method: "POST".to_owned(),
            authority: Authority {
                host: "example.org".to_owned(),
                port: 8080
            },
            path: Some("/a?b".to_owned()),
            headers: vec![Header {
                name: "Accept".to_owned(),
                value: "x".to_owned()
            }],
            framing: Framing::Length(3),
            rest: b"abc".to_vec(),
        }
    );
    let head = accepted("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]\r\n\r\n").await;
    assert_eq!(
        (head.authority.to_string().as_str(), head.path),
        ("[::1]:443", None)
    );
    assert!(read_text("").await.unwrap().is_none());
    let head = accepted("GET http://a.b?q HTTP/1.0\r\n\r\n").await;
    assert_eq!(head.path.as_deref(), Some("/?q"));
    let head = accepted("GET http://a.b./%2e HTTP/1.1\r\nHost: a.b\r\n\r\n").await;
    assert_eq!(
        (head.authority.host.as_str(), head.path.as_deref()),
        ("a.b", Some("/%2e"))
    );
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused() {
    for text in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET https://a.b/ HTTP/1.1\r\n\r\n",
        "get http://a.b/ HTTP/1.1\r\n\r\n",
        "GET http://a.b/ HTTP/2\r\n\r\n",
        "GET  http://a.b/ HTTP/1.1\r\n\r\n",
        "GET http://a.b/\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n\r\n",
        "GET http://a b/ HTTP/1.1\r\n\r\n",
        "GET http://a.b:0/ HTTP/1.1\r\n\r\n",
        "GET http://a.b%00.c/ HTTP/1.1\r\n\r\n",
        "CONNECT a.b HTTP/1.1\r\n\r\n",
        "CONNECT a.b:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "CONNECT a.b:443 HTTP/1.1\r\nHost: c.d\r\n\r\n",
        "CONNECT http://a.b:443 HTTP/1.1\r\n\r\n",
        "GET http://a.b/ HTTP/1.1\r\nA : b\r\n\r\n",
        "GET http://a.b/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET http://a.b/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
        "POST http://a.b/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST http://a.b/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "POST http://a.b/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST http://a.b/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET http://a.b/ HTTP/1.1\r\nHost: a",
    ] {
        assert!(read_text(text).await.is_err(), "{text:?}");
    }
    let long = |bytes| {
        format!(
            "GET http://a.b/ HTTP/1.1\r\nA: {}\r\n\r\n",
            "x".repeat(bytes)
        )
    };
    assert!(read_text(&long(60_000)).await.is_ok());
    assert!(read_text(&long(70_000)).await.is_err());
    let many = |count| {
        format!(
            "GET http://a.b/ HTTP/1.1\r\n{}\r\n",
            "A: b\r\n".repeat(count)
        )
    };
    assert!(read_text(&many(MAX_HEADERS)).await.is_ok());
    assert!(read_text(&many(MAX_HEADERS + 1)).await.is_err());
}

#[tokio::test]
async fn a_bad_byte_is_refused_before_the_head_has_ended() {
    for text in [
        "GET http://a.b/\tx",
        "\r",
        "GET\n",
        "GET http://a.b/ HTTP/1.1\rX",
    ] {
        // The client would say more, but need not be heard.
        let (mut client, mut guard) = tokio::io::duplex(1024);
        tokio::io::AsyncWriteExt::write_all(&mut client, text.as_bytes())
            .await
            .unwrap();
        let refused = tokio::time::timeout(std::time::Duration::from_secs(10), read(&mut guard));
        assert!(refused.await.unwrap().is_err(), "{text:?}");
    }
}
