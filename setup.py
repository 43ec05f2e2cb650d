"""A build has tinytensor.nn and tinytensor.models also where their links are missing; pyproject.toml cannot say that.

Git on Windows writes small text files in the place of links unless it has the right to make them. An editable install
does without them (`tinytensor/__init__.py` looks beside itself); a wheel takes the folders that they point to.
"""

from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithoutLinks(build_py):
    """Takes `nn/` as tinytensor.nn and `models/` as tinytensor.models where the links are missing."""

    def finalize_options(self) -> None:
        if not self.editable_mode:
            for name in ("nn", "models"):
                if not (ROOT / "tinytensor" / name).is_dir():
                    inner = [f"tinytensor.{name}.{package}" for package in find_packages(str(ROOT / name))]
                    self.distribution.packages += [f"tinytensor.{name}", *inner]
                    self.distribution.package_dir[f"tinytensor.{name}"] = name
        super().finalize_options()


setup(cmdclass={"build_py": BuildWithoutLinks})
