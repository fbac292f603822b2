//! Short texts for the model and for people.

use super::ActionResult;
use super::summary::AttemptNote;
use crate::format::Format;
use cellblock_protocol::Locale;

/// The warning for an answer without any code or tool call.
pub(crate) const NOT_COMPUTED: &str =
    "the model answered without running code or calling a tool: nothing was computed";

/// The warning for an answer after code and calls of tools that all failed.
pub(crate) const ALL_FAILED: &str = "the model answered although all code that it ran and every tool that it called failed: the answer is not computed";

/// For the model: its reply cannot be read.
pub(crate) fn malformed_reply(problem: &str, locale: Locale) -> String {
    match locale {
        Locale::En => format!("Your reply could not be used: {problem}. Reply again."),
        Locale::Zh => format!("无法使用你的回复：{problem}。请重新回复。"),
    }
}

/// For the model: its answer does not fit the schema.
pub(crate) fn invalid_answer(problem: &str, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Your answer does not fit the schema: {problem}. Answer again, with JSON that fits and nothing around it."
        ),
        Locale::Zh => format!("你的答案不符合模式：{problem}。请重新作答，只给出符合模式的 JSON。"),
    }
}

/// For the model: its code called `final_answer` and then failed.
pub(crate) fn answer_of_failed_code(locale: Locale) -> &'static str {
    match locale {
        Locale::En => {
            "Note: final_answer was called, but the code did not end well, so the answer does not count. Correct the code and call it again."
        }
        Locale::Zh => {
            "注意：代码调用了 final_answer，但没有正常结束，因此答案不算数。请改正代码后再次调用。"
        }
    }
}

/// For the model: what a person took back since the last answer.
pub(crate) fn cells_taken_back(cells: usize, locale: Locale) -> String {
    match locale {
        Locale::En => {
            let end = if cells == 1 { "" } else { "s" };
            format!(
                "The user took back the last {cells} cell{end}: variables and files are as they were before."
            )
        }
        Locale::Zh => {
            format!("用户撤销了最后 {cells} 个单元：变量和文件恢复到之前的状态。")
        }
    }
}

/// For the model: a block did not run because the one before it failed.
pub(crate) fn not_run(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "(not run, because the code before it failed)",
        Locale::Zh => "（未运行，因为前面的代码失败了）",
    }
}

/// For the model: how to answer in a format. Small models know how to go on, and forget how to stop.
pub(crate) fn how_to_answer(format: Format, locale: Locale) -> &'static str {
    match (format, locale) {
        (Format::Json, Locale::En) => "To answer, reply with the action provide_answer.",
        (Format::Json, Locale::Zh) => "要作答，请用动作 provide_answer 回复。",
        (Format::NextStep, Locale::En) => "To answer, call report_task_completion.",
        (Format::NextStep, Locale::Zh) => "要作答，请调用 report_task_completion。",
        (_, Locale::En) => "To answer, reply in plain words, without code and without calls.",
        (_, Locale::Zh) => "要作答，请用普通文字回复，不带代码，也不带调用。",
    }
}

/// For the model: which of the packages it asked for are installed.
pub(crate) fn packages(here: &[String], missing: &[String], locale: Locale) -> String {
    let list = |names: &[String], none: &str| match names {
        [] => none.to_owned(),
        names => names.join(", "),
    };
    match locale {
        Locale::En => format!(
            "Packages that are there: {}. Not there: {}. Nothing can be installed in this session; go on without what is missing.",
            list(here, "none"),
            list(missing, "none")
        ),
        Locale::Zh => format!(
            "已有的包：{}。没有的包：{}。本会话无法安装任何包；请在缺少它们的情况下继续。",
            list(here, "无"),
            list(missing, "无")
        ),
    }
}

/// An action and its result in one line, for the summary of old steps.
pub(crate) fn attempt_note(done: &ActionResult) -> AttemptNote {
    let what = match (&done.code, &done.arguments) {
        (Some(code), _) => single_line(code, 140),
        (None, Some(arguments)) => format!(
            "{}({})",
            done.name,
            single_line(&arguments.to_string(), 100)
        ),
        (None, None) => done.name.clone(),
    };
    let result = match (&done.error, done.ok) {
        (Some(error), false) => single_line(error, 140),
        (_, true) => match &done.result {
            Some(cell) => format!("ok {}", single_line(cell.output.trim(), 80)),
            None => format!("ok {}", single_line(done.text.trim(), 80)),
        },
        (None, false) => "failed".to_owned(),
    };
    AttemptNote {
        line: format!("{what} → {}", result.trim_end()),
        failed: !done.ok,
    }
}

/// The beginning of a text on one line.
pub(crate) fn single_line(text: &str, max_chars: usize) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > max_chars {
        line = line.chars().take(max_chars).collect();
        line.push('…');
    }
    line
}

/// For the model: it made the same call with the same result again and again.
pub(crate) fn repeated_call(name: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Note: you have made the same call of {name} {count} times, with the same result each time. It will not change. Take another way, or answer with what you know."
        ),
        Locale::Zh => format!(
            "注意：你已经以相同的方式调用 {name} {count} 次，每次结果都相同，不会再变。请换一种方法，或用已知信息作答。"
        ),
    }
}

/// For the model: the same error came again and again.
pub(crate) fn repeated_error(error: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Note: the same error has come {count} times: {error}. Do not try the same again. Find its cause, or take another way."
        ),
        Locale::Zh => format!(
            "注意：同一错误已出现 {count} 次：{error}。不要再重复同样的做法。请找出原因，或换一种方法。"
        ),
    }
}

/// For the model: `compute` is no longer offered.
pub(crate) fn compute_withdrawn(failures: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Note: compute failed {failures} times in a row and is no longer offered. Use execute_python_code."
        ),
        Locale::Zh => format!(
            "注意：compute 已连续失败 {failures} 次，不再提供。请使用 execute_python_code。"
        ),
    }
}

/// For the model: a tool has failed several times in a row.
pub(crate) fn failing_tool(name: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!("Note: {name} has failed {count} times in a row."),
        Locale::Zh => format!("注意：{name} 已连续失败 {count} 次。"),
    }
}
