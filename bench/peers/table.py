"""The measurements as a Markdown table: what Cellblock takes, and for the others how many times as much."""

from __future__ import annotations

import os
import platform
import textwrap
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rows import Row

COMMAND = "bench/peers/run --write-pages"


def markdown(results: list[dict], rows: list[Row]) -> str:
    notes: list[str] = []
    first = results[0]["rows"]
    lines = [
        "| | " + " | ".join(result["title"] for result in results) + " |",
        "| --- |" + " ---: |" * len(results),
    ]
    for row in rows:
        cells = [cell(result["rows"][row.key], first[row.key], row.unit, notes, result is results[0]) for result in results]
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{result['title']} ({result['version']})" for result in results)
    lines += ["", *(f"{mark(index)} {note}  " for index, note in enumerate(notes))]
    caption = (
        f"Medians of one run of `{COMMAND}` on {date.today()}: {os.cpu_count()} cores, Linux {platform.release()}. "
        f"In brackets: how many times as much as Cellblock. {versions}. "
        "Cellblock is driven through `cellblock pipe`, with JSON made and read by Python; all its protections are on, and it makes its checkpoints."
    )
    lines += ["", *textwrap.wrap(caption, 100, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def cell(found: dict, base: dict, unit: str, notes: list[str], is_base: bool) -> str:
    if "cannot" in found:
        return "—" + footnote(found["cannot"], notes)
    value = found["value"]
    if unit == "yes":
        return "yes" if value else "no"
    text = amount(value, unit)
    if not is_base and "cannot" not in base and base["value"]:
        text += f" ({ratio(value / base['value'])} ×)"
    return text + (footnote(found["note"], notes) if found["note"] else "")


def footnote(reason: str, notes: list[str]) -> str:
    if reason not in notes:
        notes.append(reason)
    return mark(notes.index(reason))


def mark(index: int) -> str:
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(index + 1))


def amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB"
    ms = value * 1e3
    if ms < 1:
        return f"{ms:.2f} ms"
    if ms < 100:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 10_000 else f"{value:.1f} s"


def ratio(times: float) -> str:
    if times >= 100:
        digits = 10 ** (len(str(int(times))) - 2)
        return str(round(times / digits) * digits)
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}" if times >= 0.1 else f"{times:.2f}"
