const pages = [...document.querySelectorAll("section")];
const shown = () => Math.min(pages.length, Math.max(1, Number(location.hash.slice(1)) || 1));

function turn(number) {
  const now = Math.min(pages.length, Math.max(1, number));
  history.replaceState(null, "", `#${now}`);
  pages.forEach((page, i) => page.classList.toggle("now", i === now - 1));
  byId("place").textContent = `${now} / ${pages.length}`;
  scrollTo(0, 0);
}

const KEYS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity };
addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  turn(shown() + KEYS[event.key]);
});
addEventListener("hashchange", () => turn(shown()));
byId("back").addEventListener("click", () => turn(shown() - 1));
byId("on").addEventListener("click", () => turn(shown() + 1));
document.body.classList.add("turned");
turn(shown());
