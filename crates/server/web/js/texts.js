// Every text of the app, in English and Chinese, in one table.

/** @type {Record<string, [string, string]>} */
const TEXTS = {
  "app.sessions": ["Sessions", "会话"],
  "app.runs": ["Runs", "运行"],
  "app.admin": ["Administration", "管理"],
  "app.new_chat": ["New chat", "新对话"],
  "app.new_session": ["New session", "新会话"],
  "app.search": ["Search", "搜索"],
  "app.menu": ["Open menu", "打开菜单"],
  "app.close_menu": ["Close menu", "关闭菜单"],
  "app.theme": ["Switch light and dark", "切换明暗"],
  "app.language": ["中文", "English"],
  "app.log_out": ["Log out", "退出登录"],
  "app.skip": ["Skip to content", "跳到内容"],
  "app.navigation": ["Main navigation", "主导航"],
  "app.cancel": ["Cancel", "取消"],
  "app.close": ["Close", "关闭"],
  "app.copy": ["Copy", "复制"],
  "app.copied": ["Copied", "已复制"],
  "app.download": ["Download", "下载"],
  "app.offline": ["The connection is lost. Trying again …", "连接已断开，正在重试……"],
  "app.not_found": ["There is nothing at this address", "此地址没有内容"],
  "app.nothing_found": ["Nothing matches", "没有匹配项"],
  "app.nothing_yet": ["Nothing here yet", "暂无内容"],
  "app.now": ["now", "刚刚"],
  "app.today": ["Today", "今天"],
  "app.yesterday": ["Yesterday", "昨天"],
  "app.earlier": ["Earlier", "更早"],
  "app.delete": ["Delete", "删除"],
  "app.rename": ["Rename", "重命名"],
  "app.save": ["Save", "保存"],

  "share.share": ["Share", "分享"],
  "share.title": ["Anyone with this link can read the chat", "任何人都可通过此链接阅读对话"],
  "share.text": ["Also what is asked from now on. The link is shown once; a new one ends it.", "包括之后的提问。链接只显示一次；新链接会使其失效。"],
  "share.link": ["Link", "链接"],
  "share.end": ["End the link", "停用链接"],
  "share.end_text": ["This chat has a link already.", "此对话已有链接。"],
  "share.renew": ["Make a new link", "生成新链接"],
  "share.ended": ["The link leads nowhere now", "链接已停用"],
  "share.gone": ["This link leads nowhere any more", "此链接已失效"],
  "share.note": ["A shared chat of {date}, to read only", "{date} 的共享对话，仅供阅读"],
  "evals.title": ["Evaluations", "评测"],
  "evals.lead": ["Scores of suites. Add the report that this command writes:", "测试集得分。添加此命令生成的报告："],
  "evals.add": ["Add a report", "添加报告"],
  "evals.suite": ["Suite", "测试集"],
  "evals.model": ["Model", "模型"],
  "evals.score": ["Score", "得分"],
  "evals.share": ["Share", "比例"],
  "evals.passed": ["Passed", "通过"],
  "evals.when": ["Added", "添加时间"],
  "evals.compare": ["Compare with …", "与……比较"],
  "evals.worse": ["{count} got worse", "{count} 项变差"],
  "evals.better": ["{count} got better", "{count} 项变好"],
  "evals.task": ["Task", "任务"],
  "evals.result": ["Result", "结果"],
  "evals.steps": ["Steps", "步数"],
  "evals.time": ["Time", "时间"],
  "evals.problems": ["Problems", "问题"],
  "evals.pass": ["passed", "通过"],
  "evals.fail": ["failed", "失败"],
  "admin.live": ["Live sessions", "活动会话"],
  "admin.live_lead": ["The users with live sessions, and how much these may take. What is in them stays their users'.", "谁有活动会话以及可占用的资源。内容仅归用户本人所有。"],
  "admin.end_live": ["End them", "结束"],
  "admin.end_live_text": ["The sessions of {name} end. They come back from their journals when they are used again.", "{name} 的会话将结束，再次使用时由日志恢复。"],
  "admin.running": ["Runs", "运行"],
  "admin.machine": ["Machine", "机器"],
  "admin.walls": ["Walls", "隔离"],
  "admin.works": ["works", "可用"],
  "admin.fails": ["missing", "不可用"],
  "admin.packages": ["{count} packages", "{count} 个包"],
  "admin.no_packages": ["Only the standard library. `cellblock setup` installs more.", "仅标准库。运行 `cellblock setup` 安装更多。"],
  "chat.plan_versions": ["Versions of the plan", "计划的版本"],

  "terminal.title": ["Terminal", "终端"],
  "terminal.start": ["Open a shell", "打开 Shell"],
  "terminal.lead": ["A shell in the session: the same files, behind the same walls.", "会话中的 Shell：同样的文件，同样的隔离。"],
  "terminal.leave": ["Shift + Tab leaves the terminal.", "按 Shift + Tab 离开终端。"],
  "terminal.screen": ["Screen of the terminal", "终端屏幕"],
  "terminal.input": ["Input of the terminal", "终端输入"],
  "terminal.ended": ["The shell has ended with {code}.", "Shell 已结束，代码 {code}。"],
  "terminal.closed": ["The connection to the shell is closed.", "与 Shell 的连接已关闭。"],
  "editor.unknown": ["Nothing is known about this name", "没有关于此名称的信息"],
  "files.all": ["All as zip", "全部打包为 zip"],
  "files.rename": ["Rename {name}", "重命名 {name}"],
  "files.remove": ["Delete {name}", "删除 {name}"],
  "files.path": ["Path", "路径"],

  "login.tagline": ["Code that can go back in time.", "能够回到过去的代码。"],
  "login.title": ["Welcome back", "欢迎回来"],
  "login.lead": ["Real Python, sealed and with a memory. Log in to go on.", "真实的 Python，封闭运行，保留状态。请登录继续。"],
  "login.name": ["Name", "用户名"],
  "login.password": ["Password", "密码"],
  "login.submit": ["Log in", "登录"],
  "lanes.title": ["Reply {number} of {count} was chosen", "选择了 {count} 个回复中的第 {number} 个"],
  "lanes.reply": ["Reply {number}", "回复 {number}"],
  "lanes.chosen": ["chosen", "已选择"],
  "lanes.succeeded": ["succeeded", "成功"],
  "lanes.failed": ["failed", "失败"],
  "lanes.not_tried": ["not tried", "未尝试"],
  "lanes.unreadable": ["not readable", "无法解析"],
  "login.openid": ["Log in with your organisation", "使用组织账号登录"],
  "login.openid_denied": ["Your organisation did not let you in.", "组织的登录服务拒绝了登录。"],
  "login.openid_expired": ["That login took too long or began in another browser. Begin again.", "登录超时，或是在另一个浏览器中开始的。请重新登录。"],
  "login.openid_failed": ["Your organisation's login could not be used. If it stays, tell the operator.", "无法使用组织的登录服务。若持续如此，请联系管理员。"],
  "login.openid_bad_name": ["Your organisation gives no name that can be used here. Tell the operator.", "组织提供的用户名无法在此使用。请联系管理员。"],
  "login.openid_name_taken": ["A user with your name logs in with a password. Ask an administrator to rename or remove that account.", "已有同名用户使用密码登录。请管理员重命名或删除该账号。"],
  "login.openid_disabled": ["An administrator has closed this account.", "管理员已停用此账号。"],
  "login.point_1": ["Go back to any moment", "回到任意时刻"],
  "login.point_1b": ["Variables and files as they were after every cell.", "变量和文件可恢复到任一单元之后的样子。"],
  "login.point_2": ["A crash is an event", "崩溃只是一个事件"],
  "login.point_2b": ["The session returns to just before it. Nothing is lost.", "会话回到崩溃之前，什么也不会丢失。"],
  "login.point_3": ["Behind walls", "层层隔离"],
  "login.point_3b": ["Namespaces, Landlock, seccomp. No network unless you allow it.", "命名空间、Landlock、seccomp。未经允许没有网络。"],
  "login.first_title": ["Make the administrator", "创建管理员"],
  "login.first_lead": ["This link works once. Choose the name and password of the first administrator.", "此链接仅可使用一次。请设置首位管理员的用户名和密码。"],
  "login.new_password": ["New password, at least 10 characters", "新密码，至少 10 个字符"],
  "login.link_title": ["Choose a password", "设置密码"],
  "login.link_lead": ["This link works once. Choose the password for your account.", "此链接仅可使用一次。请为您的账户设置密码。"],
  "login.link_submit": ["Save and log in", "保存并登录"],
  "login.first_submit": ["Create and log in", "创建并登录"],

  "session.untitled": ["Session", "会话"],
  "session.empty": ["An empty session", "空会话"],
  "session.empty_lead": ["Write Python below. What a cell binds stays, and every cell can be taken back.", "在下方编写 Python。单元绑定的内容会保留，每个单元都可以撤销。"],
  "session.run": ["Run", "运行"],
  "session.run_hint": ["Shift + Enter runs", "Shift + Enter 运行"],
  "session.scratch": ["Try in a fork", "在分叉中试运行"],
  "session.scratch_hint": ["Runs the code in a copy. This session stays as it is.", "在副本中运行代码，此会话保持不变。"],
  "session.scratch_title": ["Tried in a fork", "已在分叉中试运行"],
  "session.scratch_apply": ["Apply here", "应用到此处"],
  "session.scratch_drop": ["Discard", "丢弃"],
  "session.stop": ["Stop", "停止"],
  "session.undo": ["Undo", "撤销"],
  "session.undo_done": ["Back to the state after cell {cell}", "已回到单元 {cell} 之后的状态"],
  "session.undo_start": ["Back to the beginning", "已回到开始"],
  "session.fork": ["Fork", "分叉"],
  "session.fork_done": ["Forked. This is the copy.", "已分叉，这是副本。"],
  "session.export": ["Export", "导出"],
  "session.end": ["End session", "结束会话"],
  "session.end_ask": ["End this session?", "结束此会话？"],
  "session.end_text": ["Its variables are gone then. Its files and its journal stay.", "变量将丢失，文件和日志会保留。"],
  "session.ended": ["This session has ended", "此会话已结束"],
  "session.rebuilt": ["Rebuilt from its journal after a restart", "重启后已从日志重建"],
  "session.code": ["Code of a new cell", "新单元的代码"],
  "session.placeholder": ["# Python. Shift + Enter runs it.", "# Python，Shift + Enter 运行"],
  "session.state.idle": ["Ready", "就绪"],
  "session.state.running": ["Running", "运行中"],
  "session.state.waiting": ["Waits for you", "等待您的操作"],
  "session.state.ended": ["Ended", "已结束"],
  "session.panel": ["About this session", "会话详情"],
  "session.cells": ["Cells", "单元"],

  "cell.label": ["Cell {cell}", "单元 {cell}"],
  "cell.running": ["running", "运行中"],
  "cell.success": ["done", "完成"],
  "cell.failure": ["failed", "失败"],
  "cell.timeout": ["timed out", "超时"],
  "cell.crashed": ["crashed", "崩溃"],
  "cell.interrupted": ["stopped", "已停止"],
  "cell.undone": ["taken back", "已撤销"],
  "cell.by_agent": ["by the agent", "由智能体运行"],
  "cell.output": ["Output of cell {cell}", "单元 {cell} 的输出"],
  "cell.lines_hidden": ["{count} earlier lines are not shown", "未显示前面 {count} 行"],
  "cell.show_all": ["Show all", "显示全部"],
  "cell.restored_title": ["The process died, and the session is back", "进程已终止，会话已恢复"],
  "cell.restored_text": ["All variables are as they were just before this cell.", "所有变量恢复到此单元之前的状态。"],
  "cell.restored_behind": ["Replayed: {cells}", "已重放：{cells}"],
  "cell.not_restored": ["Not restored: {what}", "未恢复：{what}"],
  "cell.ended_title": ["The session ended here", "会话在此结束"],
  "cell.copy": ["Copy the code", "复制代码"],
  "cell.edit": ["Put the code into the editor", "将代码放入编辑器"],
  "cell.traceback": ["Traceback", "错误回溯"],
  "cell.hint": ["Hint", "提示"],
  "cell.truncated": ["{bytes} of output were left out", "省略了 {bytes} 的输出"],
  "cell.input": ["The code asks", "代码请求输入"],
  "cell.answer": ["Answer", "回答"],
  "cell.signal": ["signal {signal}", "信号 {signal}"],

  "vars.title": ["Variables", "变量"],
  "vars.none": ["No variables yet", "暂无变量"],
  "vars.then": ["As they were after cell {cell}", "单元 {cell} 之后的变量"],
  "files.then": ["As cells had written them by cell {cell}", "截至单元 {cell} 写入的文件"],
  "vars.inspect": ["Inspect {name}", "查看 {name}"],
  "files.title": ["Files", "文件"],
  "files.none": ["No files yet", "暂无文件"],
  "files.upload": ["Upload", "上传"],
  "files.drop": ["Drop files to upload them", "拖放文件以上传"],
  "files.uploaded": ["{name} is in the workspace", "{name} 已放入工作区"],
  "files.preview": ["Preview {name}", "预览 {name}"],
  "files.no_preview": ["No preview for this kind of file", "此类文件无法预览"],
  "files.cut": ["The beginning of the file", "仅显示文件开头"],

  "time.title": ["Time", "时间"],
  "time.slider": ["Moment in the session", "会话中的时刻"],
  "time.now": ["Now", "现在"],
  "time.start": ["Start", "开始"],
  "time.after": ["After cell {cell}", "单元 {cell} 之后"],
  "time.looking": ["You are looking at the state after cell {cell}", "正在查看单元 {cell} 之后的状态"],
  "time.looking_start": ["You are looking at the beginning", "正在查看最初状态"],
  "time.go_back": ["Go back here", "回到此处"],
  "time.go_back_text": ["{count} cells are taken back, with their variables and files.", "将撤销 {count} 个单元及其变量和文件。"],
  "time.fork_here": ["Fork from here", "从此处分叉"],
  "time.to_now": ["Back to now", "返回现在"],
  "time.no_checkpoint": ["There is no checkpoint for this moment any more", "此时刻已没有检查点"],
  "branches.title": ["Branches", "分支"],
  "branches.this": ["this one", "当前"],
  "branches.compare": ["Compare", "比较"],
  "branches.none": ["A fork makes a branch. It has its own variables and files.", "分叉会产生分支，拥有自己的变量和文件。"],
  "compare.title": ["Two branches, side by side", "并排比较两个分支"],
  "compare.differs": ["Different", "不同"],
  "compare.no_difference": ["No differences", "没有差异"],
  "walls.title": ["Walls", "隔离"],
  "walls.isolation": ["Isolation", "隔离"],
  "walls.strategy": ["Strategy", "策略"],
  "walls.backend": ["Runs in", "运行环境"],
  "walls.memory": ["Peak memory", "内存峰值"],
  "walls.checkpoint": ["Safety net", "安全网"],
  "walls.armed": ["armed: the next crash loses nothing", "已就绪：下次崩溃不会丢失任何内容"],
  "walls.behind": ["{count} cells behind", "落后 {count} 个单元"],
  "walls.unavailable": ["not available", "不可用"],
  "walls.wall": ["Time limit of a cell", "单元时间限制"],
  "walls.cells": ["Cells", "单元数"],
  "walls.time": ["Time", "耗时"],

  "chat.hello": ["What should be computed?", "要计算什么？"],
  "chat.lead": ["The model writes Python, the code really runs behind walls, and you see every step.", "模型编写 Python，代码在隔离环境中真实运行，每一步都可见。"],
  "chat.ask": ["Ask anything. Drop or paste files.", "请提问，可拖放或粘贴文件。"],
  "chat.files_note": ["Files in the workspace: {names}", "工作区中的文件：{names}"],
  "chat.question": ["Your question", "您的问题"],
  "chat.send": ["Send", "发送"],
  "chat.stop": ["Stop", "停止"],
  "chat.attach": ["Attach files", "添加文件"],
  "chat.remove_file": ["Remove {name}", "移除 {name}"],
  "chat.edit": ["Edit and resend", "编辑并重新发送"],
  "chat.thinking": ["Thinking", "思考中"],
  "chat.writing": ["Writing code", "编写代码中"],
  "chat.working": ["Running code", "运行代码中"],
  "chat.steps": ["{count} steps", "{count} 个步骤"],
  "chat.step": ["1 step", "1 个步骤"],
  "chat.reasoning": ["Reasoning", "推理"],
  "chat.plan": ["Plan", "计划"],
  "chat.plan_version": ["version {version}", "版本 {version}"],
  "chat.answer": ["Answer", "答案"],
  "chat.model": ["Model", "模型"],
  "chat.open_session": ["Open the session", "打开会话"],
  "chat.tokens": ["{count} tokens", "{count} 个令牌"],
  "chat.no_answer": ["There is no answer", "没有答案"],
  "chat.example_1": ["What do 15000 become at 6 % compounded semi-annually for 6 years?", "15000 按 6% 半年复利，6 年后是多少？"],
  "chat.example_2": ["Plot a damped oscillation and find its half-life", "绘制阻尼振荡并求半衰期"],
  "chat.example_3": ["How many primes are there below one million?", "一百万以内有多少个素数？"],
  "chat.fork": ["Branch off", "另开分支"],
  "chat.retrying": ["The model is asked again: {reason}", "正在重新请求模型：{reason}"],
  "chat.malformed": ["The reply could not be read; the model is asked again", "回复无法解析，正在重新请求"],
  "chat.drop": ["Drop files to ask about them", "拖放文件以提问"],

  "approval.title": ["{tool} waits for your approval", "{tool} 等待您的批准"],
  "approval.lead": ["The cell stands still until you decide. You can change the arguments.", "在您决定之前单元会暂停，您可以修改参数。"],
  "approval.host": ["The code wants to reach {host}", "代码想要访问 {host}"],
  "approval.host_lead": ["The cell stands still until you decide. What you allow holds for this run.", "在您决定之前单元会暂停。允许仅对本次运行有效。"],
  "approval.accept": ["Allow", "允许"],
  "approval.accept_edited": ["Allow as edited", "按修改后允许"],
  "approval.reject": ["Reject", "拒绝"],
  "approval.always": ["Always allow in this run", "本次运行始终允许"],
  "approval.reason": ["Reason for the model (optional)", "给模型的理由（可选）"],
  "approval.invalid": ["This is not valid JSON", "不是有效的 JSON"],
  "approval.done": ["Decided: {decision}", "已决定：{decision}"],

  "runs.title": ["Runs", "运行"],
  "runs.lead": ["Every question to the agent, with each prompt, reply and cell.", "对智能体的每个问题，包括每次提示、回复和单元。"],
  "runs.when": ["When", "时间"],
  "runs.timeline": ["Where the time went", "时间去向"],
  "runs.model_time": ["Model", "模型"],
  "runs.cell_time": ["Code", "代码"],
  "runs.verify": ["Verify", "验证"],
  "runs.verify_hint": ["Runs the cells again in a clean session and compares", "在干净会话中重新运行单元并比较"],
  "runs.verified": ["Verified: every cell gave the same again", "已验证：每个单元结果一致"],
  "runs.unverified": ["Not verified", "未通过验证"],
  "runs.resume": ["Resume", "继续"],
  "runs.story": ["What happened", "经过"],
  "runs.to_chat": ["Open the chat", "打开对话"],
  "runs.status.answered": ["answered", "已回答"],
  "runs.status.running": ["running", "运行中"],
  "runs.status.cancelled": ["cancelled", "已取消"],
  "runs.status.cut_off": ["cut off by a restart", "因重启中断"],
  "runs.events": ["Events", "事件"],

  "admin.users": ["Users", "用户"],
  "reference.title": ["API reference", "API 参考"],
  "reference.lead": ["Everything that a program can ask this server for.", "程序可以向此服务器请求的所有内容。"],
  "reference.search": ["Search requests", "搜索请求"],
  "reference.count": ["{count} requests", "{count} 个请求"],
  "reference.anyone": ["Needs no login.", "无需登录。"],
  "reference.scope": ["Needs a login, or a token with the scope {scope}.", "需要登录，或具有 {scope} 权限的令牌。"],
  "reference.parameters": ["Parameters", "参数"],
  "reference.body": ["Body", "请求体"],
  "reference.answers": ["Answers", "响应"],
  "admin.tokens": ["API tokens", "API 令牌"],
  "admin.sessions": ["Live sessions", "活动会话"],
  "admin.audit": ["Audit", "审计"],
  "admin.new_user": ["New user", "新用户"],
  "admin.new_token": ["New token", "新令牌"],
  "admin.account": ["Account", "账户"],
  "admin.account_lead": ["Your limits, and what you use of them.", "您的限制和使用情况。"],
  "admin.memory": ["Memory of live sessions", "活动会话内存"],
  "admin.time_today": ["Time of cells today", "今日单元耗时"],
  "admin.cost_today": ["Cost of models today", "今日模型费用"],
  "admin.today": ["Today: {cells} cells, {tokens} tokens", "今日：{cells} 个单元，{tokens} 个令牌"],
  "admin.password": ["Change password", "修改密码"],
  "admin.password_changed": ["The password is changed. Other logins have ended.", "密码已修改，其他登录已结束。"],
  "admin.tokens_lead": ["Programs use Cellblock with a token in the header Authorization.", "程序通过 Authorization 请求头中的令牌使用 Cellblock。"],
  "admin.users_lead": ["Each user has sessions, chats and limits of their own.", "每个用户拥有自己的会话、对话和限制。"],
  "admin.link_once": ["Send this link to the user. It works once, for three days.", "请将此链接发送给用户。仅可使用一次，三天内有效。"],
  "admin.new_link": ["New password link for {name}", "为 {name} 生成新的密码链接"],
  "admin.lock": ["Lock {name} out", "锁定 {name}"],
  "admin.unlock": ["Let {name} in again", "解除锁定 {name}"],
  "admin.locked": ["locked out", "已锁定"],
  "admin.token_once": ["Copy this token now. It is not shown again.", "请立即复制此令牌，之后不再显示。"],
  "admin.name": ["Name", "名称"],
  "admin.role": ["Role", "角色"],
  "admin.created": ["Created", "创建时间"],
  "admin.expires": ["Expires", "到期"],
  "admin.never": ["never", "永不"],
  "admin.scopes": ["Scopes", "权限"],
  "admin.last_used": ["Last used", "最近使用"],
  "admin.days": ["Days until it expires", "有效天数"],
  "admin.delete_user": ["Delete {name}?", "删除 {name}？"],
  "admin.delete_user_text": ["Sessions and chats of this user are deleted too.", "该用户的会话和对话也会被删除。"],
  "admin.delete_token": ["Revoke {name}?", "吊销 {name}？"],
  "admin.owner": ["User", "用户"],
  "admin.action": ["Action", "操作"],
  "admin.target": ["Target", "对象"],
};

const LANGUAGES = ["en", "zh"];

/** The language of the app: "en" or "zh". */
export const language = (() => {
  const chosen = localStorage.getItem("language");
  if (chosen && LANGUAGES.includes(chosen)) return chosen;
  return navigator.language.startsWith("zh") ? "zh" : "en";
})();

/** Goes on in the other language. */
export function switchLanguage() {
  localStorage.setItem("language", language === "en" ? "zh" : "en");
  location.reload();
}

/**
 * The text with this key; `{name}` in it stands for a value.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values) {
  const pair = TEXTS[key];
  const text = pair ? pair[LANGUAGES.indexOf(language)] : key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (values && name in values ? String(values[name]) : whole));
}

/** Whether there is a text with this key. @param {string} key */
export const hasText = (key) => key in TEXTS;

const SIZES = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

/** A number of bytes for people. @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${SIZES.format(value)} ${units[unit]}`;
}

/** A duration for people. @param {number} ms */
export function duration(ms) {
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${SIZES.format(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${SIZES.format(ms / 3_600_000)} h`;
}

/** A number for people. @param {number} value */
export const number = (value) => new Intl.NumberFormat(language).format(value);

/** A moment for people, short. @param {number} seconds since 1970 */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const age = Date.now() / 1000 - seconds;
  if (age < 60) return t("app.now");
  if (age < 86_400) return date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleDateString(language, { day: "numeric", month: "short" });
}
