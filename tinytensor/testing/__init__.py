"""Checks of gradients: `check_op`, what a new op's test consists of, `gradcheck` and `gradgradcheck`."""

from .check_op import check_op, kept_needed
from .gradcheck import GradientError, gradcheck, gradgradcheck

__all__ = ["GradientError", "check_op", "gradcheck", "gradgradcheck", "kept_needed"]
