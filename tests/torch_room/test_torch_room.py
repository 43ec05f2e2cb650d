"""`import tinytensor.torch as torch`: PyTorch's programs print PyTorch's numbers, and nobody else notices the room.

Everything runs in processes of its own, for a process that loads the room has it until it ends.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.marks import slow_after

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import ports  # noqa: E402


def run(*arguments, cwd=ROOT):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def says(code):
    """The output of a program of its own; its errors if it fails."""
    done = run("-c", textwrap.dedent(code))
    return done.stdout.strip() if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("program", slow_after(2, ports.programs()), ids=lambda program: program.stem)
def test_a_program_prints_the_numbers_of_pytorch(program):
    """Those that are kept, which PyTorch 2.13 printed."""
    kept = program.with_suffix(".txt").read_text(encoding="utf-8")
    assert ports.difference(kept, ports.output(program, *ports.HERE)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("program", ports.programs(), ids=lambda program: program.stem)
def test_what_is_kept_is_what_pytorch_prints(program):
    pytest.importorskip("torch")
    kept = program.with_suffix(".txt").read_text(encoding="utf-8")
    assert ports.difference(kept, ports.output(program)) == ""


VALUES = """
[0.1, 1e+17] [0.1]
[0.1] [0.0, 0.1, 0.2, 0.30000000000000004, 0.4]
[100000000000000000] (0.1+0.2j)
[0.1] [0.1]
[1.0, 2.0] [1]
[False, False, False, False, True] [False, False, False, True, True]
False False
[1.0, -2.5, 0.0]
[2, -2, 1] [789]
[5.0]
[1.0, 1.0, 1.0]
False True True
[3, 2]
[0, 1, 2, 3, 4]
object of type 'Stream' has no len()
"""


@pytest.mark.parametrize("module", ["tinytensor.torch", "torch"])
def test_values_are_those_of_pytorch(module):
    if module == "torch":
        pytest.importorskip("torch")
    done = run(Path(__file__).with_name("values.py"), module)
    assert done.stdout == VALUES.lstrip(), done.stderr


@pytest.mark.slow
def test_every_name_gives_what_pytorch_s_does_or_raises(request):
    pytest.importorskip("torch")
    share = "1" if request.config.getoption("--all") else "0.06"
    done = run(Path(__file__).with_name("every_name.py"), share, "0")
    *different, last = done.stdout.splitlines()
    assert different == []
    assert int(last.split()[1]) > 60_000 * float(share), done.stderr


@pytest.mark.slow
def test_keys_read_and_write_what_pytorch_s_do():
    pytest.importorskip("torch")
    drawn = Path(__file__).with_name("keys.py")
    found = run(drawn, "tinytensor.torch").stdout
    assert found.count("\n") > 1000
    assert found == run(drawn, "torch").stdout


def test_an_integer_selects_before_a_list_does():
    code = """
        import {} as torch
        x = torch.arange(24.0).reshape(2, 3, 4)
        x[0, :, [1, 2]] += 100
        print(tuple(x[0, :, [1, 2]].shape), x[0, :, [1, 2]].tolist()[2])
        import numpy as np
        print(np.asarray(x)[0, :, [1, 2]].shape)
    """
    assert says(code.format("tinytensor.torch")) == "(3, 2) [109.0, 110.0]\n(2, 3)"
    assert says(code.format("tinytensor").replace("x[0, :, [1, 2]].tolist()[2]", "0")) == "(2, 3) 0\n(2, 3)"


HELPER = """
def accuracy(logits, y):
    return (logits.max(1)[1] == y).float().mean().item()


def count(x):
    return x.size + 1, x.size(0), len(x.shape), x.max().item(), x.split(2)[0].tolist()
"""


@pytest.mark.parametrize("beside", [True, False])
def test_a_helper_that_names_nothing_speaks_as_its_program_or_says_so(beside, tmp_path, monkeypatch):
    """A module on the path as well: it is in no folder of the program."""
    folder = tmp_path / ("app" if beside else "lib")
    for place in {folder, tmp_path / "app"}:
        place.mkdir()
    (folder / "metrics.py").write_text(HELPER)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    program = "\nimport metrics\nx = torch.tensor([[1.0, 3.0], [9.0, 1.0], [0.0, 5.0]])\n"
    asks = "print(metrics.accuracy(x, torch.tensor([1, 0, 1])), eval('x.max(1)[1]', {'x': x}).tolist())\n"
    (tmp_path / "app" / "main.py").write_text(f"import torch{program}{asks}")
    assert run("-m", "tinytensor.torch", tmp_path / "app" / "main.py").stdout == "1.0 [1, 0, 1]\n"
    (tmp_path / "app" / "other.py").write_text(
        f"import tinytensor.torch as torch{program}print(metrics.count(x))\n{asks}"
    )
    done = run(tmp_path / "app" / "other.py")
    assert done.stdout == "(7, 3, 2, 9.0, [[1.0, 3.0], [9.0, 1.0]])\n"
    assert "x.max: PyTorch's and tinytensor's give different things" in done.stderr
    assert "write import tinytensor.torch as torch, or import tinytensor as tt, at its beginning" in done.stderr


def test_a_program_that_does_not_ask_sees_nothing_of_it():
    code = """
        import sys
        import tinytensor as tt
        from tinytensor import models, nn
        x = tt.asarray([[1.0, 2.0], [3.0, 5.0]])
        print([name for name in sys.modules if name.startswith(("tinytensor.torch", "torch"))])
        print(x.size, x.max(1).tolist(), type(x.device).__name__, hasattr(x, "split"))
        print(type(vars(tt.Tensor)["max"]).__name__)
    """
    assert says(code).splitlines() == ["[]", "4 [2.0, 5.0] Name False", "function"]


def test_other_modules_of_the_process_see_what_they_saw():
    code = """
        import tinytensor as tt
        import tinytensor.torch as torch
        ask = (
            "seen = x.size, x.max(1), x.std(correction=0).item(), hasattr(x, 'split'), "
            "str(type(x.device))"
        )
        x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
        other = {"__name__": "other", "tt": tt, "x": x}
        exec(ask, other)
        exec(ask)
        print(other["seen"][0], other["seen"][1].tolist(), round(other["seen"][2], 3), *other["seen"][3:])
        print(seen[0](0), seen[1].indices.tolist(), round(seen[2], 3), *seen[3:])
        try:
            exec("x.sum(dim=1)", other)
        except TypeError as error:
            print(error)
    """
    ours, theirs, error = says(code).splitlines()
    assert ours == "4 [2.0, 5.0] 1.479 False <class 'tinytensor.backend.Name'>"
    assert theirs == "2 [1, 1] 1.479 True <class 'tinytensor.torch.speaking.device'>"
    assert error == "sum: got dim=; tinytensor names it axis, as the array API does"


@pytest.mark.slow
def test_the_library_computes_the_same_where_the_room_is_loaded():
    code = """
        import warnings
        import tinytensor as tt
        from tinytensor import nn
        from tinytensor.models import Transformer
        from tinytensor.models.data.sequences import SequenceTask

        def bits():
            tt.manual_seed(0)
            task = SequenceTask("reverse", max_length=5)
            model = Transformer(task.vocabulary, d_model=16, num_heads=2, num_layers=1, dropout=0.1)
            norm = nn.BatchNorm1d(4)
            optimizer = nn.optim.AdamW([*model.parameters(), *norm.parameters()], lr=1e-2)
            for step in range(3):
                batch = task.training_batch(step, 8)
                logits = model(batch.source, batch.target_in)
                target = tt.asarray(batch.target_out).reshape(-1)
                loss = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target)
                loss = loss + (norm(tt.random.randn(8, 4)).std(0, correction=0) ** 2).sum()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            words = model.generate(batch.source).numpy()
            return [p.numpy().tobytes() for p in model.parameters()] + [words.tobytes(), loss.item()]

        warnings.simplefilter("error")  # a fast way that fails says so
        before = bits()
        import tinytensor.torch
        print(bits() == before)
    """
    assert says(code) == "True"


def test_install_lets_import_torch_find_the_room_and_refuses_beside_pytorch():
    code = """
        import sys, types
        import tinytensor.torch
        sys.modules["torch"] = types.ModuleType("torch")
        try:
            tinytensor.torch.install()
        except RuntimeError as error:
            print(error)
        del sys.modules["torch"]
        tinytensor.torch.install()
        tinytensor.torch.install()
        import torch, torch.nn as nn, torch.nn.functional as F, torch.utils.data
        from torch.optim.lr_scheduler import StepLR
        print(torch is tinytensor.torch, nn is torch.nn, F.relu(torch.zeros(1)).size())
    """
    refused, found = says(code).splitlines()
    assert refused == "install: PyTorch itself is loaded in this process; call install() before `import torch`"
    assert found == "True True torch.Size([1])"


def test_a_script_has_its_arguments_its_folder_and_its_own_traceback(tmp_path):
    (tmp_path / "helper.py").write_text("def rows(x):\n    return x.size(0)\n")  # it holds no name of the room
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\nfrom helper import rows\nprint(sys.argv[1:], __name__, rows(torch.ones(3, 2)))\n"
        "{}[torch.ones(1).item()]\n"
    )
    done = run("-m", "tinytensor.torch", script, "--lr", "1")
    assert done.stdout == "['--lr', '1'] __main__ 3\n"
    assert done.returncode == 1
    first, second = done.stderr.splitlines()[:2]
    assert first == "Traceback (most recent call last):"
    assert "script.py" in second
    assert "line 4" in second


def test_no_script_is_one_line_and_exit_code_2(tmp_path):
    for arguments in ((), (tmp_path / "none.py",)):
        done = run("-m", "tinytensor.torch", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("python -m tinytensor.torch: expected script.py and its arguments, got ")
        assert done.stderr.count("\n") == 1


def test_what_changes_nothing_is_told_once_at_the_line_of_the_program(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nfrom torch.utils.data import DataLoader\nfor _ in range(2):\n"
        "    DataLoader([1, 2], num_workers=2, pin_memory=True)\n"
    )
    told = [line for line in run("-m", "tinytensor.torch", script).stderr.splitlines() if "Warning" in line]
    assert len(told) == 1
    assert "script.py:4: UserWarning: DataLoader: num_workers, pin_memory change nothing here" in told[0]


def test_compile_is_that_of_the_library():
    code = """
        import tinytensor.torch as torch
        model = torch.compile(torch.nn.Linear(3, 3), mode="max-autotune")
        model(torch.ones(2, 3)).sum().backward()
        print(isinstance(model, torch.nn.Module), list(model.state_dict()), model.forward.why_not)
        model.compile()

        @torch.compile(fullgraph=True)
        def function(x, k):
            return x.sum(1, keepdim=True) * k

        print(function(torch.ones(2, 3), 2).tolist(), function.why_not)
    """
    assert says(code).splitlines() == ["True ['weight', 'bias'] None", "[[6.0], [6.0]] None"]


def test_what_is_not_there_says_so():
    code = """
        import tinytensor.torch as torch
        for ask in (
            lambda: torch.save(torch.nn.Linear(1, 1), "model.pt"), lambda: torch.nn.Conv3d, lambda: torch.jit,
            lambda: torch.multinomial(torch.zeros(3), 1), lambda: torch.cuda.Stream, lambda: torch.zeros(2).numpy_(),
        ):
            try:
                ask()
            except Exception as error:
                print(type(error).__name__, error)
    """
    whole, conv, jit, weights, stream, method = says(code).splitlines()
    assert whole == (
        "TypeError torch.save: a whole model would be a pickle, which runs code when loaded; save state_dict()"
    )
    assert conv == "AttributeError torch.nn.Conv3d is not in tinytensor; docs/left-out.md says what to use"
    assert jit.startswith("AttributeError ")
    assert weights.startswith("RuntimeError multinomial: weights must be finite")
    assert stream.startswith("AttributeError torch.cuda.Stream is not in tinytensor")
    assert method == "AttributeError 'Tensor' object has no attribute 'numpy_'"


def test_data_shares_memory_and_a_gradient_that_needs_the_old_values_notices():
    code = """
        import tinytensor.torch as torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        loss = (w * w).sum()
        w.data.mul_(3)
        print(w.tolist(), w.data.requires_grad, w.is_leaf)
        try:
            loss.backward()
        except RuntimeError as error:
            print("changed in place" in str(error))
    """
    assert says(code).splitlines() == ["[3.0, 6.0] False True", "True"]


def test_devices_of_a_gpu_by_pytorchs_names(tmp_path):
    """On the stand-in for CuPy."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import torch
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            model, x = torch.nn.Linear(3, 2).to(device), torch.randn(4, 3, device="cuda")
            on = [model(x), x.to("cuda:0"), x.cpu().cuda(), x.new_zeros(2), torch.zeros_like(x)]
            on += [torch.arange(3, device=0), x.median(1).values, x.mode(1).indices, x.sort().indices, x.var(1)]
            on += [x.unfold(1, 2, 1)]
            on += [torch.multinomial(x.abs(), 2), x.gather(1, x.argmax(1, True)), x.scatter(1, x.argmin(1, True), 1)]
            print({y.device.type for y in on}, x.is_cuda, x.device == device, f"{device}", x.to("cpu").device)
            model(x).sum().backward()
            torch.optim.Adam(model.parameters()).step()
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                print(model(x).dtype == torch.float16, next(model.to("cpu").parameters()).device)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "standin")])}
    command = [sys.executable, "-m", "tinytensor.torch", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == ["{'cuda'} True True cuda cpu", "True cpu"], done.stderr


STOPPED = {
    "from torch.distributed import init_process_group": "write tt.nn.distributed",
    "from torch.utils.tensorboard import SummaryWriter": "torch.utils.tensorboard is not in tinytensor",
    "class Double(torch.autograd.Function): pass": "torch.autograd.Function is not in tinytensor",
    "torch.save(torch.nn.Linear(1, 1), 'm.pt')": "torch.save writes no whole model",
    "model = torch.nn.Linear(1, 1); torch.save(model, 'm.pt')": "torch.save writes no whole model",
    "torch.ones(2).cholesky()": "a Tensor of tinytensor has no cholesky",
    "model = torch.nn.Linear(1, 1); torch.save(model.state_dict(), 'm.pt')": "",
    "torch.cat([torch.ones(2)], dim=0).size(0)": "",
}


@pytest.mark.parametrize("line", STOPPED)
def test_porting_says_that_a_program_runs_where_it_does(line, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import torch\n{line}\n")
    told = run("-m", "tinytensor.porting", script, cwd=tmp_path).stdout
    done = run("-m", "tinytensor.torch", script, cwd=tmp_path)
    assert ("it runs by" in told) == (done.returncode == 0) == (STOPPED[line] == "")
    assert STOPPED[line] in told
    assert ("script.py, line 2: " in told) == (STOPPED[line] != "")
