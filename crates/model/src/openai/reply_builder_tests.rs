//! Chunks of every kind, cut anywhere, make a sound reply.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::HashSet;

/// What may stand in place of anything in a chunk.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        Just(json!([{"text": "a"}, 3])),
        any::<i64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(|text| json!(text)),
    ]
}

fn call() -> impl Strategy<Value = Value> {
    (odd(), odd(), odd(), odd()).prop_map(|(index, id, name, arguments)| {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    })
}

fn chunk() -> impl Strategy<Value = Value> {
    let calls = prop_oneof![
        prop::collection::vec(call(), 0..4).prop_map(|calls| json!(calls)),
        odd(),
    ];
    let whole = (odd(), odd(), calls, odd(), odd());
    let whole = whole.prop_map(|(content, reasoning, calls, finish, usage)| {
        let delta = json!({"content": content, "reasoning": reasoning, "tool_calls": calls, "function_call": usage});
        json!({"choices": [{"delta": delta, "finish_reason": finish}], "usage": usage})
    });
    prop_oneof![4 => whole, 1 => odd(), 1 => odd().prop_map(|odd| json!({"choices": odd}))]
}

proptest! {
    #[test]
    fn any_chunks_make_a_sound_reply_within_the_limit(chunks in prop::collection::vec(chunk(), 0..12), limit in 0usize..60) {
        let mut builder = ReplyBuilder::new(limit);
        let mut seen = String::new();
        let note = |seen: &mut String, events: Vec<ReplyEvent>| {
            for event in events {
                if let ReplyEvent::Text { text } = event {
                    seen.push_str(&text);
                }
            }
        };
        for chunk in &chunks {
            let events = builder.push(chunk);
            note(&mut seen, events);
        }
        let (events, reply) = builder.finish();
        note(&mut seen, events);
        prop_assert_eq!(&seen, &reply.text, "what was shown is what is kept");
        prop_assert!(reply.text.len() + reply.reasoning.len() <= limit);
        let ids: HashSet<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
        prop_assert_eq!(ids.len(), reply.tool_calls.len(), "every call has an id of its own");
        prop_assert!(reply.tool_calls.iter().all(|call| !call.id.is_empty() && !call.name.is_empty()));
    }

    #[test]
    fn a_text_is_the_same_however_it_is_cut(text in "[^<]\\PC{0,60}", pieces in 1usize..9) {
        let characters: Vec<char> = text.chars().collect();
        let mut builder = ReplyBuilder::new(10_000);
        for piece in characters.chunks(pieces) {
            let piece: String = piece.iter().collect();
            builder.push(&json!({"choices": [{"delta": {"content": piece}}]}));
        }
        prop_assert_eq!(builder.finish().1.text, text);
    }
}
