"""Reports as one page of HTML, which needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..pages.html_page import html_page, text_of
from .trying import Line

if TYPE_CHECKING:
    from .report_card import Report

MARKS = {"ok": "✓ ok", "failed": "✗ failed", "skipped": "○ skipped"}


def page(reports: Sequence[Report]) -> str:
    """The text of the page."""
    names = ", ".join(report.name for report in reports)
    contents = "".join(
        f'<li><a href="#op-{i}">{escape(report.name)}</a> {_counts(report)}</li>' for i, report in enumerate(reports)
    )
    several = f"<nav><ul>{contents}</ul></nav>" if len(reports) > 1 else ""
    body = "".join(_section(report, i) for i, report in enumerate(reports))
    style = text_of(__package__, "report.css")
    return html_page(
        f"Report: {escape(names)}", f"<main>{several}{body}</main>", {"ops": len(reports)}, style=style, script=""
    )


def _counts(report: Report) -> str:
    failed = len(report.failed)
    return f'<span class="badge {"failed" if failed else "ok"}">{f"{failed} failed" if failed else "all right"}</span>'


def _section(report: Report, number: int) -> str:
    rows = "".join(map(_row, report.lines))
    return (
        f'<section id="op-{number}"><h1>{escape(report.name)} {_counts(report)}</h1>'
        "<table><thead><tr><th>line</th><th>what was tried, on which input</th>"
        f"<th>what came out, and what to do</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _row(line: Line) -> str:
    on = f'<div class="on">{escape(line.on)}</div>' if line.on else ""
    advice = f'<div class="advice"><b>To do:</b> {escape(line.advice)}</div>' if line.advice else ""
    mark = f'<div class="mark">{MARKS[line.status]}</div>'
    return (
        f'<tr class="{line.status}"><th scope="row">{escape(line.name)}{mark}</th>'
        f"<td>{escape(line.tried)}{on}</td><td>{escape(line.found)}{advice}</td></tr>"
    )
