"""The time from a key to the picture in a live page, in headless Chromium, and the size of the page.

    python benchmarks/live_page.py --run runs/translation
    python benchmarks/live_page.py --keys 50

The page is that of a translator: of a run of train_translation.py, or, without one, of the toy preset's sizes with
weights as they are drawn first, which says as many words as it may. Keys are typed one after the other, each a token
more or less. Measured is the time from the event of a key until the browser has drawn the answer and all pictures.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from command_line import Parser, count, refuse, write_json

from tinytensor import models
from tinytensor.models.data.languages import ToyText
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.training.presets import PRESETS, make_model
from tinytensor.nn import visualize

SENTENCE = "the black cat eats the fresh bread "
WATCH = """
const spoken = speak;
window.speak = async () => {
  const start = window.event.timeStamp;
  await spoken();
  requestAnimationFrame(() => setTimeout(() => window.took.push(performance.now() - start)));
};
window.took = [];
"""
TAKEN = "const [n, done] = arguments; const look = () => (took.length > n ? done() : setTimeout(look)); look()"


def main() -> None:
    p = Parser(__doc__)
    p.add_argument("--run", type=Path, metavar="FOLDER", help="what train_translation.py wrote for a toy language")
    p.add_argument("--keys", type=count, default=20, help="how many to type")
    p.add_json()
    arguments = p.parse_args()
    figures = measured(arguments.run, arguments.keys)
    print(f"page: {figures['bytes'] / 1e6:.1f} MB")
    took = sorted(figures["milliseconds"])
    print(f"from a key to the picture: median {statistics.median(took):.0f} ms, longest {took[-1]:.0f} ms")
    write_json(arguments.json, figures)


def measured(run: Path | None, keys: int) -> dict[str, Any]:
    """The size of the page, and the milliseconds of each key."""
    model, text = translator(run)
    page = visualize.live(model, text, text=SENTENCE + ".")
    browser = chromium()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            page.save(path)
            browser.get(path.as_uri())
            browser.execute_script(WATCH)
            field = browser.find_element("id", "text")
            field.clear()
            field.send_keys(SENTENCE)
            browser.execute_script("window.took = []")
            for i in range(keys):
                field.send_keys("." if i % 2 == 0 else "\b")
                browser.execute_async_script(TAKEN, i)
            return {"bytes": path.stat().st_size, "milliseconds": browser.execute_script("return window.took")}
    finally:
        browser.quit()


def translator(run: Path | None) -> tuple[Any, Any]:
    if run is None:
        text = ToyText("en-fr")
        return make_model("transformer", *text.sizes, PRESETS["toy"], max_length=21, joint=False), text
    try:
        model = models.load(run)
    except PretrainedError as error:
        refuse(str(error))
    return model, model.tokenizer


def chromium() -> Any:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        refuse("selenium is not installed; run: pip install -e '.[browser]'")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        refuse("chromium or chromedriver is not installed (Debian: apt install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "window-size=1280,1400"):
        options.add_argument(f"--{switch}")
    return webdriver.Chrome(options=options, service=Service(driver))


if __name__ == "__main__":
    main()
