"""CUDA kernels compiled for the CPU: their arithmetic and their indices, their barriers and warps, without a GPU.

Usually a block has one thread, which takes little time. With `whole_blocks`, on Linux, it has as many as it is launched
with, and what they do together, `__syncthreads`, `__shfl_xor_sync` and shared memory, works as on a GPU. They take
turns: a warp goes on until its threads wait for other warps, so that a barrier that is missing shows in the results.
"""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import graphs_of_cupy
import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")

whole_blocks = False

COMMON = """
#include <cmath>
#define __global__ static
#define __device__ static
using std::exp; using std::fmax; using std::sqrt;
struct Places { int x; };
static thread_local Places threadIdx{0}, blockDim{1}, blockIdx{0}, gridDim{1};
"""

ONE_THREAD = """
#define ON_CPU
template <class Body> static bool in_block(int, Body body) { body(); return true; }
"""

WHOLE_BLOCK = """
#include <functional>
#include <memory>
#include <vector>
#include <ucontext.h>
#define __shared__ static thread_local

enum State { RUNS, WAITS_FOR_WARP, WAITS_FOR_BLOCK, IS_DONE };
struct Thread { ucontext_t context; std::unique_ptr<char[]> stack; State state; };

static const int WARP = 32, STACK = 1 << 16;
static thread_local std::vector<Thread> threads;
static thread_local ucontext_t scheduler;
static thread_local std::function<void()> kernel;
static thread_local double exchanged[1024];

static void wait(State state) {
    Thread& own = threads[threadIdx.x];
    own.state = state;
    swapcontext(&own.context, &scheduler);
}

static void __syncthreads() { wait(WAITS_FOR_BLOCK); }

template <class T> static T __shfl_xor_sync(unsigned, T value, int distance) {
    exchanged[threadIdx.x] = value;
    wait(WAITS_FOR_WARP);
    const T other = (T)exchanged[threadIdx.x ^ distance];
    wait(WAITS_FOR_WARP);
    return other;
}

static void live() {
    kernel();
    threads[threadIdx.x].state = IS_DONE;
}

static bool all(int first, int last, State state) {
    for (int i = first; i < last; ++i) if (threads[i].state != state) return false;
    return true;
}

static void release(int first, int last) { for (int i = first; i < last; ++i) threads[i].state = RUNS; }

// Whether all threads came to their end; not so where some wait for others that do not come.
static bool in_block(int count, std::function<void()> body) {
    kernel = body;
    blockDim.x = count;
    threads.resize(count);
    for (Thread& thread : threads) {
        if (!thread.stack) thread.stack.reset(new char[STACK]);
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.get();
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = &scheduler;
        makecontext(&thread.context, live, 0);
    }
    release(0, count);
    do {
        for (int first = 0; first < count; first += WARP) {
            do {
                for (int i = first; i < first + WARP; ++i) {
                    threadIdx.x = i;
                    if (threads[i].state == RUNS) swapcontext(&scheduler, &threads[i].context);
                }
                if (!all(first, first + WARP, WAITS_FOR_WARP)) break;
                release(first, first + WARP);
            } while (true);
        }
        if (!all(0, count, WAITS_FOR_BLOCK)) return all(0, count, IS_DONE);
        release(0, count);
    } while (true);
}
"""

KERNEL = re.compile(r"__global__ void (\w+)\(([^)]*)\)")

C_TYPES = {
    np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.uint64: ctypes.c_ulonglong,
    np.float32: ctypes.c_float, np.float64: ctypes.c_double,
}  # fmt: skip


class RawModule:
    """What `cupy.RawModule` is for the code in `tinytensor/fast/kernels.cu`."""

    def __init__(self, code, options=()):
        shim = COMMON + (WHOLE_BLOCK if whole_blocks else ONE_THREAD)
        self._library = compiled(shim + code + "".join(_launcher(*found) for found in KERNEL.findall(code)))

    def get_function(self, name):
        run = getattr(self._library, f"run_{name}")
        run.restype = ctypes.c_bool

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

            def run_blocks():
                for i in range(grid[0]):
                    assert run(i, grid[0], block[0], *values), f"{name}: threads wait for others that do not come"

            graphs_of_cupy.later(run_blocks)

        return launch


def _launcher(name, parameters):
    """The function that runs one block of a kernel."""
    names = ", ".join(re.search(r"\w+$", parameter)[0] for parameter in parameters.split(","))
    return f"""
extern "C" bool run_{name}(int block, int blocks, int threads, {parameters}) {{
    blockIdx.x = block;
    gridDim.x = blocks;
    return in_block(threads, [&] {{ {name}({names}); }});
}}
"""


@functools.cache
def compiled(source):
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
