"""examples/classify_images.py as its user meets it."""

import re
import sys
from pathlib import Path

import pytest

from tests import processes
from tinytensor import nn

from .test_train_copy_task import STANDIN

SCRIPT = Path(__file__).parents[2] / "examples" / "classify_images.py"
QUICK = ["--images", "256", "--epochs", "1", "--out", "run"]
FILES = ["digits.svg", "filters.svg", "found.svg", "model.safetensors", "network.svg"]


def run(cwd, *arguments, env=None):
    command = [sys.executable, str(SCRIPT), *arguments]
    return processes.run(command, cwd=cwd, env=env, text=True)


def test_it_trains_reports_and_draws(tmp_path):
    result = run(tmp_path, *QUICK)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "256 images of 20 x 20 pixels, 13,066 weights"
    assert re.fullmatch(r"epoch 1/1: loss \d\.\d{4}, [\d,]+ images/s", lines[1])
    assert re.fullmatch(r"accuracy on 2,000 images never seen in training: \d+\.\d%", lines[2])
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == FILES
    assert nn.load(tmp_path / "run" / "model.safetensors")["0.weight"].shape == (16, 1, 5, 5)
    assert "Conv2d" in (tmp_path / "run" / "network.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_a_required_accuracy_its_code(tmp_path):
    results = [run(tmp_path, *QUICK[:-1], name, "--require-accuracy", "1") for name in ("one", "two")]
    assert [result.returncode for result in results] == [4, 4]
    assert re.fullmatch(
        r"classify_images.py: accuracy 0\.\d{4} is below the required 1.0", results[0].stderr.strip().splitlines()[-1]
    )
    one, two = (nn.load(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all((one[name].numpy() == two[name].numpy()).all() for name in one)


@pytest.mark.slow
def test_on_the_gpu(tmp_path):
    """On the stand-in for CuPy."""
    result = run(tmp_path, *QUICK, "--device", "gpu", env=processes.environment(STANDIN))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--device", "gpu"], "classify_images.py: device 'gpu' needs "),
        (["--images", "0"], "--images: must be at least 1"),
        (["--learning-rate", "nan"], "--learning-rate: must be a number above 0"),
        (["--require-accuracy", "98"], "--require-accuracy: must be from 0 to 1"),
        (["--out", "file/below"], "cannot write file"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, told):
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(tmp_path, *QUICK, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("classify_images.py: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
