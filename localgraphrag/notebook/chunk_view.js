function spanStyle(kind, lane) {
  return `--lgr-colour:${kind.colour};--lgr-line-style:${kind.line};--lgr-lane:${lane}`;
}

function render({ model, el: root }) {
  const legend = el("div", { class: "lgr-legend", role: "group", "aria-label": "kinds, press to hide or show" });
  const text = el("div", { class: "lgr-text", dir: "auto", tabindex: 0, role: "group", "data-keys": true });
  const about = el("div", { class: "lgr-about", role: "status" });
  const title = el("h4");
  adopt(root);
  root.append(title, legend, text, about);
  let pieces = []; // of each span, its elements in the text

  const visible = () => {
    const { spans } = model.get("data");
    const hidden = model.get("hidden");
    return spans.map((span, number) => number).filter((number) => !hidden.includes(spans[number].kind));
  };

  const wrap = (words, over, kinds, spans, begun) => {
    let inner = document.createTextNode(words);
    for (const number of [...over].reverse()) {
      const span = spans[number];
      const kind = kinds.get(span.kind);
      const mark = begun.has(number) ? null : el("sup", { class: "lgr-mark", "aria-hidden": "true" }, kind.mark);
      begun.add(number);
      inner = el("span", { class: "lgr-span", style: spanStyle(kind, span.lane), title: `${span.label} (${span.kind})` }, mark, inner);
      inner.dataset.span = number;
      pieces[number].push(inner);
    }
    return inner;
  };

  const draw = () => {
    const data = model.get("data");
    const kinds = new Map(data.kinds.map((kind) => [kind.name, kind]));
    const hidden = model.get("hidden");
    title.textContent = data.title;
    text.setAttribute("aria-label", `${data.title || "text"}: ${data.spans.length} spans, arrow keys go from one to the next`);
    legend.replaceChildren(
      ...data.kinds.map((kind) => {
        const button = el("button", { type: "button", "aria-pressed": String(!hidden.includes(kind.name)), onclick: () => toggle(kind.name) });
        button.append(el("span", { class: "lgr-span", style: spanStyle(kind, 0) }, `${kind.mark} ${kind.name}`));
        return button;
      }),
    );
    pieces = data.spans.map(() => []);
    const shown = new Set(visible());
    const begun = new Set();
    text.replaceChildren(
      ...data.segments.map(([words, over]) => wrap(words, over.filter((number) => shown.has(number)), kinds, data.spans, begun)),
    );
    choose();
  };

  const toggle = (kind) => {
    const hidden = model.get("hidden");
    put(model, "hidden", hidden.includes(kind) ? hidden.filter((name) => name !== kind) : [...hidden, kind]);
    [...legend.children].find((button) => button.textContent.endsWith(` ${kind}`))?.focus();
  };

  const choose = () => {
    const { spans } = model.get("data");
    const chosen = model.get("selected");
    const span = spans[chosen];
    pieces.forEach((nodes, number) => {
      for (const node of nodes) {
        node.classList.toggle("lgr-chosen", number === chosen);
        node.classList.toggle("lgr-same", number !== chosen && span?.label === spans[number].label);
      }
    });
    about.textContent = span
      ? `${span.label} (${span.kind}), characters ${span.start} to ${span.end}${span.note ? `: ${span.note}` : ""}`
      : `${visible().length} spans marked; none selected`;
    if (span) reveal(pieces[chosen][0]);
  };

  const reveal = (node) => {
    if (!node) return;
    const place = node.getBoundingClientRect();
    const box = text.getBoundingClientRect();
    if (place.top < box.top || place.bottom > box.bottom) text.scrollTop += place.top - box.top - box.height / 3;
  };

  text.addEventListener("click", (event) => {
    const over = []; // from the innermost outwards
    for (let node = event.target; node !== text; node = node.parentNode) if (node.dataset?.span) over.push(Number(node.dataset.span));
    const at = over.indexOf(model.get("selected"));
    put(model, "selected", over.length ? over[(at + 1) % over.length] : -1);
  });
  text.addEventListener("keydown", (event) => {
    const order = visible();
    const at = order.indexOf(model.get("selected"));
    const goals = { ArrowRight: at + 1, ArrowLeft: at < 0 ? order.length - 1 : at - 1, Home: 0, End: order.length - 1 };
    if (event.key === "Escape") put(model, "selected", -1);
    else if (event.key in goals && order.length) put(model, "selected", order[clamp(goals[event.key], 0, order.length - 1)]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  draw();
  const ends = [watch(model, ["data", "hidden"], draw), watch(model, ["selected"], choose)];
  return () => ends.forEach((end) => end());
}

export default { render };
