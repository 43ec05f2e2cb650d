"""Checks of ops: `report`, the report card of an op, `check_op`, its test, `gradcheck` and `gradgradcheck`.

`python -m tinytensor.testing my_ops.py` prints the report of every op that a file declares.
"""

from typing import TYPE_CHECKING, Any

from .gradcheck import GradientError, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from .op_checks import check_op, kept_needed
    from .report_card import Report, report
    from .trying import Line

__all__ = ["GradientError", "Line", "Report", "check_op", "gradcheck", "gradgradcheck", "kept_needed", "report"]


def __getattr__(name: str) -> Any:
    """Load the checks when they are first asked for, not with the package."""
    if name in __all__:
        from . import op_checks, report_card

        for module in (op_checks, report_card):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
