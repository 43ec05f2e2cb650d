"""The pages of the API, by subject: whatever is public is on one of them, found by the module that defines it."""

from __future__ import annotations


def pages() -> dict[str, str]:
    return {"api/index.md": "# API\n"}
