// An editor with a lesson, and Python in WebAssembly to run it, which is loaded at the first run.

{
  const settings = window.PLAYGROUND;
  const byId = (id) => document.getElementById(id);
  const [code, said, pictures, state] = ["code", "said", "pictures", "state"].map(byId);

  // The text of each picture that the lesson has shown, as JSON.
  const SHOWN = [
    "import json",
    "shown = list(lesson.pictures.values()) if 'lesson' in globals() else []",
    "json.dumps([path.read_text(encoding='utf-8') for path in shown if path.suffix == '.svg'])",
  ].join("\n");

  let loading = null;

  /** Python with NumPy and the library, once for all runs. */
  async function load() {
    state.textContent = "Loading Python …";
    const { loadPyodide } = await import(new URL("pyodide.mjs", settings.pyodide).href);
    const python = await loadPyodide({ indexURL: settings.pyodide });
    state.textContent = "Loading NumPy …";
    await python.loadPackage(["numpy", "scipy"]);
    state.textContent = "Loading tinytensor …";
    const answer = await fetch(settings.archive);
    if (!answer.ok) throw new Error(`${settings.archive}: ${answer.status}`);
    python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/home/pyodide" });
    python.setStdout({ batched: (line) => said.append(`${line}\n`) });
    return python;
  }

  /** A picture of the library's, as an element: it is parsed as XML, so that no text in it is read as HTML. */
  function picture(text) {
    const figure = document.createElement("figure");
    figure.append(document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true));
    return figure;
  }

  async function run() {
    byId("run").disabled = true;
    said.replaceChildren();
    pictures.replaceChildren();
    said.hidden = false;
    try {
      loading ??= load().catch((error) => {
        loading = null; // the next try loads again
        throw error;
      });
      const python = await loading;
      state.textContent = "Running …";
      await python.runPythonAsync(code.value);
      pictures.replaceChildren(...JSON.parse(python.runPython(SHOWN)).map(picture));
      state.textContent = "Done.";
    } catch (error) {
      said.append(`${error.message}\n`);
      state.textContent = "It failed; what it said is below.";
    } finally {
      byId("run").disabled = false;
    }
  }

  code.value = settings.code;
  byId("run").addEventListener("click", run);
  byId("again").addEventListener("click", () => { code.value = settings.code; });
}
