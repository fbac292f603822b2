//! Short words for the model and for people.

use super::Done;
use super::summary::Tried;
use crate::format::Format;
use cellblock_protocol::Locale;

/// For whoever relies on an answer.
pub(crate) const NOT_COMPUTED: &str =
    "the model answered without running code or calling a tool: nothing was computed";

/// A reply that cannot be read.
pub(crate) fn malformed(problem: &str, locale: Locale) -> String {
    match locale {
        Locale::En => format!("Your reply could not be used: {problem}. Reply again."),
        Locale::Zh => format!("无法使用你的回复：{problem}。请重新回复。"),
    }
}

/// An answer that does not fit.
pub(crate) fn invalid_answer(problem: &str, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Your answer does not fit the schema: {problem}. Answer again, with JSON that fits and nothing around it."
        ),
        Locale::Zh => format!("你的答案不符合模式：{problem}。请重新作答，只给出符合模式的 JSON。"),
    }
}

/// A block that did not run because the one before it failed.
pub(crate) fn not_run(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "(not run, because the code before it failed)",
        Locale::Zh => "（未运行，因为前面的代码失败了）",
    }
}

/// How a run is ended in a format: small models know how to go on, and forget how to stop.
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

/// Which of the wanted packages are there.
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

/// What was done and what came of it, in one line.
pub(crate) fn digest(done: &Done) -> Tried {
    let what = match (&done.code, &done.arguments) {
        (Some(code), _) => short(code, 140),
        (None, Some(arguments)) => format!("{}({})", done.name, short(&arguments.to_string(), 100)),
        (None, None) => done.name.clone(),
    };
    let came = match (&done.error, done.ok) {
        (Some(error), false) => short(error, 140),
        (_, true) => match &done.result {
            Some(result) => format!("ok {}", short(result.output.trim(), 80)),
            None => format!("ok {}", short(done.text.trim(), 80)),
        },
        (None, false) => "failed".to_owned(),
    };
    Tried {
        line: format!("{what} → {}", came.trim_end()),
        failed: !done.ok,
    }
}

/// The beginning of a text on one line.
pub(crate) fn short(text: &str, most: usize) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > most {
        line = line.chars().take(most).collect();
        line.push('…');
    }
    line
}
