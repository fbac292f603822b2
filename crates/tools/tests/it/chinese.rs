//! What models read in Chinese: descriptions, problems of arguments, reasons.

use crate::support::wait;
use cellblock_protocol::Locale;
use cellblock_tools::{Call, FinalAnswerTool, Registry, ToolRunner, shell_tools};
use serde_json::{Value, json};

fn registry(locale: Locale) -> Registry {
    let registry = Registry::builder().locale(locale).built_in();
    let registry = registry.tool(FinalAnswerTool).extend(shell_tools());
    registry.build().unwrap()
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn every_built_in_tool_and_parameter_is_described_in_chinese() {
    let english = registry(Locale::En);
    for definition in registry(Locale::Zh).definitions() {
        let name = &definition.name;
        assert!(is_chinese(&definition.description), "{name}");
        let properties = definition.parameters.get("properties");
        for (parameter, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = schema["description"].as_str() else {
                continue;
            };
            assert!(is_chinese(text), "{name}: {parameter}: {text}");
        }
        let before = english.get(name).unwrap();
        assert!(!is_chinese(&before.description), "{name}");
    }
}

#[test]
fn problems_and_reasons_are_told_in_chinese() {
    let runner = ToolRunner::new(registry(Locale::Zh));
    let told = |name: &str, arguments: Value| {
        let answer = wait(runner.call(Call::by_user(name, arguments)));
        answer.for_model(Locale::Zh, 10_000)
    };
    for (name, arguments, expected) in [
        (
            "undo",
            json!({"count": "many"}),
            "`undo` 的参数不符合要求: `count`: 应为整数, 实际是 \"many\"",
        ),
        (
            "file_reader",
            json!({"path": "a"}),
            "`file_reader` 的参数不符合要求: 未知字段 `path`; 可用的字段是 file_path, encoding, max_size_mb; 缺少字段 `file_path`: 应为文本",
        ),
    ] {
        let expected = format!("工具函数调用失败, 错误信息: {expected}");
        assert_eq!(told(name, arguments), expected);
    }
    let unknown = told("nothing", json!({}));
    assert!(
        unknown.contains("没有工具 `nothing`; 可用的工具是 execute_python_code"),
        "{unknown}"
    );
}
