const still = matchMedia("(prefers-reduced-motion: reduce)");
const MEAN = "mean";

// What the reader has chosen outlives the page, which a run that goes on writes again and again.
const KEY = `tinytensor:${location.pathname}`;
const kept = (() => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
})();
function keep(name, value) {
  kept[name] = value;
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // a browser that stores nothing forgets the choice when the page is loaded again
  }
}

// ---- the steps of which something is known

const steps = [...new Set([...data.looks, ...data.samples].map((moment) => moment.step))].sort((a, b) => a - b);
const latest = (moments, step) => moments.filter((moment) => moment.step <= step).pop();
let at = kept.step === undefined ? steps.length - 1 : Math.max(0, steps.findLastIndex((step) => step <= kept.step));

function choose(place) {
  at = place;
  keep("step", at === steps.length - 1 ? undefined : steps[at]); // the last stays the last
  show();
}

// ---- attention

function weights(look) {
  const heads = look.layers[Number(byId("layer").value)];
  if (byId("head").value !== MEAN) return heads[Number(byId("head").value)];
  return heads[0].map((row, t) => row.map((_, s) => heads.reduce((sum, head) => sum + head[t][s], 0) / heads.length));
}

function colour(weight) {
  return ramp()[Math.round(Math.min(Math.max(weight, 0), 1) * (ramp().length - 1))];
}

function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

function fillMap(rows) {
  const title = (token, scope) => make("th", { scope, title: token }, token);
  const head = make("tr", {}, make("td", { class: "corner" }), ...data.source.map((token) => title(token, "col")));
  const lines = rows.map((row, t) => {
    const cells = row.map((weight, s) => {
      const style = `background: ${colour(weight)}; color: ${inkOn(colour(weight))}`;
      const words = `${data.said[t]} to ${data.source[s]}: ${weight.toFixed(3)}`;
      return make("td", { title: words, style }, weight < 0.005 ? "" : weight.toFixed(2).replace(/^0/, ""));
    });
    return make("tr", {}, title(data.said[t], "row"), ...cells);
  });
  byId("map").replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
  const clear = rows.reduce((sum, row) => sum + Math.max(...row), 0) / rows.length;
  byId("readout").textContent = `Rows say, columns are read. The largest weight of a row is ${clear.toFixed(2)} on average.`;
}

function fillStrip(now) {
  byId("strip").replaceChildren(
    ...data.looks.map((look) => {
      const button = make("button", { type: "button", "aria-pressed": look === now }, smallMap(weights(look), colour), `step ${look.step}`);
      button.addEventListener("click", () => {
        choose(steps.indexOf(look.step));
        byId("strip").querySelector("[aria-pressed=true]").focus();
      });
      return button;
    }),
  );
}

// ---- what stands in the page

function show() {
  byId("step").value = at;
  byId("step").setAttribute("aria-valuetext", `step ${steps[at]}`);
  byId("at").textContent = steps[at].toLocaleString("en");
  const samples = latest(data.samples, steps[at]);
  byId("samples").replaceChildren(...(samples ? samples.lines : []).map((line) => make("li", { dir: "auto" }, line)));
  const look = latest(data.looks, steps[at]);
  byId("attention").hidden = !look;
  if (look) {
    fillMap(weights(look));
    fillStrip(look);
  }
}

let timer = null;
function play() {
  if (timer !== null) {
    clearInterval(timer);
    timer = null;
  } else {
    if (at === steps.length - 1) choose(0);
    timer = setInterval(() => (at < steps.length - 1 ? choose(at + 1) : play()), still.matches ? 2000 : 600);
  }
  byId("play").textContent = timer === null ? "play" : "stop";
}

if (steps.length) {
  byId("moments").hidden = false;
  byId("step").max = steps.length - 1;
  byId("step").addEventListener("input", () => choose(Number(byId("step").value)));
  byId("play").addEventListener("click", play);
  if (data.looks.length) {
    const all = data.looks[0].layers;
    options(byId("layer"), all.map((_, i) => [String(i), String(i)]), kept.layer ?? String(all.length - 1));
    options(byId("head"), [[MEAN, "mean of all"], ...all[0].map((_, i) => [String(i), String(i)])], kept.head ?? MEAN);
    for (const id of ["layer", "head"]) byId(id).addEventListener("change", () => (keep(id, byId(id).value), show()));
  }
  dark.addEventListener("change", show);
  show();
}

if (data.live) {
  byId("again").hidden = false;
  byId("follow").checked = kept.follow ?? true;
  byId("follow").addEventListener("change", () => keep("follow", byId("follow").checked));
  setInterval(() => {
    if (byId("follow").checked && timer === null) location.reload();
  }, 5000);
}
