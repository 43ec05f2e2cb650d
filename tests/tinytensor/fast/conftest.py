"""The tests of `tinytensor/fast`, left out where it is not loaded."""

from tests.engine_room import room

collect_ignore_glob = [] if room("fast") else ["test_*.py"]
