function render({ model, el: root }) {
  adopt(root);
  const holders = new Map(); // by name of a condition: where its opened citation is shown

  const toggle = (key) => put(model, "opened", model.get("opened") === key ? "" : key);
  const buttonsOf = (key) => [...root.querySelectorAll("button[data-cite]")].filter((node) => node.dataset.cite === key);

  const cite = (key, text, label) =>
    el("button", { type: "button", class: "lgr-cite", "data-cite": key, "aria-label": label, title: label, onclick: () => toggle(key) }, text);

  function column(answer) {
    const titles = new Map(answer.citations.map((c) => [c.key, `source ${c.number}, ${c.kind}: ${c.title}`]));
    const paragraphs = answer.paragraphs.map((parts) =>
      el("p", { dir: "auto" }, parts.map((part) => (part.key ? cite(part.key, part.text, titles.get(part.key)) : part.text))),
    );
    const holder = el("div", { "aria-live": "polite" });
    holders.set(answer.name, holder);
    const list = answer.citations.map((c) => el("div", {}, cite(c.key, `[${c.number}]`, titles.get(c.key)), ` ${c.title}`));
    const sources = list.length ? el("details", {}, el("summary", {}, `${list.length} sources`), list) : null;
    return el("article", { class: "lgr-box", "aria-label": answer.name }, el("h4", {}, answer.name), el("div", { class: "lgr-muted" }, answer.about), paragraphs, sources, holder);
  }

  const failed = ({ name, error }) => el("article", { class: "lgr-box" }, el("h4", {}, name), el("p", {}, `No answer: ${error}`));

  function figures(data) {
    const head = el("tr", {}, data.heads.map((text, i) => el("th", { scope: "col", class: i ? "lgr-number" : null }, text)));
    const rows = data.answers.map((answer) =>
      el("tr", {}, el("th", { scope: "row" }, answer.name), answer.figures.map((text) => el("td", { class: "lgr-number" }, text))),
    );
    return el("table", {}, el("thead", {}, head), el("tbody", {}, rows));
  }

  function source(citation) {
    const close = el("button", { type: "button", "aria-label": "close the source", onclick: () => shut() }, "✕");
    const head = el("div", { class: "lgr-opened-head" }, el("strong", { dir: "auto" }, `[${citation.number}] ${citation.title}`), close);
    const passages = citation.passages.map((passage) => [
      el("div", { class: "lgr-muted" }, `${passage.title} (${passage.source})`),
      el("div", { class: "lgr-source", dir: "auto" }, passage.parts.map(([text, marked]) => (marked ? el("mark", {}, text) : text))),
    ]);
    const none = passages.length ? null : el("p", {}, "The index no longer holds its source.");
    const more = citation.more ? el("div", { class: "lgr-muted" }, `and ${citation.more} chunks more`) : null;
    const words = el("div", { class: "lgr-opened-words", tabindex: 0 }, passages.flat(), none, more);
    return el("div", { class: "lgr-opened", role: "region", "aria-label": `source ${citation.number}` }, head, words);
  }

  function shut() {
    const key = model.get("opened");
    put(model, "opened", "");
    buttonsOf(key)[0]?.focus();
  }

  function open() {
    const key = model.get("opened");
    for (const node of root.querySelectorAll("button[data-cite]")) {
      node.setAttribute("aria-expanded", String(node.dataset.cite === key));
      node.setAttribute("aria-pressed", String(node.dataset.cite === key));
    }
    for (const holder of holders.values()) holder.replaceChildren();
    for (const answer of model.get("data").answers) {
      const citation = answer.citations.find((c) => c.key === key);
      if (!citation) continue;
      const panel = source(citation);
      holders.get(answer.name).append(panel);
      const words = panel.lastChild;
      const first = words.querySelector("mark");
      if (first) words.scrollTop = Math.max(first.offsetTop - words.offsetTop - 60, 0);
      if (panel.isConnected) panel.scrollIntoView({ block: "nearest", behavior: stillness() ? "auto" : "smooth" });
    }
  }

  function draw() {
    const data = model.get("data");
    holders.clear();
    const answers = el("div", { class: "lgr-answers" }, data.answers.map(column), data.errors.map(failed));
    root.replaceChildren(el("h4", { dir: "auto" }, data.question), figures(data), answers);
    open();
  }

  const keys = (event) => {
    if (event.key !== "Escape" || !model.get("opened")) return;
    event.stopPropagation();
    shut();
  };
  root.addEventListener("keydown", keys);
  draw();
  const ends = [watch(model, ["data"], draw), watch(model, ["opened"], open)];
  return () => {
    root.removeEventListener("keydown", keys);
    ends.forEach((end) => end());
  };
}

export default { render };
