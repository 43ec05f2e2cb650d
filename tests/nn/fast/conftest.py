"""The tests of `nn/fast`, left out where it is not loaded."""

import sys

collect_ignore_glob = [] if "tinytensor.nn.fast.optim" in sys.modules else ["test_*.py"]
