//! E: `compute`, one expression evaluated exactly.

use crate::support::{Python, session, wait};
use cellblock_protocol::Computed;

impl Python {
    fn compute(&self, code: &str) -> Computed {
        let computed = wait(self.0.compute(code, "a test")).unwrap();
        assert!(
            computed.result.is_some() != computed.error.is_some(),
            "exactly one: {computed:?}"
        );
        computed
    }

    fn computed(&self, code: &str) -> String {
        let Computed { result, error } = self.compute(code);
        result.unwrap_or_else(|| panic!("{code}: {error:?}"))
    }

    fn refused(&self, code: &str) -> String {
        let Computed { result, error } = self.compute(code);
        error.unwrap_or_else(|| panic!("{code} gave {result:?}"))
    }
}

#[test]
fn e1_the_result_is_the_text_of_the_value() {
    let session = session();
    for (code, text) in [
        ("'NcS9euQa'[::-1]", "aQue9ScN"),
        ("2**100", "1267650600228229401496703205376"),
        (
            "1 if 0.1 + 0.2 == 0.3 else [0.1 + 0.2]",
            "[0.30000000000000004]",
        ),
        ("None", "None"),
        ("'é世界'.upper()", "É世界"),
        ("  \n 1 +\\\n 1", "2"),
    ] {
        assert_eq!(session.compute(code), Computed::result(text), "{code}");
    }
}

#[test]
fn e1_statements_are_refused_before_anything_runs() {
    let session = session();
    session.good("ran = []");
    let statements = [
        "x = 1",
        "ran.append(1)\nran.append(2)",
        "for i in [1]: pass",
        "def f(): pass",
        "del ran",
        "ran.append(1); 2",
        "pass",
        "assert ran",
        "return 1",
    ];
    for code in statements {
        let error = session.refused(code);
        assert!(
            error.contains("execute_python_code") && error.contains("statement")
                || error.contains("several expressions"),
            "{code}: {error}"
        );
    }
    assert!(
        session
            .refused("import os")
            .contains("imports are not available")
    );
    assert_eq!(session.value("ran"), "[]");
}

#[test]
fn e2_a_syntax_error_comes_with_line_column_and_a_caret() {
    assert_eq!(
        session().refused("(1,\n 2 +* 3)"),
        "PythonError: SyntaxError: invalid syntax (line 2, column 5)\n     2 +* 3)\n        ^"
    );
}

#[test]
fn e2_nothing_at_all_is_a_syntax_error() {
    assert!(
        session()
            .refused("")
            .starts_with("PythonError: SyntaxError")
    );
}

#[test]
fn e3_every_allowed_builtin_is_there() {
    let names = "len str int float list dict tuple set frozenset bool complex bytes reversed sorted enumerate sum max min abs round range zip map \
                 filter any all divmod pow ord chr hex oct bin repr format iter next slice isinstance type hash";
    let session = session();
    for name in names.split_whitespace() {
        session.computed(name);
    }
    assert_eq!(
        session.computed("sorted(map(lambda n: divmod(n, 3), range(4)), reverse=True), sum(zip([1], [2]), ()), next(iter({7})), format(255, 'x')"),
        "([(1, 0), (0, 2), (0, 1), (0, 0)], (1, 2), 7, 'ff')"
    );
    assert_eq!(
        session.computed("type(1) is int and isinstance(1, int)"),
        "True"
    );
    assert_eq!(
        session.compute("print('x')").error.unwrap(),
        "PythonError: NameError: print is not needed in compute: write the expression alone, its value is the result"
    );
}

#[test]
fn e3_public_names_of_the_modules_are_there_without_their_module() {
    let session = session();
    for (code, text) in [
        ("sqrt(16)", "4.0"),
        ("Decimal('1.1') + 1", "2.1"),
        ("date(2024, 2, 28) + timedelta(2)", "2024-03-01"),
        ("Counter('aab').most_common(1)", "[('a', 2)]"),
        ("mean([1, 2])", "1.5"),
        ("reduce(lambda a, b: a * b, [1, 2, 3])", "6"),
    ] {
        assert_eq!(session.computed(code), text, "{code}");
    }
    assert!(session.compute("Formatter()").error.is_some());
}

#[test]
fn e3_the_allowed_modules_are_there_as_plain_names() {
    let session = session();
    for (code, text) in [
        ("math.sqrt(2)", "1.4142135623730951"),
        ("re.sub('[aeiou]', '*', 'banana')", "b*n*n*"),
        ("json.loads(json.dumps({'a': [1]}))['a']", "[1]"),
        (
            "(datetime.date(2024, 3, 1) - datetime.date(2024, 2, 1)).days",
            "29",
        ),
        (
            "datetime.datetime.strptime('2024-02-03', '%Y-%m-%d').month",
            "2",
        ),
        ("decimal.Decimal('0.1') + decimal.Decimal('0.2')", "0.3"),
        ("fractions.Fraction(1, 3) + fractions.Fraction(1, 6)", "1/2"),
        ("statistics.median([3, 1, 2])", "2"),
        ("list(itertools.accumulate([1, 2, 3]))", "[1, 3, 6]"),
        ("functools.reduce(lambda a, b: a * b, range(1, 6))", "120"),
        ("collections.Counter('banana').most_common(1)", "[('a', 3)]"),
        ("string.ascii_lowercase[:3]", "abc"),
        ("random.Random(1).randint(1, 1)", "1"),
        ("textwrap.shorten('one two three', 9)", "one [...]"),
        ("unicodedata.name('é')", "LATIN SMALL LETTER E WITH ACUTE"),
        ("base64.b64encode(b'hi').decode()", "aGk="),
        ("hashlib.sha256(b'').hexdigest()[:8]", "e3b0c442"),
    ] {
        assert_eq!(session.computed(code), text, "{code}");
    }
}

#[test]
fn e3_comprehensions_and_lambdas_are_allowed() {
    let session = session();
    assert_eq!(
        session.computed("{k: [v for v in range(k) if v % 2] for k in (2, 4)}"),
        "{2: [1], 4: [1, 3]}"
    );
    assert_eq!(
        session
            .computed("(lambda n, f: f(f, n))(5, lambda f, n: 1 if n == 0 else n * f(f, n - 1))"),
        "120"
    );
    assert_eq!(session.computed("sum(x * x for x in range(4))"), "14");
    assert_eq!(session.computed("f'{1 + 1:>4}|{\"a\"!r}'"), "   2|'a'");
}

#[test]
fn e3_imports_are_not_available_and_the_error_says_so() {
    let error = session().refused("__import__('os')");
    assert!(
        error.starts_with("PythonError: ImportError: imports are not available in compute"),
        "{error}"
    );
}

/// None of these may give a value, whatever the value would be.
const WAYS_OUT: &[&str] = &[
    // The known ones.
    "json.codecs.open('/etc/passwd')",
    "random._os",
    "statistics.sys",
    "(x for x in [1]).gi_frame.f_builtins['open']",
    "'{0.__class__}'.format(1)",
    // Names.
    "open('/etc/passwd')",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "getattr(1, '__class__')",
    "setattr",
    "vars()",
    "globals()",
    "locals()",
    "dir()",
    "input()",
    "object",
    "super",
    "breakpoint()",
    "memoryview",
    "__builtins__",
    "_",
    "os",
    "sys",
    // Attributes.
    "().__class__.__base__.__subclasses__()",
    "(lambda: 1).__globals__",
    "(lambda: 1).__code__.co_code",
    "int.mro()",
    "[].append.__self__",
    "(x for x in [1]).gi_code",
    "(x for x in [1]).f_globals",
    "1 .tb_frame",
    "1 .cr_frame",
    "1 .ag_frame",
    "1 .co_consts",
    // Modules inside modules.
    "json.decoder",
    "json.scanner.re",
    "re.enum",
    "re._compiler",
    "decimal._decimal",
    "datetime.sys",
    "collections.abc.sys",
    "functools.namedtuple.__globals__",
    "random.os",
    "base64.struct",
    "hashlib._hashlib",
    "statistics.math",
    // Formats that read attributes.
    "'{x.__class__}'.format(x=1)",
    "'{x.__class__}'.format_map({'x': 1})",
    "str.format('{0.__class__}', 1)",
    "str.format_map('{x.__class__}', {'x': 1})",
    "'{0:{1.__class__}}'.format(1, 2)",
    "'{0[0].__class__}'.format([1])",
    "list(map(str.format, ['{0.__class__}'], [1]))",
    "(lambda s: s.format(1))('{0.__class__}')",
    "string.Formatter().format('{0.__class__}', 1)",
    "string.Formatter().get_field('0.__class__', [1], {})",
    "functools.partial(str.format, '{0.__class__}')(1)",
    "collections.UserString('{0.__class__}').format(1)",
    // Binding names, making classes.
    "(x := 1)",
    "[y := 1, y]",
    "type('X', (), {})",
    "type(1)('7').__class__",
    "functools.wraps(lambda: 1)(print)",
    // Other syntax.
    "await x",
    "[x async for x in y]",
    "(yield 1)",
    "lambda __x: 1",
    "dict(__x=1)",
];

#[test]
fn e3_the_ways_out_are_all_refused() {
    let session = session();
    let open: Vec<_> = WAYS_OUT
        .iter()
        .filter_map(|code| Some((code, session.compute(code).result?)))
        .collect();
    assert_eq!(open, []);
}

#[test]
fn e3_a_harmless_format_is_allowed() {
    assert_eq!(
        session().computed("'{0} {name:>3} {1[0]}'.format(1, [2], name='x')"),
        "1   x 2"
    );
}

#[test]
fn e4_the_last_result_is_there_as_a_value() {
    let session = session();
    session.computed("[3, 1, 2]");
    assert_eq!(session.computed("sorted(last_result)[0] + 1"), "2");
    assert_eq!(
        session.computed("last_result * 10, results[1], results[2], len(results)"),
        "(20, [3, 1, 2], 2, 2)"
    );
    session.refused("1/0");
    assert_eq!(
        session.computed("last_result[0]"),
        "20",
        "a failure leaves the last result alone"
    );
}

#[test]
fn e4_without_an_earlier_result_the_error_says_so() {
    let session = session();
    assert!(session.refused("last_result").contains("no earlier result"));
    assert!(session.refused("results[3]").contains("no"));
}

#[test]
fn e4_the_sessions_variables_can_be_read() {
    let session = session();
    session.good(
        "import json
prices = [1.5, 2.5]
def double(x): return 2 * x
class Point:
    x = 3
point = Point()",
    );
    assert_eq!(session.computed("double(sum(prices)) + point.x"), "11.0");
    assert_eq!(session.computed("json.dumps(prices)"), "[1.5, 2.5]");
}

#[test]
fn e4_nothing_that_it_does_changes_the_session() {
    let session = session();
    session.good(
        "import random
random.seed(1)
state = random.getstate()
l = [1]
def bind():
    global new
    new = 1
    print('printed')
    return 'bound'",
    );
    assert_eq!(session.computed("l.append(2)"), "None");
    assert_eq!(session.computed("l.clear() or len(l)"), "0");
    assert_eq!(session.computed("bind()"), "bound");
    session.computed("random.random()");
    let result = session.good("l, 'new' in globals(), random.getstate() == state");
    assert_eq!(
        (
            result.cell,
            result.value.unwrap().repr.as_str(),
            result.output.as_str()
        ),
        (2, "([1], False, True)", "")
    );
    assert!(result.variables.is_empty());
}

#[test]
fn e4_it_writes_no_files() {
    let session = session();
    session.good(
        "import os
open('kept.txt', 'w').write('text')
def append(): return open('kept.txt', 'a').write('more')
def remove(): return os.remove('kept.txt')
def create(): return open('new.txt', 'w').write('new')",
    );
    for code in ["append()", "create()", "remove()"] {
        session.compute(code);
    }
    assert_eq!(
        session.value("os.listdir(), open('kept.txt').read()"),
        "(['kept.txt'], 'text')"
    );
}

#[test]
fn e4_a_crash_in_it_loses_nothing() {
    let session = session();
    session.good(
        "import ctypes, os
x = 1
crash = lambda: ctypes.string_at(0)
leave = lambda: os._exit(3)
kill = lambda: os.kill(os.getppid(), 9)",
    );
    for code in ["crash()", "leave()"] {
        assert!(session.refused(code).starts_with("PythonError: "), "{code}");
    }
    session.compute("kill()");
    assert_eq!(session.value("x"), "1");
    assert_eq!(session.computed("x + 1"), "2");
}

#[test]
fn e4_the_users_code_never_sees_its_process() {
    let session = session();
    session.good(
        "import os, signal
seen = []
signal.signal(signal.SIGCHLD, lambda *a: seen.append('child'))",
    );
    assert_eq!(session.computed("1"), "1");
    assert_eq!(
        session.exception("os.wait()"),
        "ChildProcessError(10, 'No child processes')"
    );
    assert_eq!(session.value("seen"), "[]");
}

#[test]
fn e5_what_takes_too_long_or_too_much_is_a_clear_error_and_nothing_is_lost() {
    let cases = [
        ("9**9**9", "TimeoutError"),
        ("'a'*10**12", "MemoryError"),
        ("[0]*10**10", "MemoryError"),
        ("re.match('(a+)+$', 'a'*40 + 'b')", "TimeoutError"),
        ("[[0] * 10**7 for _ in range(1000)]", "MemoryError"),
    ];
    std::thread::scope(|scope| {
        for (code, kind) in cases {
            scope.spawn(move || {
                let session = session();
                session.good("x = 1");
                let error = session.refused(code);
                assert!(
                    error.starts_with(&format!("PythonError: {kind}: ")),
                    "{code}: {error}"
                );
                assert!(
                    error.contains("2 s") || error.contains("256 MB"),
                    "{code}: {error}"
                );
                assert_eq!(
                    (session.value("x"), session.computed("x + 1")),
                    ("1".into(), "2".into())
                );
            });
        }
    });
}

#[test]
fn e5_the_memory_that_the_session_holds_does_not_count() {
    let session = session();
    session.good("big = bytearray(400 << 20)");
    assert_eq!(session.computed("len(big) >> 20"), "400");
}

#[test]
fn e5_a_huge_result_is_cut() {
    let text = session().computed("'x' * 10**7");
    assert!(text.len() < 2_000_000, "{}", text.len());
}

#[test]
fn e6_errors_name_their_type_and_message() {
    let session = session();
    for (code, error) in [
        ("1/0", "PythonError: ZeroDivisionError: division by zero"),
        ("[][1]", "PythonError: IndexError: list index out of range"),
        ("{}['k']", "PythonError: KeyError: 'k'"),
        (
            "undefined",
            "PythonError: NameError: name 'undefined' is not defined",
        ),
        (
            "int('x')",
            "PythonError: ValueError: invalid literal for int() with base 10: 'x'",
        ),
    ] {
        assert_eq!(session.compute(code), Computed::error(error), "{code}");
    }
}
