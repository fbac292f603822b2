//! The words around a plan, in both languages.

use super::TaskStatus;
use cellblock_protocol::Locale;

/// The fixed phrases of one language.
pub(super) struct Words {
    pub(super) changes: &'static str,
    pub(super) plan: &'static str,
    pub(super) statistics: &'static str,
    pub(super) ready: &'static str,
    pub(super) created: &'static str,
    pub(super) no_change: &'static str,
    pub(super) root: &'static str,
    statuses: [&'static str; 6],
    locale: Locale,
}

static ENGLISH: Words = Words {
    changes: "Changes:",
    plan: "Plan:",
    statistics: "Statistics:",
    ready: "Ready:",
    created: "✅ Plan created",
    no_change: "ℹ️ No change",
    root: "root",
    statuses: [
        "waiting",
        "running",
        "succeeded",
        "failed",
        "retry",
        "skipped",
    ],
    locale: Locale::En,
};

static CHINESE: Words = Words {
    changes: "变更总结：",
    plan: "Markdown清单：",
    statistics: "status_statistics:",
    ready: "可执行任务：",
    created: "✅ 首次创建计划树",
    no_change: "ℹ️ 计划树无明显变更",
    root: "根节点",
    statuses: [
        "待执行",
        "正在执行",
        "执行成功",
        "执行失败",
        "重试",
        "已跳过",
    ],
    locale: Locale::Zh,
};

impl Words {
    pub(super) fn of(locale: Locale) -> &'static Words {
        match locale {
            Locale::En => &ENGLISH,
            Locale::Zh => &CHINESE,
        }
    }

    pub(super) fn status(&self, status: TaskStatus) -> &'static str {
        let at = TaskStatus::ALL.iter().position(|other| *other == status);
        self.statuses[at.unwrap_or_default()]
    }

    fn choose(&self, english: String, chinese: String) -> String {
        match self.locale {
            Locale::En => english,
            Locale::Zh => chinese,
        }
    }

    pub(super) fn added(&self, names: &str) -> String {
        self.choose(
            format!("🆕 New tasks: {names}"),
            format!("🆕 新增任务：{names}"),
        )
    }

    pub(super) fn deleted(&self, names: &str) -> String {
        self.choose(
            format!("🗑️ Deleted tasks: {names}"),
            format!("🗑️ 删除任务：{names}"),
        )
    }

    pub(super) fn status_changed(&self, name: &str, old: TaskStatus, new: TaskStatus) -> String {
        let (old, new) = (self.status(old), self.status(new));
        self.choose(
            format!("🔄 Status: {name} ({old} → {new})"),
            format!("🔄 状态变更：{name}（{old} → {new}）"),
        )
    }

    pub(super) fn moved(&self, name: &str, old: &str, new: &str) -> String {
        self.choose(
            format!("📂 Moved: {name} (parent: {old} → {new})"),
            format!("📂 层级调整：{name}（父任务：{old} → {new}）"),
        )
    }

    pub(super) fn edited(&self, name: &str, fields: &str) -> String {
        self.choose(
            format!("✏️ Edited: {name} ({fields})"),
            format!("✏️ 内容变更：{name}（{fields}）"),
        )
    }

    pub(super) fn task(&self, symbol: &str, name: &str, id: &str) -> String {
        self.choose(
            format!("- [{symbol}] **{name}** (ID: {id})"),
            format!("- [{symbol}] **{name}**（ID：{id}）"),
        )
    }

    pub(super) fn task_status(&self, status: TaskStatus) -> String {
        let name = self.status(status);
        self.choose(format!(" | Status: {name}"), format!(" | 状态：{name}"))
    }

    pub(super) fn description(&self, text: &str) -> String {
        self.choose(
            format!("  > Description: {text}"),
            format!("  > 说明：{text}"),
        )
    }

    pub(super) fn result(&self, text: &str) -> String {
        self.choose(format!("  > Result: {text}"), format!("  > 结果：{text}"))
    }

    pub(super) fn more(&self, count: usize) -> String {
        self.choose(format!("… and {count} more"), format!("……还有 {count} 项"))
    }
}
