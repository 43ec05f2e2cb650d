"""`python -m tinytensor.torch script.py [arguments]`: run a program for PyTorch as it is."""

import os
import sys
from types import ModuleType

import numpy as np

from . import install

if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
    met = "no file" if len(sys.argv) < 2 else f"{sys.argv[1]!r}, which is no file"
    print(f"python -m tinytensor.torch: expected script.py and its arguments, got {met}", file=sys.stderr)
    sys.exit(2)

sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
install()
np.seterr(all="ignore")  # PyTorch is silent where a logarithm of 0 is taken
main = sys.modules["__main__"] = ModuleType("__main__")
main.__file__ = sys.argv[0]
try:
    with open(sys.argv[0], "rb") as file:
        exec(compile(file.read(), sys.argv[0], "exec"), vars(main))
except Exception as error:
    trace = error.__traceback__
    error = error.with_traceback(trace and trace.tb_next)  # from the program's own first line on
    sys.excepthook(type(error), error, error.__traceback__)
    sys.exit(1)
