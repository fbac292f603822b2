//! H1 to H3: a person decides before a call is made.

use crate::support::{execute, printed, sessions, wait};
use cellblock_protocol::{Cell, Locale};
use cellblock_tools::{
    Answer, Approval, ApprovalMode, ApprovalPolicy, ApprovalRequest, ApprovalRule, Approver, Call,
    Caller, CodeArgument, Context, Decision, DecisionFuture, Effects, Registry, Tool, ToolError,
    ToolRunner,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
struct Mail {
    to: String,
}

/// Sends something that cannot be called back.
struct SendMailTool(Arc<Mutex<Vec<String>>>);

impl Tool for SendMailTool {
    type Parameters = Mail;
    type Output = String;

    fn effects(&self) -> Effects {
        Effects::Outside
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(100))
    }

    async fn call(&self, mail: Mail, _: &Context) -> Result<String, ToolError> {
        self.0.lock().unwrap().push(mail.to.clone());
        Ok(format!("sent to {}", mail.to))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Look {}

struct LookUpTool;

impl Tool for LookUpTool {
    type Parameters = Look;
    type Output = &'static str;

    async fn call(&self, _: Look, _: &Context) -> Result<&'static str, ToolError> {
        Ok("found")
    }
}

/// Someone who has made up their mind before.
#[derive(Default)]
pub struct Scripted {
    pub decisions: Mutex<VecDeque<Decision>>,
    pub asked: Mutex<Vec<ApprovalRequest>>,
    pub thinks: Duration,
}

impl Scripted {
    pub fn new(decisions: impl IntoIterator<Item = Decision>) -> Arc<Scripted> {
        Arc::new(Scripted {
            decisions: Mutex::new(decisions.into_iter().collect()),
            ..Scripted::default()
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|question| question.tool.clone())
            .collect()
    }
}

impl Approver for Scripted {
    fn ask(&self, question: ApprovalRequest) -> DecisionFuture {
        self.asked.lock().unwrap().push(question);
        let decision = self
            .decisions
            .lock()
            .unwrap()
            .pop_front()
            .expect("one question too many");
        let thinks = self.thinks;
        Box::pin(async move {
            tokio::time::sleep(thinks).await;
            decision
        })
    }
}

struct Office {
    runner: ToolRunner,
    asker: Arc<Scripted>,
    sent: Arc<Mutex<Vec<String>>>,
}

fn office(policy: ApprovalPolicy, asker: Arc<Scripted>) -> Office {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let registry = Registry::builder()
        .built_in()
        .tool(SendMailTool(Arc::clone(&sent)))
        .tool(LookUpTool);
    let approval = Approval::new(policy, Some(asker.clone() as Arc<dyn Approver>));
    let runner = ToolRunner::builder(registry.build().unwrap())
        .open_sessions(sessions())
        .approval(approval);
    Office {
        runner: runner.build(),
        asker,
        sent,
    }
}

impl Office {
    fn call(&self, name: &str, arguments: Value) -> Answer {
        wait(self.runner.call(Call::by_user(name, arguments)))
    }

    fn mail(&self, to: &str) -> String {
        self.call("send_mail", json!({"to": to}))
            .for_model(Locale::En, 1000)
    }

    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }
}

fn edited(arguments: Value) -> Decision {
    Decision::Edit(arguments.as_object().cloned().unwrap())
}

#[test]
fn h2_accept_edit_respond_and_reject() {
    let office = office(
        ApprovalPolicy::default(),
        Scripted::new([
            Decision::Accept,
            edited(json!({"to": "bob"})),
            edited(json!({"two": "bob"})),
            Decision::Respond("ask Carol first".into()),
            Decision::Reject(None),
            Decision::Reject(Some("too late".into())),
        ]),
    );
    assert_eq!(office.mail("ann"), "sent to ann");
    assert_eq!(
        office.mail("ann"),
        "Note: the user edited this call of send_mail before it ran. It ran with: {\"to\":\"bob\"}\nsent to bob"
    );
    assert_eq!(
        office.mail("ann"),
        "Tool call failed: the arguments of `send_mail` do not fit: unknown field `two`; the fields are to; \
         missing field `to`: expected a text (in what the user edited)"
    );
    assert_eq!(
        office.mail("ann"),
        "`send_mail` was not run; the user answers: ask Carol first"
    );
    assert_eq!(
        office.mail("ann"),
        "Tool call failed: `send_mail` was not run: the user rejected it"
    );
    assert_eq!(
        office.mail("ann"),
        "Tool call failed: `send_mail` was not run: the user rejected it: too late"
    );
    assert_eq!(office.sent(), ["ann", "bob"]);
}

#[test]
fn h2_edited_code_runs_and_the_model_is_told() {
    let office = office(
        ApprovalPolicy::mode(ApprovalMode::Code),
        Scripted::new([edited(json!({"python_code_snippet": "print('edited')"}))]),
    );
    assert_eq!(
        execute(&office.runner, "print('original')"),
        "Note: the user edited the code before it ran. This ran instead:\nprint('edited')\n\
         ## Code execution succeeded\n### Terminal output:\nedited"
    );
    let asked = office.asker.asked.lock().unwrap();
    assert_eq!(
        asked[0].code(),
        Some(CodeArgument {
            name: "python_code_snippet",
            code: "print('original')"
        })
    );
}

#[test]
fn h2_always_is_for_this_tool_and_this_run() {
    let office = office(
        ApprovalPolicy::mode(ApprovalMode::Tools),
        Scripted::new([Decision::Always, Decision::Accept]),
    );
    office.mail("ann");
    office.mail("bob");
    office.call("look_up", json!({}));
    office.mail("cleo");
    assert_eq!(office.asker.asked(), ["send_mail", "look_up"]);
    assert_eq!(office.sent(), ["ann", "bob", "cleo"]);
}

#[test]
fn a_fork_knows_what_was_always_allowed_and_asks_its_own_person() {
    let request = |tool: &str| ApprovalRequest {
        tool: tool.to_owned(),
        purpose: None,
        arguments: Map::new(),
        effects: Effects::Outside,
        caller: Caller::User,
    };
    let (one, other) = (
        Scripted::new([Decision::Always, Decision::Accept]),
        Scripted::new([Decision::Always]),
    );
    let first = Approval::new(ApprovalPolicy::default(), Some(one.clone()));
    wait(first.permit(request("mail"))).unwrap();
    let fork = first.for_fork(Some(other.clone()));
    for tool in ["mail", "pay", "pay"] {
        wait(fork.permit(request(tool))).unwrap();
    }
    wait(first.permit(request("pay"))).unwrap();
    assert_eq!(one.asked(), ["mail", "pay"]);
    assert_eq!(other.asked(), ["pay"]);
}

#[test]
fn h1_each_mode_asks_for_its_own() {
    let asked = |policy: ApprovalPolicy| {
        let yes = std::iter::repeat_with(|| Decision::Accept).take(10);
        let office = office(policy, Scripted::new(yes));
        office.mail("ann");
        office.call("look_up", json!({}));
        execute(&office.runner, "1");
        office.asker.asked()
    };
    assert_eq!(asked(ApprovalPolicy::default()), ["send_mail"]);
    assert!(asked(ApprovalPolicy::mode(ApprovalMode::Never)).is_empty());
    assert_eq!(
        asked(ApprovalPolicy::mode(ApprovalMode::Code)),
        ["send_mail", "execute_python_code"]
    );
    assert_eq!(
        asked(ApprovalPolicy::mode(ApprovalMode::Tools)),
        ["send_mail", "look_up"]
    );
    assert_eq!(
        asked(ApprovalPolicy::mode(ApprovalMode::All)),
        ["send_mail", "look_up", "execute_python_code"]
    );
}

#[test]
fn h1_rules_by_name_come_before_the_mode() {
    let policy = ApprovalPolicy::default()
        .with("send_mail", ApprovalRule::Allow)
        .with("look_up", ApprovalRule::Deny)
        .with("execute_python_code", ApprovalRule::Ask);
    let office = office(policy, Scripted::new([Decision::Reject(None)]));
    assert_eq!(office.mail("ann"), "sent to ann");
    assert_eq!(
        office
            .call("look_up", json!({}))
            .for_model(Locale::En, 1000),
        "Tool call failed: `look_up` was not run: the configuration forbids it"
    );
    assert!(execute(&office.runner, "1").contains("the user rejected it"));
    assert_eq!(office.asker.asked(), ["execute_python_code"]);
}

#[test]
fn h1_a_policy_can_be_written_in_a_configuration() {
    let policy: ApprovalPolicy =
        serde_json::from_value(json!({"mode": "all", "rules": {"look_up": "allow"}})).unwrap();
    assert_eq!(
        policy,
        ApprovalPolicy::mode(ApprovalMode::All).with("look_up", ApprovalRule::Allow)
    );
}

#[test]
fn h3_with_nobody_to_ask_it_is_refused() {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let registry = Registry::builder()
        .tool(SendMailTool(Arc::clone(&sent)))
        .build()
        .unwrap();
    let runner = ToolRunner::new(registry);
    let answer = wait(runner.call(Call::by_user("send_mail", json!({"to": "ann"}))));
    assert_eq!(
        answer.for_model(Locale::En, 1000),
        "Tool call failed: `send_mail` was not run: it needs a person's approval, and no person can be asked here"
    );
    assert!(sent.lock().unwrap().is_empty());
}

#[test]
fn b5_a_call_inside_a_cell_waits_for_a_person_and_no_clock_runs() {
    let asker = Arc::new(Scripted {
        decisions: Mutex::new(VecDeque::from([
            Decision::Accept,
            edited(json!({"to": "bob"})),
        ])),
        // Longer than the cell has, and longer than the tool has.
        thinks: Duration::from_millis(1500),
        ..Scripted::default()
    });
    let office = office(ApprovalPolicy::default(), asker);
    let cell = Cell::new("print(send_mail('ann'))\nprint(send_mail('ann'))")
        .timeout(Duration::from_secs(1));
    let ran = wait(office.runner.run_cell(cell, None)).unwrap();
    assert_eq!(ran.result.stdout, "sent to ann\nsent to bob\n");
    // The model hears of the edit although code made the call.
    assert_eq!(
        ran.notes,
        [
            "Note: the user edited this call of send_mail before it ran. It ran with: {\"to\":\"bob\"}"
        ]
    );
    assert_eq!(
        office.asker.asked.lock().unwrap()[0].caller,
        cellblock_tools::Caller::Code
    );
}

#[test]
fn h2_what_is_not_run_is_raised_in_code() {
    let office = office(
        ApprovalPolicy::default(),
        Scripted::new([Decision::Reject(None), Decision::Respond("not now".into())]),
    );
    let code = "for _ in range(2):\n    try: send_mail('ann')\n    except ToolError as error: print(error)";
    assert_eq!(
        printed(&office.runner, code),
        "`send_mail` was not run: the user rejected it\n`send_mail` was not run; the user answers: not now\n"
    );
}

#[test]
fn one_question_at_a_time() {
    struct Alone(Mutex<bool>);
    impl Approver for Alone {
        fn ask(&self, _: ApprovalRequest) -> DecisionFuture {
            let before = std::mem::replace(&mut *self.0.lock().unwrap(), true);
            assert!(!before, "asked while a question is open");
            *self.0.lock().unwrap() = false;
            Box::pin(async { Decision::Accept })
        }
    }
    let registry = Registry::builder().tool(LookUpTool).build().unwrap();
    let policy = ApprovalPolicy::mode(ApprovalMode::All);
    let approval = Approval::new(policy, Some(Arc::new(Alone(Mutex::new(false)))));
    let runner = ToolRunner::builder(registry).approval(approval).build();
    let answers = wait(runner.call_all((0..20).map(|_| Call::by_user("look_up", Map::new()))));
    assert!(answers.iter().all(Answer::is_ok));
}
