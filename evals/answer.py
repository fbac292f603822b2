"""Sits in the place of a model behind an endpoint whose requests and replies are files, and answers the tasks of both suites.

    python3 answer.py DIR [--mistakes]

The endpoint puts request n as `DIR/q/n.json` and waits for `DIR/a/n.json`, which holds `{"content", "tool_calls"}`. A reply is made
from what stands in the request and from nothing else: the question says which code to write, and an answer is read out of
what the code gave. So it knows neither secrets nor files, and a first attempt fails where the data has a trap.

With `--mistakes` the replies to one task (`swap-case`) have mistakes on purpose.
"""

import json
import re
import sys
import time
from pathlib import Path

CODE_ONLY = {"json", "xml", "markdown"}


# How a reply is written in each action format.


def format_of(request):
    system = request["messages"][0]["content"]
    if request.get("tools"):
        return "tools"
    for mark, name in [
        ("EXECUTION_RESULT", "json"),
        ("<execution-code>", "xml"),
        ("current_state", "next_step"),
        ("fenced block", "markdown"),
    ]:
        if mark in system:
            return name
    raise ValueError("the format is not known")


def text(content):
    return {"content": content}


def as_json(value):
    return text(json.dumps(value, ensure_ascii=False))


def step(thought, function, done=False):
    return as_json(
        {
            "current_state": thought,
            "plan_remaining_steps_brief": [],
            "task_completed": done,
            "function": function,
        }
    )


def call(form, thought, name, **arguments):
    arguments = {"tool_call_purpose": thought, **arguments}
    if form == "next_step":
        return step(thought, {"tool": name, **arguments})
    return {"content": thought, "tool_calls": [{"name": name, "arguments": arguments}]}


def run(form, thought, code, again=False):
    if form == "json":
        action = "debug_error" if again else "execute_code"
        return as_json({"thought": thought, "action": action, "code": code, "final_answer": None})
    if form == "xml":
        return text(f"{thought}\n<execution-code>\n{code}\n</execution-code>")
    if form == "markdown":
        return text(f"{thought}\n```python\n{code}\n```")
    return call(form, thought, "execute_python_code", python_code_snippet=code)


def final(form, thought, answer):
    if form == "json":
        return as_json({"thought": thought, "action": "provide_answer", "code": None, "final_answer": answer})
    if form == "next_step":
        return step(thought, {"tool": "report_task_completion", "answer": answer}, done=True)
    return text(answer)


# What can be read out of a result.


def has_failed(observation):
    return "Traceback" in observation or "Error" in observation


def last_line(observation):
    found = re.search(r"### Terminal output:\n(.*?)(?:\n###|\n##|\Z)", observation, re.S)
    return found.group(1).strip().splitlines()[-1].strip()


# The secret suite: words of the question, code that does it all, and the expression for those who go call by call.

SECRET = [
    ("unchanged", "provide_answer(secret)\nprint(secret)", "{}"),
    ("Reverse it", "provide_answer(secret[::-1])\nprint(secret[::-1])", None),
    (
        "second entry",
        "second = secret.split(',')[1].strip()\nprovide_answer(second)\nprint(second)",
        "{}.split(',')[1].strip()",
    ),
    ("every third", "picked = secret[2::3]\nprovide_answer(picked)\nprint(picked)", "{}[2::3]"),
    (
        "all digits",
        "total = sum(int(c) for c in secret if c.isdigit())\nprovide_answer(str(total))\nprint(total)",
        "sum(int(c) for c in {} if c.isdigit())",
    ),
]


def secret_task(form, code, expression, turn, observation):
    if expression is None or form in CODE_ONLY:
        if turn == 0:
            thought = "I fetch the secret, change it and hand it in, all in code."
            return run(form, thought, "secret = get_secret()\n" + code)
        answer = "Handed in: " + last_line(observation)
        return final(form, "The code handed it in and printed it.", answer)
    given = observation.strip().strip('"')
    if turn == 0:
        return call(form, "I need the secret first.", "get_secret")
    if expression == "{}":
        if turn == 1:
            return call(form, "I hand in what get_secret gave.", "provide_answer", answer=given)
        return final(form, "It was received.", "The secret was handed in unchanged.")
    if turn == 1:
        code = expression.format(repr(given))
        description = "the text that is asked for"
        return call(form, "I compute it exactly.", "compute", code=code, description=description)
    if turn == 2:
        result = json.loads(observation)["result"] if observation.lstrip().startswith("{") else observation.strip()
        return call(form, "I hand in the result.", "provide_answer", answer=result)
    return final(form, "It was received.", "The result was handed in.")


SWAP = "secret = get_secret()\nprovide_answer(secret.swapcase())\nprint(sum(c.isalpha() for c in secret))"


def swap_task(form, turn, observation, mistakes):
    replies = mistaken_swaps(form) if mistakes else []
    replies.append(run(form, "I fetch the secret, swap its case, hand it in and count its letters.", SWAP, again=mistakes))
    if turn < len(replies):
        return replies[turn]
    return final(form, "The code printed the number of letters.", last_line(observation))


def mistaken_swaps(form):
    """Code with a method that does not exist, in a reply that is not quite in form."""
    code = SWAP.replace("swapcase", "swap_case")
    reply = run(form, "I fetch, swap and hand in.", code)
    if form == "tools":
        unknown = {"content": "I run code.", "tool_calls": [{"name": "run_python", "arguments": {"code": SWAP}}]}
        broken = '{"tool_call_purpose": "swap the case", "python_code_snippet": "' + code + '",}'
        return [unknown, {"content": None, "tool_calls": [{"name": "execute_python_code", "arguments": broken}]}]
    if form in ("json", "next_step"):
        prose = text("First I will call get_secret, then I will swap the case and hand it in.")
        broken = reply["content"].replace("\\n", "\n").removesuffix("}") + ",}"
        return [prose, text(f"Here it is:\n```json\n{broken}\n```")]
    return [text(reply["content"].removesuffix("</execution-code>").removesuffix("```").rstrip())]


# The data suite: a file of the question, and attempts in order: the next one comes only where the last one did not do.

ADD_UP = """\
totals = {}
with open('orders.csv', newline='') as file:
    for row in csv.DictReader(file):
        totals[row['region']] = totals.get(row['region'], 0.0) + AMOUNT
best = max(totals, key=totals.get)
print(best, round(totals[best], 2))"""

WORTH = """\
worth = {}
for item in ITEMS:
    for tag in item['tags']:
        worth[tag] = worth.get(tag, 0.0) + item['price'] * counts[item['sku']]
print(json.dumps({tag: round(value, 2) for tag, value in worth.items()}))"""

EARLY = """\
early = [p for p in people if p['hired'] < '2021']
print(max(early, key=lambda p: float(p['salary']))['name'])"""

DATA = {
    "orders.csv": [
        ("I add up the amounts by region.", "import csv\n" + ADD_UP.replace("AMOUNT", "float(row['amount'])")),
        (
            "The amounts have commas between thousands; I take them out.",
            ADD_UP.replace("AMOUNT", "float(row['amount'].replace(',', ''))"),
        ),
        (
            "Some amounts are no numbers; they count as 0.",
            "def amount(text):\n    try:\n        return float(text.replace(',', ''))\n    except ValueError:\n"
            "        print('counted as 0:', text)\n        return 0.0\n\n" + ADD_UP.replace("AMOUNT", "amount(row['amount'])"),
        ),
    ],
    "readings.jsonl": [
        (
            "I read the records and take the median.",
            "import json, statistics\nrecords = [json.loads(line) for line in open('readings.jsonl')]\n"
            "print(statistics.median(r['temperature'] for r in records if r['sensor'] == 's3'))",
        ),
        (
            "Some records have no temperature; I leave them out.",
            "print(statistics.median(r['temperature'] for r in records if r['sensor'] == 's3' and 'temperature' in r))",
        ),
    ],
    "staff.csv": [
        (
            "I read the file and take the highest salary.",
            "import csv\nwith open('staff.csv', newline='', encoding='utf-8') as file:\n"
            "    people = list(csv.DictReader(file, delimiter=';'))\n" + EARLY,
        ),
        (
            "The file is not UTF-8. I look at its bytes; they look like ISO 8859-1.",
            "raw = open('staff.csv', 'rb').read()\nprint(raw[:80])\n"
            "people = list(csv.DictReader(raw.decode('iso-8859-1').splitlines(), delimiter=';'))\n" + EARLY,
        ),
    ],
    "app.log": [
        ("I look at the file first.", "print(open('app.log').read()[:300])"),
        (
            "Each line is time, level, component and took=…ms. I count.",
            "import json, re\ncounts = {'auth': 0, 'billing': 0, 'search': 0}\nfor line in open('app.log'):\n"
            "    level, component, took = re.match(r'\\S+\\s+(\\w+)\\s+(\\w+)\\s+took=(\\d+)ms', line).groups()\n"
            "    if level in ('WARN', 'ERROR') and int(took) > 300:\n        counts[component] += 1\nprint(json.dumps(counts))",
        ),
    ],
    "items.json": [
        (
            "I join the two files and add up by tag.",
            "import csv, json\nitems = json.load(open('items.json'))\ncounts = {row['sku']: int(row['count']) "
            "for row in csv.DictReader(open('counts.csv'), delimiter=';')}\n" + WORTH.replace("ITEMS", "items"),
        ),
        ("The list is under the key items.", WORTH.replace("ITEMS", "items['items']")),
    ],
}


def data_task(form, file, turn, observation):
    attempts = DATA[file]
    only_looked = file == "app.log" and turn == 1
    if turn == 0 or only_looked or has_failed(observation):
        thought, code = attempts[turn]
        return run(form, thought, code, again=turn > 0 and not only_looked)
    answer = last_line(observation)
    if file == "orders.csv":
        region, total = answer.split()
        answer = f"The region {region} has the highest total: {total}"
    return final(form, "The code printed the answer.", answer)


def answer(request, mistakes):
    form, messages = format_of(request), request["messages"]
    question = next(message["content"] for message in messages if message["role"] == "user")
    turn = sum(message["role"] == "assistant" for message in messages)
    observation = messages[-1]["content"]
    if "capital letters small" in question:
        return swap_task(form, turn, observation, mistakes)
    for words, code, expression in SECRET:
        if words in question:
            return secret_task(form, code, expression, turn, observation)
    for file in DATA:
        if file in question:
            return data_task(form, file, turn, observation)
    raise ValueError("this is no question of the suites")


def main(folder, mistakes):
    questions, answers = Path(folder, "q"), Path(folder, "a")
    while True:
        for question in sorted(questions.glob("[0-9]*.json")):
            target = answers / question.name
            if target.exists():
                continue
            try:
                reply = answer(json.loads(question.read_text()), mistakes)
            except Exception as error:
                print(f"{question.name}: {error!r}", file=sys.stderr, flush=True)
                reply = text(f"I cannot answer this: {error}")
            new = answers / f".{question.name}"
            new.write_text(json.dumps(reply, ensure_ascii=False))
            new.rename(target)
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1], "--mistakes" in sys.argv[2:])
