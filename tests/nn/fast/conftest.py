"""The tests of `nn/fast`, left out where it is not loaded."""

from tests.engine_room import room

collect_ignore_glob = [] if room("nn.fast") else ["test_*.py"]
