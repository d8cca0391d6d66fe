// What all views share; each view's module begins with these lines. Text of documents only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML: `on*` attributes are listeners, true is an empty attribute, null and false are left out. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined)); // strings become text nodes
  return node;
}

/** Make an element a view's own: its style, and keys that JupyterLab would otherwise take for its commands. */
function adopt(root) {
  root.classList.add("lgr");
  root.setAttribute("data-lm-suppress-shortcuts", "true");
}

/** Call `draw` whenever one of the traits changes, from Python or from here; returns what ends that. */
function watch(model, names, draw) {
  const events = names.map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  return () => events.forEach((event) => model.off(event, draw));
}

/** Set a trait, here and in Python. */
function put(model, name, value) {
  if (model.get(name) === value) return;
  model.set(name, value);
  model.save_changes();
}

function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}

function stillness() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * A slider with buttons for back, on and play, bound to a trait that counts from 0 to `last()`.
 * Returns `{ node, update, stop }`: call `update` when the trait or `last` changes, `stop` when the view goes.
 */
function player(model, trait, { last, label, describe, milliseconds = 700 }) {
  let timer = null;
  const go = (step) => put(model, trait, clamp(step, 0, last()));
  const now = () => clamp(model.get(trait), 0, last());
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  };
  const start = () => {
    if (now() >= last()) go(0);
    play.textContent = "❚❚ pause";
    timer = setInterval(() => (now() < last() ? go(now() + 1) : stop()), milliseconds);
  };
  const slider = el("input", { type: "range", min: 0, "aria-label": label, oninput: () => go(Number(slider.value)) });
  const play = el("button", { type: "button", onclick: () => (timer === null ? start() : stop()) }, "▶ play");
  const back = el("button", { type: "button", "aria-label": "one back", onclick: () => go(now() - 1) }, "◀");
  const on = el("button", { type: "button", "aria-label": "one on", onclick: () => go(now() + 1) }, "▶");
  const told = el("span", { class: "lgr-told", "aria-live": "polite" });
  const update = () => {
    slider.max = last();
    slider.value = now();
    // not `disabled`: that would take the keys away from whoever has just reached an end
    back.setAttribute("aria-disabled", String(now() <= 0));
    on.setAttribute("aria-disabled", String(now() >= last()));
    told.textContent = describe(now(), last());
    slider.setAttribute("aria-valuetext", told.textContent);
  };
  return { node: el("div", { class: "lgr-player" }, back, slider, on, play, told), update, stop };
}

/** Left and right, Home and End step a trait from anywhere in the view, but where a key means something else. */
function stepKeys(root, model, trait, last) {
  root.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, [data-keys]") || event.altKey || event.ctrlKey || event.metaKey) return;
    const now = model.get(trait);
    const goal = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last() }[event.key];
    if (goal === undefined) return;
    put(model, trait, clamp(goal, 0, last()));
    event.preventDefault();
    event.stopPropagation();
  });
}
