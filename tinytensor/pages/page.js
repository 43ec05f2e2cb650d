"use strict";

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const dark = matchMedia("screen and (prefers-color-scheme: dark)");
const ramp = () => data.ramp[dark.matches ? "dark" : "light"];

/** An element of HTML, or of SVG; what is null in it is left out. */
const make = (tag, ...content) => filled(document.createElement(tag), ...content);
const makeSvg = (tag, ...content) => filled(document.createElementNS("http://www.w3.org/2000/svg", tag), ...content);
function filled(made, attributes = {}, ...inside) {
  const { style = "", ...others } = attributes;
  made.style.cssText = style; // a page's policy may refuse the attribute
  for (const [name, value] of Object.entries(others)) made.setAttribute(name, value);
  made.append(...inside.filter((part) => part !== null));
  return made;
}

/** Fill a choice with pairs of a value and its name; without the value `chosen`, the first one is chosen. */
function options(select, names, chosen) {
  select.replaceChildren(...names.map(([value, name]) => make("option", { value }, name)));
  select.value = names.some(([value]) => value === chosen) ? chosen : names[0][0];
}

/** A small picture of rows of weights, a pixel for each. */
function smallMap(rows, colour) {
  const made = make("canvas", { width: rows[0].length, height: rows.length });
  const context = made.getContext("2d");
  const fill = (weight, x, y) => {
    context.fillStyle = colour(weight);
    context.fillRect(x, y, 1, 1);
  };
  rows.forEach((row, y) => row.forEach((weight, x) => fill(weight, x, y)));
  return made;
}

// Content wider than its place fades out where it goes on.
const showWay = (place) => place.classList.toggle("goes-on", place.scrollLeft + place.clientWidth < place.scrollWidth - 2);
const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => showWay(target.closest(".scroll"))));
for (const place of document.querySelectorAll(".scroll")) {
  for (const one of [place, ...place.children]) sizes.observe(one);
  place.addEventListener("scroll", () => showWay(place), { passive: true });
}

