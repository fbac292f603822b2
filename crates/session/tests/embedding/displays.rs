//! Displays that are replaced and taken back, widgets, passwords, and what is special about one cell.

use crate::support::{Live, session, tool, wait};
use cellblock_protocol::{
    Cell, CommKind, CommMessage, Display, Event, MimeBundle, Status, ToolArguments,
};
use serde_json::json;

fn text(text: &str) -> MimeBundle {
    MimeBundle::new().with("text/plain", text)
}

fn shown(text: &str, id: &str) -> Display {
    Display {
        mime: MimeBundle::new().with("text/plain", text),
        display_id: Some(id.to_owned()),
        ..Display::default()
    }
}

/// The events of a cell before its result, and the displays of the result.
fn events(mut running: Live) -> (Vec<Event>, Vec<MimeBundle>) {
    let mut events = running.rest();
    match events.pop() {
        Some(Event::Result { result }) => {
            assert_eq!(result.status, Status::Success, "{:?}", result.error);
            (events, result.displays)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_display_with_an_id_is_replaced_by_an_update() {
    let session = session();
    let code = "handle = display(1, display_id='a')
display(2)
handle.update(3)
display(raw_bundle := {'text/plain': 'raw'}, raw=True, metadata={'width': 9})
del handle, raw_bundle";
    let (events, displays) = events(session.start(code));
    let raw = Display {
        mime: text("raw"),
        metadata: Some(json!({"width": 9}).as_object().cloned().unwrap().into()),
        ..Display::default()
    };
    let update = Display {
        update: true,
        ..shown("3", "a")
    };
    assert_eq!(
        events,
        [
            Event::Display(shown("1", "a")),
            Event::Display(text("2").into()),
            Event::Display(update),
            Event::Display(raw),
        ]
    );
    assert_eq!(displays, [text("3"), text("2"), text("raw")]);
}

#[test]
fn an_update_of_an_earlier_cell_is_an_event_and_no_display_of_this_one() {
    let session = session();
    session.good("handle = display('old', display_id=True)");
    let (events, displays) = events(session.start("handle.update('new')"));
    assert!(
        matches!(&events[..], [Event::Display(display)] if display.update),
        "{events:?}"
    );
    assert_eq!(displays, []);
}

#[test]
fn output_that_is_cleared_is_no_display_of_the_result() {
    let session = session();
    let (seen, displays) = events(session.start("display(1)\nclear_output()\ndisplay(2)"));
    assert_eq!(displays, [text("2")]);
    assert_eq!(seen[1], Event::ClearOutput { wait: false });
    let code = "display(1)\nclear_output(wait=True)\nprint('between')";
    assert_eq!(events(session.start(code)).1, [text("1")]);
    let code = "display(1)\nclear_output(wait=True)\ndisplay(2)\ndisplay(3)";
    assert_eq!(events(session.start(code)).1, [text("2"), text("3")]);
}

/// What the `comm` package of Jupyter has, as far as a backend is concerned.
const COMM_PACKAGE: &str = "import os
os.makedirs('comm')
open('comm/base_comm.py', 'w').write('''
import uuid
class BaseComm:
    def __init__(self, target_name='comm', data=None, metadata=None, buffers=None, comm_id=None, primary=True, **_):
        self.comm_id = comm_id or uuid.uuid4().hex
        self.target_name = target_name
        self.handler = None
        if primary:
            self.publish_msg('comm_open', data=data, metadata=metadata, buffers=buffers, target_name=target_name)
    def send(self, data=None, metadata=None, buffers=None):
        self.publish_msg('comm_msg', data=data, metadata=metadata, buffers=buffers)
    def close(self):
        self.publish_msg('comm_close')
    def on_msg(self, handler):
        self.handler = handler
class CommManager:
    def __init__(self):
        self.comms, self.targets = {}, {}
    def comm_open(self, stream, ident, msg):
        content = msg['content']
        comm = __import__('comm').create_comm(comm_id=content['comm_id'], target_name=content['target_name'], primary=False)
        self.comms[comm.comm_id] = comm
        self.targets[content['target_name']](comm, msg)
    def comm_msg(self, stream, ident, msg):
        self.comms[msg['content']['comm_id']].handler(msg)
    def comm_close(self, stream, ident, msg):
        del self.comms[msg['content']['comm_id']]
''')
open('comm/__init__.py', 'w').write('''
from comm.base_comm import BaseComm
def create_comm(**_):
    raise NotImplementedError
def get_comm_manager():
    raise NotImplementedError
''')";

#[test]
fn widgets_talk_with_a_front_end_in_both_directions() {
    let session = session();
    session.good(COMM_PACKAGE);
    let code = "import comm
slider = comm.create_comm(target_name='jupyter.widget', data={'value': 1}, comm_id='s', buffers=[b'\\x00\\xff'])
slider.send({'value': 2})
slider.close()";
    let message = |kind, data: serde_json::Value| CommMessage {
        kind,
        comm: "s".into(),
        target: None,
        data: data.as_object().cloned().unwrap().into(),
        metadata: None,
        buffers: Vec::new(),
    };
    let (events_seen, _) = events(session.start(code));
    let opened = CommMessage {
        target: Some("jupyter.widget".into()),
        buffers: vec!["AP8=".into()],
        ..message(CommKind::Open, json!({"value": 1}))
    };
    assert_eq!(
        events_seen,
        [
            Event::Comm(opened),
            Event::Comm(message(CommKind::Msg, json!({"value": 2}))),
            Event::Comm(message(CommKind::Close, json!({}))),
        ]
    );

    session.good(
        "seen = []
def target(widget, msg):
    seen.append(('open', msg['content']['data'], msg['buffers']))
    widget.on_msg(lambda msg: (seen.append(msg['content']['data']), widget.send({'echo': msg['content']['data']})))
comm.get_comm_manager().targets['t'] = target",
    );
    let open = CommMessage {
        comm: "from-front-end".into(),
        target: Some("t".into()),
        buffers: vec!["AP8=".into()],
        ..message(CommKind::Open, json!({"a": "ä🐍\"\\\n"}))
    };
    session.good(open.to_cell().unwrap());
    let said = CommMessage {
        comm: "from-front-end".into(),
        ..message(CommKind::Msg, json!({"n": 1.5, "null": null}))
    };
    let (echoed, _) = events(session.start(said.to_cell().unwrap()));
    assert!(
        matches!(&echoed[..], [Event::Comm(it)] if it.data.as_json() == r#"{"echo":{"n":1.5,"null":null}}"#),
        "{echoed:?}"
    );
    assert_eq!(
        session.value("seen"),
        "[('open', {'a': 'ä🐍\"\\\\\\n'}, [b'\\x00\\xff']), {'n': 1.5, 'null': None}]"
    );
}

#[test]
fn a_message_of_a_front_end_cannot_break_out_of_its_cell() {
    let hostile = CommMessage {
        kind: CommKind::Msg,
        comm: "\"); import os; os._exit(7); (\"".into(),
        target: None,
        data: ToolArguments::default(),
        metadata: None,
        buffers: vec!["'''\\\"\"\"\n\u{2028}\u{0}".into()],
    };
    let cell = hostile.to_cell().unwrap();
    let session = session();
    let result = session.run(cell);
    assert_eq!(result.status, Status::Failure);
    assert_eq!(
        result.exit_code, None,
        "an exception, and not the exit code of the message"
    );
    session.good("1");
}

#[test]
fn getpass_asks_for_a_password_and_input_does_not() {
    let session = session();
    let mut running = session.start("import getpass\n(getpass.getpass('key? '), input('name? '))");
    for (expected, is_password) in [("key? ", true), ("name? ", false)] {
        let Some(Event::InputRequest {
            call,
            prompt,
            password,
        }) = running.next()
        else {
            panic!("no question came")
        };
        assert_eq!((prompt.as_str(), password), (expected, is_password));
        session.input(&call, Ok(expected.to_uppercase()));
    }
    assert_eq!(running.result().value.unwrap().repr, "('KEY? ', 'NAME? ')");
}

#[test]
fn variables_of_the_environment_are_those_of_one_cell() {
    let session = session();
    let read = "import os\n(os.environ.get('A'), os.environ.get('B'))";
    session.good("import os\nos.environ['B'] = 'kept'");
    let with = |code: &str| Cell::new(code).env("A", "1").env("B", "2");
    assert_eq!(session.value(with(read)), "('1', '2')");
    assert_eq!(session.value(read), "(None, 'kept')");
    let child = "import subprocess\nsubprocess.run(['printenv', 'A'], capture_output=True).stdout";
    assert_eq!(session.value(with(child)), "b'1\\n'");
    assert_eq!(session.run(with("1/0")).status, Status::Failure);
    assert_eq!(session.value(read), "(None, 'kept')");
    session.good(with("os.environ['A'] = 'x'; del os.environ['B']"));
    assert_eq!(session.value(read), "(None, 'kept')");
    assert_eq!(
        session.run(with("os.kill(os.getpid(), 9)")).status,
        Status::Crashed
    );
    assert_eq!(session.value(read), "(None, 'kept')");
    for name in ["", "a=b", "a\0"] {
        assert!(
            wait(session.0.run(Cell::new("1").env(name, "x"))).is_err(),
            "{name:?}"
        );
    }
}

#[test]
fn a_silent_cell_shows_nothing_and_a_count_is_the_number_of_its_cell() {
    let session = session();
    let code = "class Loud:\n    def __repr__(self): print('looked at'); return ''\ndisplay(1)\nprint('said')\nx = 5\nLoud()";
    let result = session.good(Cell::new(code).silent(true));
    assert_eq!((result.value, result.displays.len()), (None, 0));
    assert_eq!(result.stdout, "said\n");
    assert_eq!(session.value("display(2)\nx"), "5");
    assert_eq!(session.good(Cell::new("1").count(40)).cell, 40);
    assert_eq!(session.good(Cell::new("1").count(3)).cell, 41);
    assert_eq!(session.good("1").cell, 42);
    session.offer([tool("t", "A tool.", &[])]);
}
