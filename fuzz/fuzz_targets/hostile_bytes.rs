//! Whatever a guest writes to its socket, or a client to the pipe, the host goes on.
#![no_main]

use cellblock_protocol::codec::{FrameDecoder, MAX_FRAME_FROM_HEAD};
use cellblock_protocol::guest::FromHead;
use cellblock_protocol::pipe::parse_line;
use cellblock_protocol::strip_terminal_escapes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = FrameDecoder::new(MAX_FRAME_FROM_HEAD);
    for piece in bytes.chunks(7) {
        decoder.feed(piece);
        while let Ok(Some(body)) = decoder.next_frame() {
            parse_frame(&body);
        }
        assert!(decoder.pending() <= bytes.len());
    }
    parse_frame(bytes);
    _ = parse_line(bytes);
    let plain = strip_terminal_escapes(&String::from_utf8_lossy(bytes)).into_owned();
    assert!(
        plain
            .chars()
            .all(|c| c == '\n' || c == '\t' || !c.is_control())
    );
});

fn parse_frame(body: &[u8]) {
    if let Ok(FromHead::Reply(reply)) = FromHead::parse(body) {
        _ = (
            reply.clone().done(),
            reply.clone().variables(),
            reply.clone().inspection(),
            reply.computed(),
        );
    }
}
