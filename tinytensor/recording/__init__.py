"""The memory of a computation beside its numbers: where each op was called, for pictures and for errors."""

from .errors import explain_errors
from .record import detect_anomaly, named_scope, record

__all__ = ["detect_anomaly", "explain_errors", "named_scope", "record"]
