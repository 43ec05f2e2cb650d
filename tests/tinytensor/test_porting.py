"""The report of what to write in a program for PyTorch: it names the lines that stop here, and no others."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn, porting
from tinytensor.models import data
from tinytensor.nn import functional as F
from tinytensor.nn import optim

ROOT = Path(__file__).parents[2]
HEAD = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset
"""
RUN = """
x.size()
x.size(0) + x.size(dim=1)
x.view(x.size(0), -1)
x.transpose(0, 1)
x.mean(0)
x.std(correction=1)
x.data.zero_()
w.weight.data.uniform_(-0.1, 0.1)
nn.init.zeros_(w.bias.data)
w.weight.data -= 0.1
torch.zeros((2, 3))
torch.ones(3)
torch.arange(6).reshape(2, 3)
torch.einsum("ij,jk->ik", x, x.T)
torch.tril(torch.ones((3, 3)), 1)
torch.sum(x, 1)
torch.no_grad()
torch.manual_seed(0)
nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))(x)
nn.MultiheadAttention(4, 2, batch_first=True)
F.softmax(x, dim=-1)
F.cross_entropy(x, torch.tensor([0, 1]), label_smoothing=0.1)
optim.AdamW(w.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
optim.lr_scheduler.StepLR(optim.SGD(w.parameters(), lr=0.1), step_size=1, gamma=0.7)
nn.utils.clip_grad_norm_(w.parameters(), 1.0)
DataLoader(TensorDataset(x), batch_size=1, shuffle=True)
"a b".split(" ", 1)
[1, 2].index(2)
{"a": 1}.get("a")
rng.standard_normal((2, 3))
np.cumsum([1, 2])
x.tolist()
""".strip().splitlines()
STOP = """
x.gather(1, i)
x.sum(dim=1)
x.sum(dim=1, keepdim=True)
x.std(-1)
x.var()
x.split(2, dim=1)
x.chunk(3, dim=-1)
x.repeat(2, 3)
x.softmax(dim=-1)
x.masked_fill_(x == 0, 1.0)
x.cuda()
x.type(torch.float32)
x.is_cuda
x.new_zeros(2)
torch.cat([x, x], dim=1)
torch.cat((x, x), 1)
torch.bmm(x, x)
torch.zeros(2, 3)
torch.randn(2, 3)
torch.randint(0, 5, (2, 3))
torch.randperm(4)
torch.multinomial(x, 1)
torch.from_numpy(np.ones(3))
torch.float
torch.long
torch.device("cpu")
torch.cuda.is_available()
torch.backends.cudnn.deterministic
torch.accelerator.is_available()
torch.save(w.state_dict(), "w")
torch.sum(x, dim=1)
torch.mean(x, dim=1, keepdim=True)
torch.optim.Adam(w.parameters())
torch.utils.data.DataLoader
torch.autograd.grad
torch.distributions.Categorical
torch.jit.script
nn.ReLU(inplace=True)
nn.Conv3d(1, 1, 1)
nn.LazyLinear(4)
F.softmax(x, axis=1)
F.relu(x, inplace=True)
optim.AdamW(w.parameters(), fused=True)
optim.LBFGS(w.parameters())
DataLoader(TensorDataset(x), num_workers=2)
""".strip().splitlines()
OTHER = """
torch.std(x)
torch.var(x)
torch.split(x, 1)
torch.equal(x, x)
torch.nonzero(x)
torch.meshgrid(torch.arange(3), torch.arange(2))
torch.linalg.solve(torch.eye(2), torch.ones((2, 2)))
x.max(1)
x.min(1)
x.sort(1)
""".strip().splitlines()
SAME = """
torch.std(x, correction=1)
torch.split(x, [1, 1])
torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
x.max()
""".strip().splitlines()


def runs(line):
    scope = {
        "torch": tt, "nn": nn, "F": F, "optim": optim, "DataLoader": data.DataLoader, "np": np,
        "TensorDataset": data.TensorDataset, "x": tt.asarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        "w": nn.Linear(3, 2), "i": tt.asarray([[0], [1]]), "rng": np.random.default_rng(0),
    }  # fmt: skip
    try:
        exec(line, scope)
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def findings(line):
    head = HEAD + "rng = np.random.default_rng(0)\n"
    return [finding for finding in porting.read(head + line) if finding.line > head.count("\n")]


@pytest.mark.parametrize("line", RUN + STOP + SAME)
def test_a_line_is_named_where_it_stops(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = findings(line)
    assert runs(line) is (not found), found
    assert (line in STOP) is bool(found)
    assert not any(finding.silent for finding in found)


@pytest.mark.parametrize("line", OTHER)
def test_a_line_that_gives_other_numbers_is_named(line):
    assert runs(line)
    assert [finding.silent for finding in findings(line)] == [True]


def test_what_is_said():
    said = [str(finding) for finding in findings("torch.cat([x.sum(dim=1, keepdim=True)], dim=1)\ny = x.max(1)")]
    assert said == [
        "9:1: torch.cat: tinytensor names it concat, as the array API does: tt.concat(tensors, axis=0)",
        "9:12: x.sum: got dim=; tinytensor names it axis, as the array API does; "
        "got keepdim=; tinytensor names it keepdims, as the array API does",
        "10:5: x.max: other numbers: values alone here, values and places in PyTorch; "
        "write x.amax(axis) and x.argmax(axis)",
    ]


def test_imports():
    source = """
import torch
import torch.optim as optim
from torch.nn import Linear as L, ReLU, Conv3d
import torchvision
"""
    assert [finding.advice for finding in porting.read(source)] == [
        "write import tinytensor as torch",
        "write import tinytensor.nn.optim as optim",
        "not in tinytensor, which is about attention and the Transformer; "
        "write from tinytensor.nn import Linear as L, ReLU",
        "it needs PyTorch itself",
    ]


def test_imports_of_everything_and_of_neighbours():
    assert [finding.advice for finding in porting.read("from torch.nn import *")] == [
        "write from tinytensor.nn import *"
    ]
    assert porting.read("from . import torch\nfrom .torch import nn\nfrom .torchvision import x\nnn.Conv9d()") == []


def test_methods_of_the_programs_own_classes_are_theirs():
    own = "class Text:\n    def gather(self, dim): ...\nText().gather(dim=1)"
    assert findings(own) == []
    assert len(findings("Text().gather(dim=1)")) == 1


def test_every_name_of_pytorchs_that_is_not_here_is_named():
    for file, place in (("torch_nn", "torch.nn"), ("torch_nn_functional", "torch.nn.functional"),
                        ("torch_optim", "torch.optim"), ("torch_utils_data", "torch.utils.data"),
                        ("torch_linalg", "torch.linalg"), ("torch_fft", "torch.fft")):  # fmt: skip
        names = (ROOT / "tests" / "names" / f"{file}.txt").read_text().split()
        ours = porting.import_module(porting.PLACES[place])
        for name in names:
            found = porting.read(f"import {place} as there\nthere.{name}")[1:]
            assert bool(found) is not hasattr(ours, name), (name, found)


def ask(*arguments):
    command = [sys.executable, "-m", "tinytensor.porting", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


def test_the_command(tmp_path):
    (tmp_path / "mine.py").write_text("import torch\nx = torch.randn(2, 3)\n", encoding="utf-8")
    (tmp_path / "ours.py").write_text("import tinytensor as tt\nx = tt.zeros((2, 3))\n", encoding="utf-8")
    (tmp_path / "wrong.py").write_text("import torch\nx = = 1\n", encoding="utf-8")
    code, text = ask(tmp_path / "mine.py", tmp_path / "ours.py")
    assert code == 1
    assert f"{tmp_path}/mine.py:2:5: torch.randn: tinytensor does without it; write tt.random.randn(2, 3)\n" in text
    assert "2 to write otherwise, 0 with other numbers\n" in text
    assert ask(tmp_path / "ours.py") == (0, "nothing to change\n")
    for wrong in (["none.py"], [tmp_path / "wrong.py"], [tmp_path], []):
        code, text = ask(*wrong)
        assert (code, text.count("\n")) == (2, 1), text
    assert "-m tinytensor.porting: none.py: No such file or directory" in ask("none.py")[1]
