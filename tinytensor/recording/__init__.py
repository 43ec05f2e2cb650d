"""What is remembered of a computation beside its numbers: where each op was called, for pictures and for errors."""
