"""Feedback for a student: a page of HTML, or the results.json of Gradescope."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tinytensor import testing
from tinytensor.pages.html_page import html_page, text_of

if TYPE_CHECKING:
    from .grading import Graded

SHOWN = 2000
"""The most characters of what a program printed that go back to its author."""


def page(homework: str, graded: Graded) -> str:
    """The text of a student's page, which needs no network."""
    rows = "".join(
        f'<tr class="{"ok" if mark.right else "failed"}"><th scope="row">{escape(mark.exercise)}'
        f'<div class="mark">{"✓ right" if mark.right else "✗ not yet"}</div></th>'
        f"<td>{mark.points:g} of {mark.of:g}</td><td>{escape(mark.words)}</td></tr>"
        for mark in graded.marks
    )
    head = "<thead><tr><th>exercise</th><th>points</th><th>what the check says</th></tr></thead>"
    title = f"{escape(homework)}: {escape(graded.student)}"
    told = f"<h2>It printed</h2><pre>{escape(printed(graded))}</pre>" if graded.printed else ""
    body = (
        f'<main><h1>{title} <span class="badge">{graded.points:g} of {graded.of:g} points</span></h1>'
        f"<table>{head}<tbody>{rows}</tbody></table>{told}</main>"
    )
    style = text_of(testing.__name__, "report.css") + "th:nth-child(2) { width: 6rem; } pre { white-space: pre-wrap; }"
    return html_page(title, body, {}, style=style, script="")


def gradescope(graded: Graded) -> dict[str, Any]:
    """The content of results.json (https://gradescope-autograders.readthedocs.io/en/latest/specs/)."""
    tests = [
        {
            "name": mark.exercise,
            "score": mark.points,
            "max_score": mark.of,
            "status": "passed" if mark.right else "failed",
            "output": mark.words,
            "output_format": "text",
        }
        for mark in graded.marks
    ]
    return {
        "score": graded.points,
        "execution_time": round(graded.seconds, 1),
        "output": printed(graded),
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def printed(graded: Graded) -> str:
    """The beginning of what a program printed."""
    rest = len(graded.printed) - SHOWN
    return graded.printed[:SHOWN] + (f"\n... and {rest} characters more" if rest > 0 else "")
