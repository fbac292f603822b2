#!/usr/bin/env python3
"""Writes the counts of a dialect's suites into its page: write_counts.py RESULTS PAGE.

RESULTS holds one JUnit file for each suite. The counts stand between two marks of the page. A test that did not pass is named with its
reason, which comes from `reasons.json`; a failure without a reason makes this program fail.
"""

import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

BEGIN, END = "<!-- counts of tests/dialects -->", "<!-- end of counts -->"


def main() -> int:
    results, page = Path(sys.argv[1]), Path(sys.argv[2])
    reasons = json.loads((Path(__file__).parent / "reasons.json").read_text())
    rows, missing, unexplained = [], [], 0
    for file in sorted(results.glob("*.xml")):
        cases = xml.parse(file).getroot().findall(".//testcase")
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        skipped = [case for case in cases if case.find("skipped") is not None]
        left_out = f", {len(skipped)} left out" if skipped else ""
        rows.append(f"| {file.stem} | {len(cases) - len(bad) - len(skipped)} of {len(cases)}{left_out} |")
        for case in [*bad, *skipped]:
            told = case.find("skipped")
            reason = reasons.get(case.get("name", "")) or (told is not None and told.get("message")) or None
            unexplained += reason is None
            missing.append(f"| `{case.get('name')}` | {reason or 'not explained yet'} |")
    lines = [BEGIN, "", "| suite | passed |", "| --- | --- |", *rows, ""]
    if missing:
        lines += ["| did not pass | why |", "| --- | --- |", *sorted(set(missing)), ""]
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + "\n".join(lines) + END + after)
    print("\n".join(rows))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
