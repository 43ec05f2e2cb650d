"""What `import tinytensor` loads: NumPy, and nothing heavy besides."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = [
    "matplotlib",
    "scipy",
    "cupy",
    "cupyx",
    "numba",
    "graphviz",
    "pygraphviz",
    "tqdm",
    "safetensors",
    "pathlib",
    "dataclasses",
    "queue",
    "torch",
    "tinytensor.nn",
    "tinytensor.models",
]


LOADED = f"print([m for m in {FORBIDDEN} if m in sys.modules and m not in before])"


def run(code, *path):
    """Run code in a fresh interpreter that knows in `before` which modules NumPy loaded."""
    code = f"import sys, numpy; before = set(sys.modules)\n{code}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path)))}
    return subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)


def test_import_loads_nothing_heavy():
    result = run(f"import tinytensor; {LOADED}")
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_computing_loads_nothing_heavy():
    code = (
        "import tinytensor as tt\n"
        "x = tt.random.randn(3, 3).requires_grad_()\n"
        "tt.logsumexp(tt.tanh(x @ x)[0]).backward(); repr(x); tt.__array_namespace_info__().dtypes()\n"
        f"{LOADED}"
    )
    result = run(code)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.mark.parametrize("module", ["nn.visualize", "models.training.page"])
def test_pictures_that_are_no_graphs_load_no_graphs(module):
    """The package of graphs takes longer to load than all of `tinytensor`."""
    result = run(f"import tinytensor.{module}; print('tinytensor.graph' in sys.modules)")
    assert (result.stdout.strip(), result.stderr) == ("False", "")


def test_without_cupy_the_gpu_says_what_is_missing(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ModuleNotFoundError('not here', name='cupy')")
    code = (
        "import tinytensor as tt\n"
        "for make in (lambda: tt.ones(1, device='gpu'), lambda: tt.ones(1).to('gpu')):\n"
        "    try: make()\n"
        "    except tt.DeviceError as error: print(error)\n"
        "print(tt.__array_namespace_info__().devices())"
    )
    first, second, devices = run(code, tmp_path).stdout.strip().splitlines()
    assert first == second
    assert first.startswith("device 'gpu' needs CuPy, which is not installed; run: pip install -e '.[gpu]' (CUDA 12)")
    assert devices == "('cpu',)"


LIBRARY = "libcudart.so.12: cannot open shared object file"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"cupy.py": f"raise ImportError('{LIBRARY}')"}, f"ImportError: {LIBRARY}"),
        ({"cupy.py": "raise RuntimeError('two of them:\\n a, b')"}, "RuntimeError: two of them: a, b"),
        ({"cupy.py": "import cupy_backends_"}, "ModuleNotFoundError: No module named 'cupy_backends_'"),
        ({"cupy/left_over.txt": ""}, "ImportError: cannot import name 'arccos' from 'cupy'"),
        (
            {
                "cupy/__init__.py": "try: from cupy import _core\n"
                "except ImportError as e: raise ImportError('=\\nFailed to import CuPy.\\n=') from e",
                "cupy/_core.py": f"raise ImportError('{LIBRARY}')",
            },
            f"ImportError: {LIBRARY}",
        ),
    ],
)
def test_a_broken_cupy_says_what_is_wrong_with_it(tmp_path, files, told):
    if "cupy/left_over.txt" in files and importlib.util.find_spec("cupy") is not None:
        pytest.skip("a CuPy that is installed is found before a folder without code")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = (
        "import tinytensor as tt, runpy\n"
        "for make in (lambda: tt.ones(1, device='gpu'), lambda: tt.ones(1).to('gpu')):\n"
        "    try: make()\n"
        "    except tt.DeviceError as error: print(error)\n"
        "print(tt.__array_namespace_info__().devices())\n"
        "runpy.run_module('tinytensor')"
    )
    result = run(code, tmp_path)
    assert result.stderr == ""
    first, second, devices, *doctor = result.stdout.splitlines()
    assert first.startswith(f"device 'gpu' needs CuPy, and the one that is installed does not work ({told}")
    assert "made for the CUDA version that `nvidia-smi` tells" in first
    assert first == second
    assert devices == "('cpu',)"
    assert f"GPU:       {first}" in doctor


def put_cupy(folder, available):
    """The stand-in for CuPy, which says of a GPU what the expression gives."""
    for source in (ROOT / "tests" / "standin").rglob("*.py"):
        target = folder / source.relative_to(ROOT / "tests" / "standin")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace("is_available=lambda: True", f"is_available=lambda: {available}"))


def test_a_driver_that_fails_is_told(tmp_path):
    put_cupy(tmp_path, "1 / 0")
    result = run("import tinytensor as tt; tt.ones(1, device='gpu')", tmp_path)
    assert "the one that is installed does not work (ZeroDivisionError: division by zero)" in result.stderr


def test_without_a_gpu_cupy_is_not_enough(tmp_path):
    """CuPy can be imported on a machine without a GPU: nothing falls back to the CPU in silence."""
    put_cupy(tmp_path, "False")
    result = run("import tinytensor as tt; tt.ones(1, device='gpu')", tmp_path)
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert "device 'gpu' needs an NVIDIA GPU, and CuPy finds none" in last


@pytest.mark.parametrize(
    "module", ["engine", "functions.creation", "functions.elementwise", "functions.indexing", "tensor", "testing"]
)
def test_modules_can_be_imported_first(module):
    assert run(f"import tinytensor.{module}").stderr == ""


def test_whoever_installed_a_wheel_is_told_its_name(tmp_path, monkeypatch):
    from tinytensor.machine import extras

    assert extras.how_to_install("fast") == "pip install -e '.[fast]'"
    monkeypatch.setattr(extras, "ROOT", str(tmp_path))
    assert extras.how_to_install("fast") == "pip install 'tinytensor-textbook[fast]'"
