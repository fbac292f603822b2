//! Every fixed phrase, in both languages. `texts.md` of the specification has the exact words of the headings.

use super::Locale;
use std::time::Duration;

/// The phrases of one language.
pub(super) struct Words {
    pub(super) succeeded: &'static str,
    pub(super) failed: &'static str,
    pub(super) timed_out: Claim,
    pub(super) crashed: Claim,
    pub(super) interrupted: Claim,
    pub(super) output: &'static str,
    pub(super) value: &'static str,
    pub(super) shown: &'static str,
    pub(super) new_files: &'static str,
    pub(super) code: &'static str,
    pub(super) error: &'static str,
    pub(super) no_output: &'static str,
    pub(super) state_as_before: &'static str,
    /// Stands above the list of what is not as before.
    pub(super) state_as_before_but: &'static str,
    /// Stands above the list of the cells that were run again and differed.
    pub(super) state_made_again: &'static str,
    pub(super) differed: &'static str,
    pub(super) not_restored: &'static str,
    pub(super) state_kept: &'static str,
    pub(super) state_ended: &'static str,
    /// Stands between a state and its reason.
    pub(super) because: &'static str,
    locale: Locale,
}

/// A heading for a cell that was stopped. Some say in the same breath that the state is as before; that
/// one may only be used where it is true.
pub(super) struct Claim {
    /// The sentence for a state that is as before the cell.
    pub(super) restored: &'static str,
    /// Says nothing of the state.
    pub(super) plain: &'static str,
    /// Whether `restored` names the state, so that no further line has to.
    pub(super) names_state: bool,
}

impl Words {
    pub(super) fn of(locale: Locale) -> &'static Self {
        match locale {
            Locale::En => &ENGLISH,
            Locale::Zh => &CHINESE,
        }
    }

    pub(super) fn time_limit(&self, limit: Duration) -> String {
        let seconds = limit.as_secs_f64();
        match self.locale {
            Locale::En => format!("### Time limit: {seconds} seconds"),
            Locale::Zh => format!("### 超出限制的时间：{seconds} 秒"),
        }
    }

    pub(super) fn exit_code(&self, code: i32) -> String {
        match self.locale {
            Locale::En => format!("### Exit code: {code}"),
            Locale::Zh => format!("### 退出状态码：{code}"),
        }
    }

    pub(super) fn signal(&self, name: &str) -> String {
        match self.locale {
            Locale::En => format!("### Signal: {name}"),
            Locale::Zh => format!("### 信号：{name}"),
        }
    }

    pub(super) fn hint(&self, hint: &str) -> String {
        match self.locale {
            Locale::En => format!("### Hint: {hint}"),
            Locale::Zh => format!("### 提示：{hint}"),
        }
    }

    /// `lost` names the cells, where they are known.
    pub(super) fn state_behind(&self, cells: u64, lost: &[u64]) -> String {
        let named = list(lost);
        match (self.locale, lost.is_empty()) {
            (Locale::En, true) => format!(
                "### State: restored from an older checkpoint; the effects of {cells} earlier cell(s) are lost too"
            ),
            (Locale::En, false) => format!(
                "### State: restored from an older checkpoint; the effects of {cells} earlier cell(s) are lost too: cells {named}"
            ),
            (Locale::Zh, true) => {
                format!("### 状态：已恢复到较早的检查点，此前 {cells} 个单元的结果也已丢失")
            }
            (Locale::Zh, false) => format!(
                "### 状态：已恢复到较早的检查点，此前 {cells} 个单元的结果也已丢失：单元 {named}"
            ),
        }
    }

    pub(super) fn replayed(&self, cells: &[u64]) -> String {
        let named = list(cells);
        match self.locale {
            Locale::En => format!("### Run again after the restore: cells {named}"),
            Locale::Zh => format!("### 恢复后重新执行的单元：{named}"),
        }
    }

    /// Stands where the middle of the output was.
    pub(super) fn output_cut(&self, characters: usize, cell: u64, offset: usize) -> String {
        let read = read_output(cell, offset as u64);
        match self.locale {
            Locale::En => format!("[… {characters} characters left out; read them with {read} …]"),
            Locale::Zh => format!("[… 省略了 {characters} 个字符；可用 {read} 读取 …]"),
        }
    }

    /// Stands at the end of output that the result holds only in part.
    pub(super) fn output_goes_on(&self, bytes: u64, cell: u64, offset: u64) -> String {
        let read = read_output(cell, offset);
        match self.locale {
            Locale::En => format!("[… {bytes} more bytes are not shown; read them with {read}]"),
            Locale::Zh => format!("[… 还有 {bytes} 字节未显示；可用 {read} 读取]"),
        }
    }

    /// Stands where the middle of anything else was.
    pub(super) fn cut(&self, characters: usize) -> String {
        match self.locale {
            Locale::En => format!("[… {characters} characters left out …]"),
            Locale::Zh => format!("[… 省略了 {characters} 个字符 …]"),
        }
    }

    pub(super) fn file(&self, path: &str, bytes: u64, mime: &str) -> String {
        match self.locale {
            Locale::En => format!("{path} ({mime}, {bytes} bytes)"),
            Locale::Zh => format!("{path}（{mime}，{bytes} 字节）"),
        }
    }
}

/// The first cells of a list by number, and how many more there are.
fn list(cells: &[u64]) -> String {
    const FEW: usize = 20;
    let few: Vec<String> = cells.iter().take(FEW).map(u64::to_string).collect();
    match cells.len().saturating_sub(FEW) {
        0 => few.join(", "),
        more => format!("{} (+{more})", few.join(", ")),
    }
}

fn read_output(cell: u64, offset: u64) -> String {
    format!("read_output(cell={cell}, stream=\"output\", offset={offset})")
}

static ENGLISH: Words = Words {
    succeeded: "## Code execution succeeded",
    failed: "## Code execution failed: an exception was raised; debug it from the error below",
    timed_out: Claim {
        restored: "## Code execution timed out and was stopped; the state is as before this cell; raise the timeout or split the work",
        plain: "## Code execution timed out and was stopped; raise the timeout or split the work",
        names_state: true,
    },
    crashed: Claim {
        restored: "## Code execution crashed: the process ended abnormally; the state from before this cell was restored",
        plain: "## Code execution crashed: the process ended abnormally",
        names_state: true,
    },
    interrupted: Claim {
        restored: "## Code execution was interrupted by the user; the state is as before this cell",
        plain: "## Code execution was interrupted by the user",
        names_state: true,
    },
    output: "### Terminal output:",
    value: "### Value:",
    shown: "### Shown:",
    new_files: "### New files:",
    code: "### Original code:",
    error: "### Error:",
    no_output: "(no output; use print(...) or end with an expression)",
    state_as_before: "### State: as before this cell",
    state_as_before_but: "### State: as before this cell, except for what is listed below",
    state_made_again: "### State: made again by running earlier cells; some of them did not do the same as before",
    differed: "### What differed:",
    not_restored: "### Not restored:",
    state_kept: "### State: what this cell did until then is kept",
    state_ended: "### State: lost; the session has ended and its variables are gone",
    because: ": ",
    locale: Locale::En,
};

static CHINESE: Words = Words {
    succeeded: "## 代码执行成功，输出结果完整，任务完成",
    failed: "## 代码执行失败，代码抛出异常，根据报错信息进行调试",
    timed_out: Claim {
        restored: "## 代码执行超时，强制退出执行，调整超时时间后重试",
        plain: "## 代码执行超时，强制退出执行，调整超时时间后重试",
        names_state: false,
    },
    crashed: Claim {
        restored: "## 代码执行崩溃，进程异常退出，根据报错信息进行调试",
        plain: "## 代码执行崩溃，进程异常退出，根据报错信息进行调试",
        names_state: false,
    },
    interrupted: Claim {
        restored: "## 代码执行被用户中断",
        plain: "## 代码执行被用户中断",
        names_state: false,
    },
    output: "### 终端输出：",
    value: "### 返回值：",
    shown: "### 显示：",
    new_files: "### 新文件：",
    code: "### 原始代码：",
    error: "### 报错信息：",
    no_output: "（没有输出；请使用 print(...) 或以表达式结尾）",
    state_as_before: "### 状态：与本单元执行前一致",
    state_as_before_but: "### 状态：除以下列出的内容外，与本单元执行前一致",
    state_made_again: "### 状态：已通过重新执行此前的单元重建，部分单元的结果与之前不同",
    differed: "### 不同之处：",
    not_restored: "### 未能恢复：",
    state_kept: "### 状态：本单元中断前的结果已保留",
    state_ended: "### 状态：会话已结束，变量已丢失",
    because: "：",
    locale: Locale::Zh,
};
