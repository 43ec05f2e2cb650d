"""A checkout is one package, also without its links; importing a folder by itself is an error with the right import."""

import subprocess
import sys

import pytest

from ..commands import listed
from .conftest import ROOT, run

TOP_LEVEL = {
    ".ci", ".gitattributes", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md", "benchmarks", "docs", "examples", "models", "nn",
    "pyproject.toml", "setup.py", "tests", "tinytensor",
}  # fmt: skip
IN_A_DISTRIBUTION = {"PKG-INFO", "setup.cfg"}  # which setuptools adds

TRAINING = """
import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import models, nn
from tinytensor.models.data.batch import PAD
from tinytensor.nn import functional, visualize

assert F is functional is nn.functional
print(tt.__file__, nn.__file__, models.__file__, sep="\\n")

tt.manual_seed(0)
model = models.Transformer(7, d_model=8, num_heads=2, num_layers=1, dropout=0.0)
optimizer = nn.optim.Adam(model.parameters(), lr=0.01)
ids = tt.asarray([[1, 3, 4, 5], [1, 6, 5, 2]])
losses = []
for _ in range(3):
    loss = F.cross_entropy(model(ids, ids[:, :-1]).reshape(-1, 7), ids[:, 1:].reshape(-1), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
"""


def test_the_top_level_has_no_leftovers():
    try:
        names = run("git", "ls-files", cwd=ROOT).splitlines()
        allowed = TOP_LEVEL
    except (OSError, AssertionError):  # no git, or a source distribution
        names, allowed = listed(), TOP_LEVEL | IN_A_DISTRIBUTION
    assert {name.partition("/")[0] for name in names} - allowed == set()


def as_they_are(link):
    pass


def as_text(link):
    """What git writes where it may not make links."""
    target = str(link.readlink())
    link.unlink()
    link.write_text(target)


@pytest.mark.parametrize("links", [as_they_are, as_text, lambda link: link.unlink()], ids=["links", "text", "none"])
def test_a_checkout_trains_with_and_without_its_links(copy_of_tree, links, tmp_path):
    checkout = copy_of_tree()
    for name in ("nn", "models"):
        if not (checkout / "tinytensor" / name).is_symlink():
            pytest.skip("this tree has no links itself")
        links(checkout / "tinytensor" / name)
    printed = run(sys.executable, "-W", "error", "-c", TRAINING, cwd=tmp_path, PYTHONPATH=str(checkout)).splitlines()
    inside = checkout / "tinytensor" if links is as_they_are else checkout
    files = [checkout / "tinytensor", inside / "nn", inside / "models"]
    assert printed == [str(folder / "__init__.py") for folder in files]


@pytest.mark.skipif(not (ROOT / "nn").is_dir(), reason="the source distribution has no folders of its own for them")
@pytest.mark.parametrize("name", ["nn", "models"])
@pytest.mark.parametrize("statement", ["import {}", "from {} import Transformer", "import tinytensor, {}"])
def test_a_folder_by_itself_says_what_to_write(name, statement):
    command = [sys.executable, "-c", statement.format(name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: {name} is a part of tinytensor; write: from tinytensor import {name}"
