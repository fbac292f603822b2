//! What holds for every reply, whatever is in it.

use crate::support::{cut_off, facts};
use cellblock_agent::repair::{
    ReplyEnd, code_blocks, find_tags, read_object, read_value, split_thinking,
};
use cellblock_agent::{Action, Format, PartialCall, PartialReply};
use cellblock_model::{Reply, ToolCall};
use cellblock_tools::Arguments;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Text made of the pieces that parsers trip over.
fn messy() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\\u12".to_owned()),
        Just(",".to_owned()),
        Just(":".to_owned()),
        Just("\n".to_owned()),
        Just("```".to_owned()),
        Just("```python".to_owned()),
        Just("```json\n".to_owned()),
        Just("~~~".to_owned()),
        Just("<code>".to_owned()),
        Just("</code>".to_owned()),
        Just("<execution-code>".to_owned()),
        Just("</execution-code".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("\u{201c}".to_owned()),
        Just("\u{201d}".to_owned()),
        Just("\"action\":\"execute_code\"".to_owned()),
        Just("\"code\":".to_owned()),
        Just("\"function\":{\"tool\":\"compute\"".to_owned()),
        Just("True".to_owned()),
        Just("é中🙂".to_owned()),
        Just("'".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        messy().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn reading_never_panics(text in messy()) {
        let facts = facts();
        for format in Format::ALL {
            let format = format.implementation();
            for reply in [Reply::text(text.clone()), cut_off(&text)] {
                if let Ok(turn) = format.parse(&reply, &facts) {
                    prop_assert!(!turn.actions.is_empty());
                    format.assistant_message(&reply, &turn, 1);
                }
            }
            format.preview(&PartialReply { text: text.clone(), calls: vec![PartialCall { name: "execute_python_code".to_owned(), arguments: text.clone() }] });
        }
        read_value(&text);
        find_tags(&text, &["code", "execution-code"]);
        code_blocks(&text);
        split_thinking(&text);
    }

    #[test]
    fn a_valid_object_is_never_changed(value in json_value(), space in "[ \n\t]{0,3}") {
        let map = match value { Value::Object(map) => map, other => Map::from_iter([("x".to_owned(), other)]) };
        for text in [serde_json::to_string(&map).unwrap(), serde_json::to_string_pretty(&map).unwrap()] {
            let read = read_object(&format!("{space}{text}{space}"), ReplyEnd::Complete, &[], |_| false).unwrap();
            prop_assert_eq!(&read.value, &map);
            prop_assert!(read.repairs.is_empty());
        }
    }

    #[test]
    fn code_in_json_comes_out_as_it_went_in(code in messy()) {
        prop_assume!(!code.trim().is_empty() && !code.trim_start().starts_with("```"));
        let text = json!({"thought": "t", "action": "execute_code", "code": code, "final_answer": null}).to_string();
        let facts = facts();
        for text in [text.clone(), format!("Here it is:\n```json\n{text}\n```")] {
            // Thoughts are taken out before anything else: a reply that has them around is another case.
            let turn = Format::Json.implementation().parse(&Reply::text(text), &facts).unwrap();
            prop_assert_eq!(&turn.actions, &vec![Action::Code(code.clone())]);
        }
    }

    #[test]
    fn a_reply_that_is_cut_anywhere_never_runs_half_of_its_code(code in "[a-z =\n()\"\\\\]{1,60}", at in 0usize..200) {
        prop_assume!(!code.trim().is_empty());
        let text = json!({"thought": "t", "action": "execute_code", "code": code}).to_string();
        let at = at.min(text.len());
        prop_assume!(text.is_char_boundary(at));
        let read = Format::Json.implementation().parse(&cut_off(&text[..at]), &facts());
        if let Ok(turn) = read {
            prop_assert_eq!(&turn.actions, &vec![Action::Code(code)]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn code_in_fences_and_tags_comes_out_as_it_went_in(code in "[a-zäé中 =()\\[\\]{}\"'\\\\.,:;<>&#%\n\t]{1,80}") {
        let code = code.trim_matches(['\n', ' ', '\t']).to_owned();
        prop_assume!(!code.is_empty() && !code.contains("</") && !code.starts_with('<'));
        let facts = facts();
        let replies = [
            (Format::Markdown, format!("I compute.\n```python\n{code}\n```\nThat is all.")),
            (Format::Xml, format!("I compute.\n<execution-code>\n{code}\n</execution-code>")),
        ];
        for (format, text) in replies {
            let turn = format.implementation().parse(&Reply::text(text), &facts).unwrap();
            prop_assert_eq!(&turn.actions, &vec![Action::Code(code.clone())], "{}", format);
            prop_assert!(turn.repairs.is_empty(), "{}: {:?}", format, turn.repairs);
        }
    }

    #[test]
    fn arguments_that_are_valid_are_passed_on_as_they_came(code in messy()) {
        let arguments = json!({"tool_call_purpose": "p", "python_code_snippet": code});
        let call = ToolCall { id: "a".to_owned(), name: "execute_python_code".to_owned(), arguments: arguments.to_string() };
        let turn = Format::Tools.implementation().parse(&Reply::calls(vec![call]), &facts()).unwrap();
        let [Action::Call(call)] = &turn.actions[..] else {
            return Err(TestCaseError::fail("not one call"));
        };
        let read = match &call.arguments {
            Arguments::Object(map) => Value::Object(map.clone()),
            Arguments::Text(text) => serde_json::from_str(text).unwrap(),
        };
        prop_assert_eq!(read, arguments);
        prop_assert!(turn.repairs.is_empty());
    }
}
