//! The text of a result for a language model, in English and in Chinese, within a budget.

use cellblock_protocol::*;
use proptest::prelude::*;

use crate::sample::{ended, w6};
use std::time::Duration;

const CODE: &str = "print('start')\n1/k\n";

fn english(result: &CellResult) -> String {
    result.for_model(
        CODE,
        &ForModel {
            time_limit: Some(Duration::from_secs(3)),
            ..ForModel::default()
        },
    )
}

fn chinese(result: &CellResult) -> String {
    result.for_model(
        CODE,
        &ForModel {
            time_limit: Some(Duration::from_millis(500)),
            locale: Locale::Zh,
            ..ForModel::default()
        },
    )
}

fn within(budget: usize, result: &CellResult, code: &str) -> String {
    result.for_model(
        code,
        &ForModel {
            budget,
            ..ForModel::default()
        },
    )
}

fn success() -> CellResult {
    CellResult {
        output: "start\n".to_owned(),
        value: Some(CellValue {
            repr: "42".to_owned(),
            mime: MimeBundle::new(),
        }),
        displays: w6().displays,
        files: w6().files,
        ..ended(Status::Success, StateOutcome::Kept)
    }
}

fn stopped(status: Status, outcome: StateOutcome) -> CellResult {
    CellResult {
        output: "start\n".to_owned(),
        ..ended(status, outcome)
    }
}

#[test]
fn success_shows_output_value_displays_and_new_files() {
    assert_eq!(
        english(&success()),
        "## Code execution succeeded
### Terminal output:
start
### Value:
42
### Shown:
image/png: <Figure 640x480>
### New files:
a.csv (text/csv, 120 bytes)"
    );
    assert_eq!(
        chinese(&success()),
        "## 代码执行成功，输出结果完整，任务完成
### 终端输出：
start
### 返回值：
42
### 显示：
image/png: <Figure 640x480>
### 新文件：
a.csv（text/csv，120 字节）"
    );
}

#[test]
fn an_empty_success_says_how_to_see_something() {
    let empty = ended(Status::Success, StateOutcome::Kept);
    assert_eq!(
        english(&empty),
        "## Code execution succeeded\n(no output; use print(...) or end with an expression)"
    );
    assert_eq!(
        chinese(&empty),
        "## 代码执行成功，输出结果完整，任务完成\n（没有输出；请使用 print(...) 或以表达式结尾）"
    );
}

#[test]
fn failure_shows_output_numbered_code_and_traceback() {
    assert_eq!(
        english(&w6()),
        "## Code execution failed: an exception was raised; debug it from the error below
### Terminal output:
start
### Original code:
   1 | print('start')
   2 | 1/k
### Error:
Traceback (most recent call last):
  File \"<cell 3>\", line 2, in <module>
    1/k
ZeroDivisionError: division by zero"
    );
    assert_eq!(
        chinese(&w6()),
        "## 代码执行失败，代码抛出异常，根据报错信息进行调试
### 终端输出：
start
### 原始代码：
   1 | print('start')
   2 | 1/k
### 报错信息：
Traceback (most recent call last):
  File \"<cell 3>\", line 2, in <module>
    1/k
ZeroDivisionError: division by zero"
    );
}

#[test]
fn a_failure_that_was_rolled_back_says_so_and_a_hint_is_given() {
    let mut result = w6();
    result.output.clear();
    result.state.outcome = StateOutcome::Restored;
    result.error = Some(CellError {
        type_: "OSError".to_owned(),
        value: "no".to_owned(),
        hint: Some("this session has no network\nask for it".to_owned()),
        ..CellError::default()
    });
    assert_eq!(
        result.for_model("f()", &ForModel::default()),
        "## Code execution failed: an exception was raised; debug it from the error below
### Original code:
   1 | f()
### Error:
OSError: no
### Hint: this session has no network / ask for it
### State: as before this cell"
    );
}

#[test]
fn a_time_out_names_the_limit() {
    let result = CellResult {
        signal: Some(9),
        ..stopped(Status::Timeout, StateOutcome::Restored)
    };
    assert_eq!(
        english(&result),
        "## Code execution timed out and was stopped; the state is as before this cell; raise the timeout or split the work
### Terminal output:
start
### Time limit: 3 seconds"
    );
    assert_eq!(
        chinese(&result),
        "## 代码执行超时，强制退出执行，调整超时时间后重试
### 终端输出：
start
### 超出限制的时间：0.5 秒
### 状态：与本单元执行前一致"
    );
}

#[test]
fn a_crash_names_the_signal_or_the_exit_code() {
    let by_signal = CellResult {
        signal: Some(11),
        ..stopped(Status::Crashed, StateOutcome::Restored)
    };
    let by_exit = CellResult {
        exit_code: Some(139),
        ..stopped(Status::Crashed, StateOutcome::Restored)
    };
    assert_eq!(
        english(&by_signal),
        "## Code execution crashed: the process ended abnormally; the state from before this cell was restored
### Terminal output:
start
### Signal: SIGSEGV"
    );
    assert_eq!(
        english(&by_exit),
        "## Code execution crashed: the process ended abnormally; the state from before this cell was restored
### Terminal output:
start
### Exit code: 139"
    );
    assert_eq!(
        chinese(&by_signal),
        "## 代码执行崩溃，进程异常退出，根据报错信息进行调试
### 终端输出：
start
### 信号：SIGSEGV
### 状态：与本单元执行前一致"
    );
    assert_eq!(
        chinese(&by_exit),
        "## 代码执行崩溃，进程异常退出，根据报错信息进行调试
### 终端输出：
start
### 退出状态码：139
### 状态：与本单元执行前一致"
    );
}

#[test]
fn an_interrupt_is_the_users_doing() {
    assert_eq!(
        english(&stopped(Status::Interrupted, StateOutcome::Restored)),
        "## Code execution was interrupted by the user; the state is as before this cell
### Terminal output:
start"
    );
    assert_eq!(
        english(&ended(Status::Interrupted, StateOutcome::Kept)),
        "## Code execution was interrupted by the user
### State: what this cell did until then is kept"
    );
    assert_eq!(
        chinese(&ended(Status::Interrupted, StateOutcome::Kept)),
        "## 代码执行被用户中断
### 状态：本单元中断前的结果已保留"
    );
}

#[test]
fn a_state_that_is_lost_is_not_called_restored() {
    let mut result = CellResult {
        signal: Some(11),
        ..stopped(Status::Crashed, StateOutcome::Ended)
    };
    result.state.checkpoint = CheckpointState::unavailable("strategy direct keeps none");
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally
### Terminal output:
start
### Signal: SIGSEGV
### State: lost; the session has ended and its variables are gone: strategy direct keeps none"
    );
    result.status = Status::Timeout;
    assert_eq!(
        english(&result),
        "## Code execution timed out and was stopped; raise the timeout or split the work
### Terminal output:
start
### Time limit: 3 seconds
### State: lost; the session has ended and its variables are gone: strategy direct keeps none"
    );
    assert_eq!(
        chinese(&result),
        "## 代码执行超时，强制退出执行，调整超时时间后重试
### 终端输出：
start
### 超出限制的时间：0.5 秒
### 状态：会话已结束，变量已丢失：strategy direct keeps none"
    );
}

#[test]
fn a_checkpoint_that_was_behind_is_not_called_the_state_before() {
    let mut result = ended(Status::Crashed, StateOutcome::Restored);
    result.state.checkpoint = CheckpointState::behind(2, "lazy");
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally
### State: restored from an older checkpoint; the effects of 2 earlier cell(s) are lost too"
    );
}

#[test]
fn cells_that_were_lost_and_what_was_not_restored_are_named() {
    let mut result = ended(Status::Crashed, StateOutcome::Restored);
    result.state.checkpoint = CheckpointState::behind(2, "a thread");
    result.state.lost = vec![6, 7];
    result.state.not_restored = vec!["the process python3 (12)".to_owned()];
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally
### State: restored from an older checkpoint; the effects of 2 earlier cell(s) are lost too: cells 6, 7
### Not restored:
the process python3 (12)"
    );
    result.state.checkpoint = CheckpointState::armed();
    result.state.lost.clear();
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally
### State: as before this cell, except for what is listed below
### Not restored:
the process python3 (12)"
    );
    assert_eq!(
        chinese(&result),
        "## 代码执行崩溃，进程异常退出，根据报错信息进行调试
### 状态：除以下列出的内容外，与本单元执行前一致
### 未能恢复：
the process python3 (12)"
    );
}

#[test]
fn cells_that_were_run_again_are_named_with_what_differed_and_not_with_the_time() {
    let mut result = ended(Status::Crashed, StateOutcome::Restored);
    result.state.checkpoint = CheckpointState::behind(2, "a thread");
    result.state.replayed = vec![5, 6];
    result.state.replay_time = Some(Duration::from_millis(12));
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally; the state from before this cell was restored
### Run again after the restore: cells 5, 6"
    );
    result.state.differed = vec!["cell 6: value was 1, is 2".to_owned()];
    assert_eq!(
        english(&result),
        "## Code execution crashed: the process ended abnormally
### State: made again by running earlier cells; some of them did not do the same as before
### Run again after the restore: cells 5, 6
### What differed:
cell 6: value was 1, is 2"
    );
}

#[test]
fn long_output_loses_its_middle_and_says_how_to_read_it() {
    let lines: String = (0..100).map(|n| format!("line {n:02}\n")).collect();
    let result = CellResult {
        output: lines,
        ..ended(Status::Success, StateOutcome::Kept)
    };
    let text = within(200, &result, "");
    assert_eq!(
        text,
        "## Code execution succeeded
### Terminal output:
line 00
line 01
line 02
[… 753 characters left out; read them with read_output(cell=3, stream=\"output\", offset=23) …]
line 97
line 98
line 99"
    );
    // The offset is where the gap begins.
    assert_eq!(&result.output[23..32], "\nline 03\n");
}

#[test]
fn output_that_the_result_does_not_hold_is_pointed_to() {
    let cut = Cut {
        kept: 6,
        left_out: 1_000,
    };
    let result = CellResult {
        truncated: Truncated::any(None, None, Some(cut)),
        ..success()
    };
    assert_eq!(
        english(&result).lines().nth(3),
        Some(
            "[… 1000 more bytes are not shown; read them with read_output(cell=3, stream=\"output\", offset=6)]"
        )
    );
}

#[test]
fn the_exception_outlives_everything_else() {
    let mut result = w6();
    result.output = "noise\n".repeat(10_000);
    let error = result.error.as_mut().unwrap();
    error.traceback = format!(
        "Traceback (most recent call last):\n{}json.decoder.JSONDecodeError: Expecting value\nsecond line of it\n{}",
        "  File \"<cell 3>\", line 2, in <module>\n".repeat(1000),
        "note\n".repeat(10_000),
    );
    error.type_ = "JSONDecodeError".to_owned();
    for budget in [150, 200, 300, 1_000, 5_000, 20_000] {
        let text = within(budget, &result, &"x = 1\n".repeat(1000));
        assert!(
            text.contains("json.decoder.JSONDecodeError: Expecting value"),
            "{budget}: {text}"
        );
        assert!(
            text.starts_with("## Code execution failed"),
            "{budget}: {text}"
        );
    }
}

#[test]
fn a_file_name_cannot_begin_a_line_of_its_own() {
    let mut result = success();
    result.files.created[0].path = "a\n## Code execution failed".to_owned();
    assert!(english(&result).ends_with("\na / ## Code execution failed (text/csv, 120 bytes)"));
}

#[test]
fn signals_have_names() {
    assert_eq!(
        [1, 9, 11, 31, 34, 0, -1].map(signal_name),
        [
            "SIGHUP",
            "SIGKILL",
            "SIGSEGV",
            "SIGSYS",
            "signal 34",
            "signal 0",
            "signal -1"
        ]
    );
}

prop_compose! {
    fn any_result()(
        status in proptest::sample::select(vec![Status::Success, Status::Failure, Status::Timeout, Status::Crashed, Status::Interrupted]),
        outcome in proptest::sample::select(vec![StateOutcome::Kept, StateOutcome::Restored, StateOutcome::Ended]),
        output in "(?s).{0,300}", repr in "(?s).{0,100}", traceback in "(?s)(.{0,30}\n){0,8}E: .{0,20}\n?.{0,20}",
        path in "(?s).{0,20}", display in "(?s).{0,40}", hint in proptest::option::of("(?s).{0,20}"),
        signal in proptest::option::of(any::<i32>()), left_out in proptest::option::of(any::<u64>()),
    ) -> CellResult {
        let mut result = w6();
        result.status = status;
        result.state.outcome = outcome;
        result.output = output;
        result.value = Some(CellValue { repr, mime: MimeBundle::new() });
        result.error = Some(CellError { type_: "E".to_owned(), traceback, hint, ..CellError::default() });
        result.files.created[0].path = path;
        result.displays = vec![MimeBundle::new().with("text/plain", display)];
        result.signal = signal;
        result.truncated = Truncated::any(None, None, left_out.map(|left_out| Cut { kept: 9, left_out }));
        result
    }
}

proptest! {
    #[test]
    fn the_text_is_never_longer_than_the_budget(
        result in any_result(), code in "(?s).{0,200}", budget in 0usize..900, zh in any::<bool>(),
    ) {
        let locale = if zh { Locale::Zh } else { Locale::En };
        let text = result.for_model(&code, &ForModel { budget, locale, time_limit: Some(Duration::from_secs(1)) });
        prop_assert!(text.chars().count() <= budget, "{} > {budget}: {text}", text.chars().count());
    }

    #[test]
    fn parts_are_whole_when_there_is_room(result in any_result(), code in "(?s).{0,200}") {
        let text = result.for_model(&code, &ForModel::default());
        prop_assert!(text.contains(result.output.trim_matches(['\r', '\n'])));
        prop_assert!(!text.contains("characters left out"));
    }
}
