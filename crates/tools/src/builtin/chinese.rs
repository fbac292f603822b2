//! The descriptions of the built-in tools in Chinese.

use crate::ToolDefinition;
use serde_json::Value;

/// The words of one tool in Chinese.
struct ToolWords {
    name: &'static str,
    /// The first words of the English description: a tool of the user with the same name keeps its own words.
    english: &'static str,
    description: &'static str,
    /// What is said of each parameter.
    parameters: &'static [(&'static str, &'static str)],
}

/// Puts the description of a built-in tool into Chinese.
pub(crate) fn describe_in_chinese(definition: &mut ToolDefinition) {
    let words = TOOLS.iter().find(|words| {
        words.name == definition.name && definition.description.starts_with(words.english)
    });
    let Some(words) = words else {
        return;
    };
    definition.description = words.description.to_owned();
    let properties = definition.parameters.get_mut("properties");
    let Some(properties) = properties.and_then(Value::as_object_mut) else {
        return;
    };
    for (name, text) in words.parameters {
        if let Some(Value::Object(schema)) = properties.get_mut(*name) {
            schema.insert("description".to_owned(), (*text).into());
        }
    }
}

const TOOLS: &[ToolWords] = &[
    ToolWords {
        name: "execute_python_code",
        english: "Runs Python code in a live session",
        description: "在持续的会话中执行 Python 代码, 返回输出、值、图表和新文件。变量和导入保留。用 print \
            或最后一个表达式看结果, plt.show() 显示图表。出错时此前的部分保留, 超时或崩溃时全部撤销。缺少的软件包用 \
            install_packages 申请 (如有)。宿主工具是函数: 见 help(tools)。",
        parameters: &[
            ("python_code_snippet", "可用顶层 await。"),
            ("timeout", "秒数。"),
        ],
    },
    ToolWords {
        name: "compute",
        english: "Evaluates one Python expression exactly",
        description: "用会话的变量精确计算一个表达式, 不作改变。sqrt、Decimal、date、Counter 等无需导入。不接受语句、导入和 print。",
        parameters: &[("code", "一个表达式。"), ("description", "说明。")],
    },
    ToolWords {
        name: "recursive_plan_tree_todo",
        english: "Keeps your plan as a tree of tasks",
        description: "把你的计划保存为任务树。先调用它列出计划, 之后每当有变化时再调用: 每次发送整棵树, 并带上已告知你的每个任务的 \
            task_id。返回变化的内容、整棵树、进度, 以及可以开始的任务。一个任务所依赖的任务全部完成后, 它就可以开始。",
        parameters: &[("recursive_plan_tree", "当前的完整计划。")],
    },
    ToolWords {
        name: "file_reader",
        english: "Reads a text file of the workspace",
        description: "读取工作区的文本文件。超过 max_size_mb 的只返回行数和字节数。",
        parameters: &[
            ("file_path", "工作区内的路径。"),
            ("encoding", "例如 gbk。"),
        ],
    },
    ToolWords {
        name: "list_files",
        english: "Lists the files of the workspace",
        description: "列出工作区的文件和大小。",
        parameters: &[("directory", "只列此目录下的。")],
    },
    ToolWords {
        name: "undo",
        english: "Takes back the last calls of execute_python_code",
        description: "撤销最近几次 execute_python_code, 连同变量和文件。外部的影响不撤销。",
        parameters: &[("count", "次数。")],
    },
    ToolWords {
        name: "checkpoints",
        english: "Lists the checkpoints of the session",
        description: "列出会话的检查点, 最新的在前: 工具 undo 可以回到这些单元执行之后的状态。",
        parameters: &[],
    },
    ToolWords {
        name: "install_packages",
        english: "Installs Python packages from the package index",
        description: "导入失败时, 从软件包索引安装 Python 软件包: 立即可以导入, 所有变量保留。",
        parameters: &[("packages", "名称, 必要时带版本: \"polars>=1.0\"。")],
    },
    ToolWords {
        name: "final_answer",
        english: "Ends the task with this answer",
        description: "以此答案结束任务。代码算出答案后调用一次。",
        parameters: &[("answer", "答案: 文本、数字、列表或字典。")],
    },
    ToolWords {
        name: "run_shell",
        english: "Runs a command with sh in the workspace",
        description: "在工作区中用 sh 运行命令, 处于会话的隔离之内。返回输出和退出码。给出 name 时在后台继续运行, 例如本地服务器: \
            用 background_process 读取其输出并结束它。这里看不到 Python 的变量。",
        parameters: &[
            ("command", "命令, 与 shell 脚本中相同。"),
            ("timeout", "多少秒后结束命令。不用于后台进程。"),
            ("name", "名称, 用于在后台运行命令。"),
        ],
    },
    ToolWords {
        name: "background_process",
        english: "Reads what a background process of run_shell wrote",
        description: "读取 run_shell 的后台进程自上次以来的输出, 或结束它。不给 name 时列出正在运行的进程。",
        parameters: &[("name", "给 run_shell 的名称。"), ("end", "是否结束进程。")],
    },
    ToolWords {
        name: "edit_file",
        english: "Replaces a piece of text in a file",
        description: "替换工作区文件中的一段文本, 并以 diff 返回改动。old_text 必须在文件中逐字 (包括所有空格) 恰好出现一次, \
            除非 replace_all 为 true。old_text 为空时写入新文件。",
        parameters: &[
            ("file_path", "相对于工作区的路径。"),
            ("old_text", "现在的文本。"),
            ("new_text", "替换成的文本。"),
            ("replace_all", "是否替换每一处。"),
        ],
    },
    ToolWords {
        name: "search_files",
        english: "Finds lines of the workspace's text files",
        description: "在工作区的文本文件中查找匹配正则表达式的行。每个匹配以 路径:行号: 文本 给出。",
        parameters: &[
            ("pattern", "正则表达式, 不支持环视。"),
            ("ending", "只查找路径以此结尾的文件, 例如 .py。"),
            ("ignore_case", "是否不区分大小写。"),
        ],
    },
    ToolWords {
        name: "fetch_page",
        english: "Fetches a page over the network of the session",
        description: "通过会话的网络获取网页, 以 Markdown 返回, 包括链接。只能访问用户开放的主机。",
        parameters: &[
            ("url", "地址, http 或 https。"),
            ("start", "从第几个字符开始, 用于继续读长网页。"),
        ],
    },
];
