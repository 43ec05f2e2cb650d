"""Checks of gradients: `check_op`, what a new op's test consists of, `gradcheck` and `gradgradcheck`."""

from typing import TYPE_CHECKING, Any

from .gradcheck import GradientError, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from .op_checks import check_op, kept_needed

__all__ = ["GradientError", "check_op", "gradcheck", "gradgradcheck", "kept_needed"]


def __getattr__(name: str) -> Any:
    """`check_op` and `kept_needed` are loaded when they are first asked for, not with the package."""
    if name in __all__:
        from . import op_checks

        return getattr(op_checks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
