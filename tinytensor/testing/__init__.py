"""Checks of ops: `report`, the report card of one, `check_op`, what its test consists of, `gradcheck`, `gradgradcheck`.

`python -m tinytensor.testing my_ops.py` prints the report of every op that a file declares.
"""

from typing import TYPE_CHECKING, Any

from .gradcheck import GradientError, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from .op_checks import check_op, kept_needed
    from .report_card import Report, report
    from .report_lines import Line

__all__ = ["GradientError", "Line", "Report", "check_op", "gradcheck", "gradgradcheck", "kept_needed", "report"]


def __getattr__(name: str) -> Any:
    """What checks ops is loaded when it is first asked for, not with the package."""
    if name in __all__:
        from . import op_checks, report_card, report_lines

        for module in (op_checks, report_card, report_lines):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
