//! Frames: how they are cut out of a stream of bytes, and which lengths are refused.

use cellblock_protocol::codec::*;
use proptest::collection::vec;
use proptest::prelude::*;

const MAX: usize = 64;

#[test]
fn a_frame_is_its_length_and_its_body() {
    assert_eq!(encode(b"{}", MAX).unwrap(), [2, 0, 0, 0, b'{', b'}']);
}

#[test]
fn a_frame_that_is_not_all_there_is_waited_for() {
    let mut decoder = FrameDecoder::new(MAX);
    decoder.feed(&[2, 0, 0]);
    assert_eq!(decoder.next_frame(), Ok(None));
    decoder.feed(&[0, b'{']);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.pending(), 5);
    decoder.feed(b"}");
    assert_eq!(decoder.next_frame().unwrap().as_deref(), Some(&b"{}"[..]));
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn a_length_that_is_too_large_is_refused_before_anything_is_held_for_it() {
    let error = CodecError::TooLong {
        length: u32::MAX as usize,
        max: MAX,
    };
    let mut decoder = FrameDecoder::new(MAX);
    decoder.feed(&[0xff; 4]);
    assert_eq!(decoder.next_frame(), Err(error.clone()));
    decoder.feed(&encode(b"{}", MAX).unwrap());
    assert_eq!(decoder.next_frame(), Err(error));
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn an_empty_frame_is_noise() {
    let mut decoder = FrameDecoder::new(MAX);
    decoder.feed(&[0; 4]);
    assert_eq!(decoder.next_frame(), Err(CodecError::Empty));
    assert_eq!(encode(b"", MAX), Err(CodecError::Empty));
    assert_eq!(
        encode(&[0; MAX + 1], MAX),
        Err(CodecError::TooLong {
            length: MAX + 1,
            max: MAX
        })
    );
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_the_stream_is_cut(
        bodies in vec(vec(any::<u8>(), 1..=MAX), 0..8),
        pieces in vec(1usize..40, 1..50),
    ) {
        let stream: Vec<u8> = bodies.iter().flat_map(|body| encode(body, MAX).unwrap()).collect();
        let mut decoder = FrameDecoder::new(MAX);
        let mut decoded = Vec::new();
        let mut rest = &stream[..];
        for size in pieces.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            decoder.feed(piece);
            while let Some(body) = decoder.next_frame().unwrap() {
                decoded.push(body.to_vec());
            }
            rest = after;
            if rest.is_empty() { break; }
        }
        prop_assert_eq!(decoded, bodies);
        prop_assert_eq!(decoder.pending(), 0);
    }

    #[test]
    fn any_bytes_are_read_without_panic_and_no_more_is_held_than_came(pieces in vec(vec(any::<u8>(), 0..32), 0..16)) {
        let mut decoder = FrameDecoder::new(MAX);
        for piece in &pieces {
            decoder.feed(piece);
            while let Ok(Some(body)) = decoder.next_frame() {
                prop_assert!((1..=MAX).contains(&body.len()));
            }
            prop_assert!(decoder.pending() < MAX + 4);
        }
    }
}
