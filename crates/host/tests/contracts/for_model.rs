//! X: what a model reads after a real cell, in both languages.

use crate::support::session;
use cellblock_protocol::{Cell, CellResult, ForModel, Limits, Locale};
use std::time::Duration;

fn english(result: &CellResult, code: &str) -> String {
    result.for_model(
        code,
        &ForModel {
            time_limit: Some(Duration::from_millis(500)),
            ..ForModel::default()
        },
    )
}

fn chinese(result: &CellResult, code: &str) -> String {
    result.for_model(
        code,
        &ForModel {
            time_limit: Some(Duration::from_millis(500)),
            locale: Locale::Zh,
            ..ForModel::default()
        },
    )
}

#[test]
fn x1_a_success() {
    let code = "import sys
print('out')
print('err', file=sys.stderr)
display('shown')
open('a.csv', 'w').write('1,2')
6 * 7";
    let result = session().good(code);
    assert_eq!(
        english(&result, code),
        "## Code execution succeeded
### Terminal output:
out
err
### Value:
42
### Shown:
text/plain: 'shown'
### New files:
a.csv (text/csv, 3 bytes)"
    );
    assert_eq!(
        chinese(&result, code),
        "## 代码执行成功，输出结果完整，任务完成
### 终端输出：
out
err
### 返回值：
42
### 显示：
text/plain: 'shown'
### 新文件：
a.csv（text/csv，3 字节）"
    );
}

#[test]
fn x2_a_failure() {
    let code = "print('start')\nk = 0\n1/k";
    let result = session().run(code);
    assert_eq!(
        english(&result, code),
        "## Code execution failed: an exception was raised; debug it from the error below
### Terminal output:
start
### Original code:
   1 | print('start')
   2 | k = 0
   3 | 1/k
### Error:
Traceback (most recent call last):
  File \"<cell 1>\", line 3, in <module>
    1/k
ZeroDivisionError: division by zero"
    );
    assert_eq!(
        chinese(&result, code),
        "## 代码执行失败，代码抛出异常，根据报错信息进行调试
### 终端输出：
start
### 原始代码：
   1 | print('start')
   2 | k = 0
   3 | 1/k
### 报错信息：
Traceback (most recent call last):
  File \"<cell 1>\", line 3, in <module>
    1/k
ZeroDivisionError: division by zero"
    );
}

#[test]
fn x2_a_denial_is_explained() {
    let code = "import socket\nsocket.create_connection(('10.0.0.1', 80), timeout=5)";
    let text = english(&session().run(code), code);
    assert!(
        text.to_lowercase()
            .contains("this session has no network: "),
        "{text}"
    );
}

#[test]
fn x3_a_time_out() {
    let code = "print('working')\nwhile True: pass";
    let result = session().run(Cell::new(code).timeout(Duration::from_millis(500)));
    assert_eq!(
        english(&result, code),
        "## Code execution timed out and was stopped; the state is as before this cell; raise the timeout or split the work
### Terminal output:
working
### Time limit: 0.5 seconds"
    );
    assert_eq!(
        chinese(&result, code),
        "## 代码执行超时，强制退出执行，调整超时时间后重试
### 终端输出：
working
### 超出限制的时间：0.5 秒
### 状态：与本单元执行前一致"
    );
}

#[test]
fn x4_a_crash() {
    let code = "import ctypes\nprint('working')\nctypes.string_at(0)";
    let result = session().run(code);
    assert_eq!(
        english(&result, code),
        "## Code execution crashed: the process ended abnormally; the state from before this cell was restored
### Terminal output:
working
### Signal: SIGSEGV"
    );
    assert_eq!(
        chinese(&result, code),
        "## 代码执行崩溃，进程异常退出，根据报错信息进行调试
### 终端输出：
working
### 信号：SIGSEGV
### 状态：与本单元执行前一致"
    );
    let result = session().run("import os\nos._exit(139)");
    assert!(english(&result, "").ends_with("### Exit code: 139"));
    assert!(chinese(&result, "").contains("### 退出状态码：139"));
}

#[test]
fn x4_a_limit_that_ended_the_cell_is_named() {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let code = "import mmap
NO_RESERVE = 0x4000
held = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
for n in range(0, 2 << 30, 4096): held[n] = 1";
    let result = crate::support::open(crate::support::builder().limits(limits)).run(code);
    let text = english(&result, code);
    assert!(
        text.contains("256 MiB of memory"),
        "the model is not told why:\n{text}"
    );
}

#[test]
fn x5_never_longer_than_the_budget() {
    let code = "for n in range(5000): print('line', n)\nraise ValueError('the reason')";
    let result = session().run(code);
    for budget in [200, 500, 2000, 20_000] {
        let text = result.for_model(
            code,
            &ForModel {
                budget,
                ..ForModel::default()
            },
        );
        assert!(text.chars().count() <= budget, "{budget}");
        assert!(text.contains("ValueError: the reason"), "{budget}: {text}");
    }
    let text = result.for_model(
        code,
        &ForModel {
            budget: 2000,
            ..ForModel::default()
        },
    );
    assert!(
        text.contains(
            "characters left out; read them with read_output(cell=1, stream=\"output\", offset="
        ),
        "{text}"
    );
}

#[test]
fn x6_an_empty_success_says_how_to_see_something() {
    let result = session().good("x = 1");
    assert_eq!(
        english(&result, "x = 1"),
        "## Code execution succeeded
(no output; use print(...) or end with an expression)"
    );
    assert_eq!(
        chinese(&result, "x = 1"),
        "## 代码执行成功，输出结果完整，任务完成\n（没有输出；请使用 print(...) 或以表达式结尾）"
    );
}

#[test]
fn x8_nothing_in_it_depends_on_the_time_the_paths_or_a_random_id() {
    let code = "import time
print('x')
open('made.txt', 'w').write('x')
class Thing: pass
thing = Thing()
def f(): return thing.missing
f()";
    let texts = [session(), session()].map(|session| english(&session.run(code), code));
    assert_eq!(texts[0], texts[1]);
}
