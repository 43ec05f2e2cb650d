"""Functions of arrays, written down as lists of lines: `tape.record`."""

from .tape import Line, NotRecorded, Recorded, Tape, record

__all__ = ["Line", "NotRecorded", "Recorded", "Tape", "record"]
