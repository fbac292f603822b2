#!/usr/bin/env python3
"""Writes the counts of a dialect's suites into its page: write_counts.py RESULTS PAGE [BLOCK].

RESULTS holds one JUnit file for each suite, and `suites.txt`, which the runner writes: a line `run NAME` for each suite that it begins,
`left out NAME` for each that it does not run, and `end` when it is through. A suite that was begun and has no counts, and a run without
its end, make this program fail before the page is changed. The counts stand between two marks of the page; BLOCK names the marks of a
second table. A test that did not pass is named with its reason, which comes from `reasons.json`, by `file::test` or by the name of the
test alone; a failure without a reason makes this program fail.
"""

import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def main() -> int:
    results, page = Path(sys.argv[1]), Path(sys.argv[2])
    block = "".join(f", {name}" for name in sys.argv[3:])
    begin, end = f"<!-- counts of tests/dialects{block} -->", f"<!-- end of counts{block} -->"
    reasons = json.loads((Path(__file__).parent / "reasons.json").read_text())
    suites, problems = read_suites(results)
    text = page.read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        problems.append(f"{page} has no place for counts: {begin}")
    if problems:
        print("\n".join(f"no counts were written: {problem}" for problem in problems), file=sys.stderr)
        return 1
    rows, missing, unexplained = [], [], 0
    for name, cases in sorted(suites.items()):
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        skipped = [case for case in cases if case.find("skipped") is not None]
        left_out = f", {len(skipped)} left out" if skipped else ""
        rows.append(f"| {name} | {len(cases) - len(bad) - len(skipped)} of {len(cases)}{left_out} |")
        for case in [*bad, *skipped]:
            told = case.find("skipped")
            test = case.get("name", "")
            full = f"{case.get('classname', '').rpartition('.')[2]}::{test}"
            reason = reasons.get(full) or reasons.get(test) or (told is not None and told.get("message")) or None
            unexplained += reason is None
            missing.append(f"| `{full if full in reasons else test}` | {reason or 'not explained yet'} |")
    lines = [begin, "", "| suite | passed |", "| --- | --- |", *rows, ""]
    if missing:
        lines += ["| did not pass | why |", "| --- | --- |", *sorted(set(missing)), ""]
    before, _, rest = text.partition(begin)
    page.write_text(before + "\n".join(lines) + end + rest.partition(end)[2])
    print("\n".join(rows))
    return 1 if unexplained else 0


def read_suites(results: Path) -> "tuple[dict[str, list[xml.Element]], list[str]]":
    """The test cases of each suite that was run, and what is missing."""
    suites: "dict[str, list[xml.Element]]" = {}
    told = results / "suites.txt"
    lines = told.read_text().splitlines() if told.exists() else []
    begun = [line.removeprefix("run ") for line in lines if line.startswith("run ")]
    problems = [] if lines[-1:] == ["end"] else [f"the run has no end; its last suite is {begun[-1] if begun else 'none'}"]
    for name in begun:
        try:
            suites[name] = xml.parse(results / f"{name}.xml").getroot().findall(".//testcase")
        except (OSError, xml.ParseError) as error:
            problems.append(f"the suite '{name}' was begun and has no counts: {error}")
    return suites, problems


if __name__ == "__main__":
    sys.exit(main())
