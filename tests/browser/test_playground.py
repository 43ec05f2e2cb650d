"""The page with an editor, with something in the place of Pyodide, whose NumPy comes from where no test asks."""

import functools
import http.server
import json
import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>weights</title><text>0.6 &lt; 1</text></svg>'
PYODIDE = """
export async function loadPyodide({ indexURL }) {
  const done = window.done = [indexURL];
  let write;
  return {
    loadPackage: async (names) => done.push(names.join()),
    unpackArchive: (buffer, format, { extractDir }) => done.push([buffer.byteLength > 1e5, format, extractDir].join()),
    setStdout: ({ batched }) => { write = batched; },
    runPythonAsync: async (code) => {
      if (code.includes("oops")) throw new Error("NameError: name 'oops' is not defined");
      write(`ran ${code.split("\\n").length} lines`);
    },
    runPython: () => JSON.stringify([PICTURE]),
  };
}
"""


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """`serve(pyodide)` writes the page and gives its address; what it may ask for is served beside it."""
    monkeypatch.syspath_prepend(str(SITE))
    handler = functools.partial(Silent, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"

    def serve(pyodide):
        import playground

        static = tmp_path / "_static"
        static.mkdir()
        (tmp_path / "py").mkdir()
        (tmp_path / "py" / "pyodide.mjs").write_text(PYODIDE.replace("PICTURE", json.dumps(PICTURE)))
        (static / "playground.js").write_bytes((SITE / "static" / "playground.js").read_bytes())
        monkeypatch.setenv("TINYTENSOR_PYODIDE", f"{address}/{pyodide}")
        playground.write(static)
        page = (ROOT / "docs" / "playground.md").read_text(encoding="utf-8")
        html = page.partition("```{raw} html\n")[2].partition("```")[0]
        (tmp_path / "index.html").write_text(f'<!doctype html><meta charset="utf-8"><title>x</title>{html}', "utf-8")
        return f"{address}/index.html"

    yield serve
    server.shutdown()
    server.server_close()
    sys.modules.pop("playground", None)


def run(browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.find_element("id", "run").click()
    WebDriverWait(browser, 20).until(lambda b: b.find_element("id", "run").is_enabled())
    return browser.find_element("id", "state").text, browser.find_element("id", "said").text


def write(browser, code):
    browser.execute_script("document.getElementById('code').value = arguments[0]", code)


def test_a_lesson_is_run_changed_and_shown(browser, serve):
    browser.get(serve("py"))
    lesson = (ROOT / "examples" / "lessons" / "01_dot_product.py").read_text(encoding="utf-8")
    assert browser.find_element("id", "code").get_property("value") == lesson
    assert browser.execute_script("return window.done") is None  # nothing is loaded unasked
    assert run(browser) == ("Done.", f"ran {len(lesson.splitlines()) + 1} lines")
    index, packages, archive = browser.execute_script("return window.done")
    assert index.endswith("/py/")
    assert (packages, archive) == ("numpy,scipy", "true,zip,/home/pyodide")
    figure = browser.find_element("css selector", "#pictures svg")
    assert figure.find_element("css selector", "text").text == "0.6 < 1"
    write(browser, "oops")
    assert run(browser) == ("It failed; what it said is below.", "NameError: name 'oops' is not defined")
    assert browser.find_elements("css selector", "#pictures svg") == []
    write(browser, "1\n2")
    assert run(browser) == ("Done.", "ran 2 lines")
    assert len(browser.execute_script("return window.done")) == 3  # loaded once
    browser.find_element("id", "again").click()
    assert browser.find_element("id", "code").get_property("value") == lesson


def test_an_address_without_pyodide_is_reported(browser, serve):
    browser.get(serve("nowhere"))
    state, said = run(browser)
    assert state == "It failed; what it said is below."
    assert "nowhere" in said
    browser.get_log("browser")  # what was not found is in the console as well


def test_the_archive_is_the_library(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import playground

    monkeypatch.delenv("TINYTENSOR_PYODIDE", raising=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        playground.write(tmp_path / name)
    sys.modules.pop("playground", None)
    archive = tmp_path / "one" / "tinytensor.zip"
    assert archive.read_bytes() == (tmp_path / "two" / "tinytensor.zip").read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    assert len(set(names)) == len(names)
    assert {"tinytensor/__init__.py", "tinytensor/nn/__init__.py", "tinytensor/models/__init__.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tinytensor/nn/nn")]
    settings = (tmp_path / "one" / "playground-settings.js").read_text(encoding="utf-8")
    assert json.loads(settings.removeprefix("window.PLAYGROUND = ").rstrip(";\n"))["pyodide"] == ""
    assert os.environ.get("TINYTENSOR_PYODIDE") is None
