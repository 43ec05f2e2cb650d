"""CUDA kernels compiled for the CPU, with one thread in a block: their arithmetic and their indices, without a GPU."""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")

SHIM = """
#include <cmath>
#define ON_CPU
#define __global__
#define __device__ static
using std::exp; using std::fmax; using std::sqrt;
struct Places { int x; };
static thread_local Places threadIdx{0}, blockDim{1}, blockIdx{0}, gridDim{1};
extern "C" void place(int block, int blocks) { blockIdx.x = block; gridDim.x = blocks; }
"""

C_TYPES = {
    np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.uint64: ctypes.c_ulonglong,
    np.float32: ctypes.c_float, np.float64: ctypes.c_double,
}  # fmt: skip


class RawModule:
    """What `cupy.RawModule` is for the code in `tinytensor/fast/kernels.cu`."""

    def __init__(self, code, options=()):
        self._library = _compiled(SHIM + code)

    def get_function(self, name):
        function = getattr(self._library, name)

        def launch(grid, block, arguments):
            assert all(size >= 1 for size in (*grid, *block)), "CUDA launches no empty grid"
            assert block[0] % 32 == 0
            assert block[0] <= 1024
            values = []
            for argument in arguments:
                if hasattr(argument, "data") and hasattr(argument, "shape") and not isinstance(argument, np.generic):
                    assert argument.flags.c_contiguous
                    values.append(ctypes.c_void_p(argument.data.ptr))
                else:  # a Python number would be passed as 64 bits, whatever the kernel expects
                    values.append(C_TYPES[type(argument)](argument.item()))
            for i in range(grid[0]):
                self._library.place(i, grid[0])
                function(*values)

        return launch


@functools.cache
def _compiled(source):
    folder = Path(tempfile.gettempdir()) / f"tinytensor-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = Path(own) / "kernels.so"
            command = [COMPILER, "-x", "c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-", "-o", str(made)]
            subprocess.run(command, input=source, text=True, check=True)
            made.replace(library)  # whole or not at all: several processes may compile it
    return ctypes.CDLL(str(library))
