"""How to install what is missing: the extras of this distribution."""

import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def how_to_install(extra: str) -> str:
    """The command that installs an extra ("fast", "viz", ...), from the checkout if there is one."""
    checkout = os.path.isfile(os.path.join(ROOT, "pyproject.toml"))
    return f"pip install -e '.[{extra}]'" if checkout else f"pip install 'tinytensor-textbook[{extra}]'"
