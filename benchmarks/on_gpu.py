"""Everything that concerns a GPU, for a bare machine that has one for some minutes: it installs and fetches nothing.

    python benchmarks/on_gpu.py [--minutes 9] [--out runs/gpu]
    python benchmarks/on_gpu.py --stand-in     # without a GPU: that the steps run, on the stand-in for CuPy

Steps come in the order of their value: a report on the machine, training steps beside PyTorch's, the kernels and suites
of tests, decoding and long attention, the copy task, and the rest of the tests with the time that is left. A step has a
limit, and is left out if too few minutes are left for it, or if a library is missing. It writes into --out

    summary.txt     PASS, FAIL, SKIP or TIMEOUT, seconds and name: a line a step, written when it ends
    figures.json    the figures of the benchmarks, with date and device, rewritten after each step
    log.txt         the output of the steps

The exit code is 1 if a step failed or ran out of time.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from command_line import Parser, refuse

ROOT = Path(__file__).resolve().parents[1]
STAND_IN = ROOT / "tests" / "standin"
BENCHMARKS, EXAMPLES, TESTS = (ROOT / name for name in ("benchmarks", "examples", "tests"))
OWN = ("tinytensor/fast/test_kernels.py", "tinytensor/fast/test_cublas.py", "nn/test_compiled_step.py")
TRAITS = ("tinytensor/test_gpu_traits.py", "nn/test_amp.py", "nn/test_clip.py", "nn/test_optim.py")
OPS = ("tinytensor/test_ops.py", "nn/test_ops.py")
GRACE = 10  # seconds for a step to report its progress when its time is up


class Step(NamedTuple):
    """A command for this Python.

    Attributes:
        name: its name in the summary.
        limit: seconds before it is stopped.
        command: its arguments; for a benchmark `run` adds `--json` and the file for its figures.
        needs: modules that it needs; it is left out if one is missing.
        least: seconds that must be left for it to begin.
        figures: True if it is a benchmark.
    """

    name: str
    limit: float
    command: list[str]
    needs: tuple[str, ...] = ()
    least: float = 20.0
    figures: bool = False


# ---- the steps


def steps(stand_in: bool, scratch: Path) -> list[Step]:
    """All steps, the most valuable first."""
    found = [Step("doctor", 60, ["-m", "tinytensor"], least=0.0)]
    small, rounds = (["--shape", "2x4"], "1") if stand_in else ([], "3")
    peers = "eager,hand" if stand_in else "eager,hand,graphed"
    for kind, option in {"float32": [], "float16": ["--half"], "tf32": ["--medium"]}.items():
        for workload in ["copy"] if stand_in else ["copy", "m30k", "base"]:
            name = f"train-{workload}-{kind}"
            given = ["--workloads", workload, "--peers", peers, "--rounds", rounds, *small, *option]
            limit = 90 if workload == "copy" else 45  # the first step compiles the kernels
            found.append(_benchmark(name, limit, "train_step.py", *given, needs=("torch",)))
    found += _suites(stand_in)
    small = ["--layers", "2", "--size", "128", "--prompts", "2"] if stand_in else []
    for kind in ("gpt2", "llama"):
        given = ["--kinds", kind, "--rounds", rounds, *small]
        found.append(_benchmark(f"decode-{kind}", 60, "generation.py", *given, needs=("torch", "transformers")))
    given = ["--lengths", "256" if stand_in else "1024,4096,16384", "--rounds", rounds]
    found.append(_benchmark("attention", 45, "attention.py", *given, needs=("torch",)))
    given = ["--steps", "2"] if stand_in else ["--require-accuracy", "0.999"]
    script, out = str(EXAMPLES / "train_copy_task.py"), str(scratch / "copy-task")
    found.append(Step("copy-task", 90, [script, "--device", "gpu", "--out", out, *given], ("tqdm",)))
    if not stand_in:
        given = ["--workloads", "m30k", "--peers", "compile", "--half", "--rounds", rounds]
        needs = ("torch", "triton")
        found.append(_benchmark("train-m30k-compile", 90, "train_step.py", *given, needs=needs, least=45))
        found.append(_tests("rest", 3600, "tinytensor", "nn", "models", on="gpu", without=(*OWN, *TRAITS, *OPS)))
    return found


def _suites(stand_in: bool) -> list[Step]:
    """The tests of the GPU's own path, then the suites of all ops; on the stand-in, a part of the first."""
    if stand_in:
        return [_tests("kernels", 120, "tinytensor/fast/test_kernels.py", on="standin", only="adam or softmax")]
    return [
        _tests("kernels", 120, *OWN, on="gpu"),
        _tests("traits", 90, *TRAITS, on="gpu"),
        _tests("ops", 150, *OPS, on="gpu"),
    ]


def _benchmark(
    name: str, limit: float, script: str, *arguments: str, needs: tuple[str, ...] = (), least: float = 20.0
) -> Step:
    command = [str(BENCHMARKS / script), "--device", "gpu", "--anyway", *arguments]
    return Step(name, limit, command, needs, least, figures=True)


def _tests(
    name: str, limit: float, *places: str, on: str, only: str | None = None, without: tuple[str, ...] = ()
) -> Step:
    """A part of the suite; with pytest-xdist, on several processes that share the GPU."""
    settings = ["-o", "addopts=", "-q", "--strict-markers", "-p", "no:logging"]
    settings += ["-p", "no:benchmark", "-m", "not slow"]  # the plugin warns of xdist
    settings += ["--skip-missing", "--continue-on-collection-errors"]
    if _is_there("xdist"):
        settings += ["-n", "2" if on == "standin" else "6", "--dist", "worksteal"]
    chosen = ["-k", only] if only else [f"--ignore={TESTS / place}" for place in without]
    command = ["-m", "pytest", *settings, "--device", on, *chosen, *(str(TESTS / place) for place in places)]
    return Step(name, limit, command, ("pytest", "hypothesis"))


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


# ---- running them


class Report:
    """The files in --out. Each is whole after each step, whatever happens next."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log: TextIO = (folder / "log.txt").open("w", encoding="utf-8")
        self._summary: TextIO = (folder / "summary.txt").open("w", encoding="utf-8")
        self._file = folder / "figures.json"
        self._figures: dict[str, Any] = {**told, "steps": {}}
        self.failed = False
        self._say(", ".join(f"{key} {value}" for key, value in told.items()))

    def add(self, status: str, seconds: float, name: str, about: str = "", figures: Any = None) -> None:
        self.failed |= status in ("FAIL", "TIMEOUT")
        self._say(f"{status:7} {seconds:6.1f} s  {name:20} {about}".rstrip())
        self._figures["steps"][name] = {"status": status, "seconds": round(seconds, 1), "figures": figures}
        whole = self._file.with_suffix(".part")
        whole.write_text(json.dumps(self._figures, indent=1) + "\n", encoding="utf-8")
        whole.replace(self._file)

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *exception: object) -> None:
        self.log.close()
        self._summary.close()

    def _say(self, line: str) -> None:
        print(line, flush=True)
        self._summary.write(line + "\n")
        self._summary.flush()
        os.fsync(self._summary.fileno())


def run(step: Step, report: Report, ends: float, environment: dict[str, str], scratch: Path) -> None:
    """Run a step if possible, and report it."""
    missing = [module for module in step.needs if not _is_there(module)]
    left = ends - time.monotonic()
    if missing:
        report.add("SKIP", 0.0, step.name, f"{', '.join(missing)} is not installed")
        return
    if left < step.least:
        report.add("SKIP", 0.0, step.name, f"{max(left, 0.0):.0f} s are left, too few to begin it")
        return
    written = scratch / f"{step.name}.json"
    command = [sys.executable, *step.command, *(["--json", str(written)] if step.figures else [])]
    report.log.write(f"\n=== {' '.join(command)}\n")
    report.log.flush()
    begun, before = time.monotonic(), report.log.tell()
    code = _call(command, min(step.limit, left), report.log, environment)
    status = "TIMEOUT" if code is None else "PASS" if code == 0 else "FAIL"
    figures = json.loads(written.read_text(encoding="utf-8")) if written.exists() else None
    report.log.seek(0, os.SEEK_END)
    report.add(status, time.monotonic() - begun, step.name, _last_line(report.log.name, before), figures)


def _call(command: list[str], limit: float, log: TextIO, environment: dict[str, str]) -> int | None:
    """Run a command and return its exit code; None if its time was up. Ends every process that it started."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background; else children ignore it, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    options: Any = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **options)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # then pytest prints the failures so far
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(log: str, start: int) -> str:
    """The last line that a step printed, which shows its result."""
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").split("\n")
    told = [line.strip() for line in lines if line.strip()]
    return told[-1][:100] if told else ""


def device() -> str:
    """The GPU's name, from its driver."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "none"


def versions() -> str:
    """The versions of the libraries that are measured or compared with."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"Python {platform.python_version()}"]
    for name in ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "transformers", "numba"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def minutes(text: str) -> float:
    """An argument type: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number of minutes above 0, got {text!r}")
    return value


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--minutes", type=minutes, default=9.0, help="when to have ended (default 9)")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), metavar="FOLDER", help="default runs/gpu")
    parser.add_argument("--stand-in", action="store_true", help="on the stand-in for CuPy, where there is no GPU")
    parser.add_argument("--only", metavar="NAMES", help="steps, separated by commas (default: all)")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes
    if arguments.out.exists() and not arguments.out.is_dir():
        refuse(f"--out: expected a folder, but {arguments.out} is a file")
    if not arguments.stand_in and not _is_there("cupy"):
        refuse("CuPy is not installed; try the steps on the stand-in for it with --stand-in")
    paths = [str(ROOT), *([str(STAND_IN)] if arguments.stand_in else []), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        chosen = steps(arguments.stand_in, scratch)
        if arguments.only is not None:
            known = {step.name for step in chosen}
            if unknown := sorted(set(arguments.only.split(",")) - known):
                refuse(f"--only: expected some of {','.join(step.name for step in chosen)}, got {', '.join(unknown)}")
            chosen = [step for step in chosen if step.name in arguments.only.split(",")]
        told = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "device": "the stand-in for CuPy" if arguments.stand_in else device(),
            "versions": versions(),
        }
        with Report(arguments.out, told) as report:
            for step in chosen:
                run(step, report, ends, environment, scratch)
    raise SystemExit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
