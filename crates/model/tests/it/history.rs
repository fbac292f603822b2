//! Conversations that endpoints accept.

use cellblock_model::{AssistantMessage, HistoryRepair, Message, ToolCall, mend};
use proptest::prelude::*;

fn calling(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall {
        id: (*id).into(),
        name: "add".into(),
        arguments: "{}".into(),
    };
    Message::Assistant(AssistantMessage {
        tool_calls: ids.iter().map(call).collect(),
        ..AssistantMessage::default()
    })
}

#[test]
fn a_sound_history_stays_as_it_is() {
    let sound = vec![
        Message::system("s"),
        Message::user("u"),
        calling(&["a", "b"]),
        Message::tool("a", "1"),
        Message::tool("b", "2"),
        Message::assistant("3"),
        calling(&["a"]),
        Message::tool("a", "4"),
    ];
    assert_eq!(mend(&sound), (sound, vec![]));
}

#[test]
fn a_call_without_an_answer_gets_one() {
    let (mended, repairs) = mend(&[calling(&["a", "b"]), Message::tool("b", "2")]);
    assert_eq!(
        mended,
        [
            calling(&["a", "b"]),
            Message::tool("a", "(there is no result of this call)"),
            Message::tool("b", "2"),
        ]
    );
    let (id, name) = ("a".into(), "add".into());
    assert_eq!(repairs, [HistoryRepair::Unanswered { id, name }]);
}

#[test]
fn answers_stand_directly_after_their_calls() {
    let broken = [
        Message::tool("z", "from nowhere"),
        calling(&["a"]),
        Message::user("and?"),
        Message::tool("a", "1"),
        Message::tool("a", "again"),
    ];
    let (mended, repairs) = mend(&broken);
    assert_eq!(
        mended,
        [
            calling(&["a"]),
            Message::tool("a", "1"),
            Message::user("and?")
        ]
    );
    let stray = |id: &str| HistoryRepair::Stray { id: id.into() };
    let moved = HistoryRepair::Moved { id: "a".into() };
    assert_eq!(repairs, [stray("z"), moved, stray("a")]);
}

#[test]
fn arguments_that_are_no_json_are_quoted() {
    let broken = Message::Assistant(AssistantMessage {
        tool_calls: vec![ToolCall {
            id: "a".into(),
            name: "f".into(),
            arguments: "{x".into(),
        }],
        ..AssistantMessage::default()
    });
    let (mended, _) = mend(&[broken, Message::tool("a", "1")]);
    let Message::Assistant(assistant) = &mended[0] else {
        panic!()
    };
    assert_eq!(assistant.tool_calls[0].arguments, r#"{"not_json":"{x"}"#);
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = || prop::sample::select(vec!["", "a", "b", "c"]);
    prop_oneof![
        Just(Message::user("u")),
        Just(Message::assistant("t")),
        prop::collection::vec(id(), 0..4).prop_map(|ids| calling(&ids)),
        id().prop_map(|id| Message::tool(id, "answer")),
    ]
}

proptest! {
    #[test]
    fn whatever_came_is_sound_afterwards(messages in prop::collection::vec(any_message(), 0..12)) {
        let (mended, _) = mend(&messages);
        prop_assert_eq!(mend(&mended), (mended.clone(), vec![]));
        let mut expected: Vec<String> = Vec::new();
        for message in &mended {
            match message {
                Message::Tool { tool_call_id, .. } => {
                    prop_assert!(!expected.is_empty(), "an answer without a call");
                    prop_assert_eq!(&expected.remove(0), tool_call_id);
                }
                other => {
                    prop_assert!(expected.is_empty(), "a call without an answer");
                    if let Message::Assistant(assistant) = other {
                        expected = assistant.tool_calls.iter().map(|call| call.id.clone()).collect();
                    }
                }
            }
        }
        prop_assert!(expected.is_empty());
    }
}
