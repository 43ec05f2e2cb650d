"""How what is missing is installed: the extras of this distribution."""

import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def how_to_install(extra: str) -> str:
    """The command for an extra ("fast", "viz", ...): in a checkout its own, elsewhere that for the distribution."""
    checkout = os.path.isfile(os.path.join(ROOT, "pyproject.toml"))
    return f"pip install -e '.[{extra}]'" if checkout else f"pip install 'tinytensor-textbook[{extra}]'"
