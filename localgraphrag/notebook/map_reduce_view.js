function render({ model, el: root }) {
  adopt(root);
  const title = el("h4");
  const told = el("div", { class: "lgr-muted" });
  const batches = el("div", { class: "lgr-batches" });
  const fates = el("div", { class: "lgr-fates" });
  const written = el("div", { class: "lgr-box lgr-written" });
  const last = () => model.get("data").stages.length - 1;
  const play = player(model, "stage", { last, label: "stage", describe: (now) => model.get("data").stages[now], milliseconds: 1600 });
  root.append(title, told, play.node, batches, fates, written);
  let points = new Map();

  const select = (key) => put(model, "selected", model.get("selected") === key ? "" : key);

  const pointButton = (point, stage) => {
    const fate = stage < 2 ? "" : point.taken ? `→ read as ${point.taken}` : point.reason ? `✗ ${point.reason}` : "";
    const kind = stage < 2 ? "" : point.taken ? " lgr-taken" : " lgr-dropped";
    const button = el(
      "button",
      { type: "button", class: `lgr-point${kind}`, onclick: () => select(point.key) },
      el("span", { class: "lgr-score", title: "score" }, String(point.score)),
      el("span", { dir: "auto" }, el("span", { class: "lgr-words" }, point.text), el("span", { class: "lgr-fate" }, fate)),
    );
    button.dataset.point = point.key;
    return button;
  };

  const batchBox = (batch, number, stage) => {
    const score = batch.error || (batch.score === null ? "not read" : `score ${batch.score}`);
    const passages = batch.passages.map(([id, name]) => {
      const node = el("li", { title: id }, name);
      node.dataset.passage = `${number} ${id}`;
      return node;
    });
    const bar = el("div", { class: "lgr-bar", "aria-hidden": "true" }, el("i", { style: `width:${batch.score ?? 0}%` }));
    const asked = stage > 0 ? [bar, batch.points.map((point) => pointButton(point, stage))] : [];
    return el("div", { class: "lgr-box" }, el("strong", {}, `batch ${number}${stage > 0 ? `: ${score}` : ""}`), el("ul", {}, passages), asked.flat());
  };

  const fateBox = (name, keys) => {
    const known = keys.map((key) => points.get(key)).filter(Boolean);
    return el("div", { class: "lgr-box" }, el("strong", {}, `${name} (${keys.length})`), known.map((point) => pointButton(point, 2)));
  };

  const paragraph = ({ heading, text, cites }) => {
    const { taken } = model.get("data");
    const marks = cites.map((number) => el("button", { type: "button", "aria-label": `point ${number}`, onclick: () => select(taken[number - 1]) }, `[${number}]`));
    const node = el("p", { dir: "auto" }, heading ? el("strong", {}, `${heading} `) : null, `${text} `, marks);
    node.dataset.cites = cites.map((number) => taken[number - 1]).join(" ");
    return node;
  };

  const draw = () => {
    const data = model.get("data");
    const stage = clamp(model.get("stage"), 0, last());
    points = new Map(data.batches.flatMap((batch) => batch.points).map((point) => [point.key, point]));
    title.textContent = data.title;
    const budgets = `a map call reads ${data.budgets.map_budget.toLocaleString("en")} tokens, the reduce call ${data.budgets.reduce_budget.toLocaleString("en")}`;
    told.textContent = `${data.told}: ${data.batches.length} batches, ${points.size} points; ${budgets}`;
    play.update();
    batches.replaceChildren(...data.batches.map((batch, at) => batchBox(batch, at + 1, stage)));
    fates.replaceChildren(...(stage < 2 ? [] : [fateBox("the reduce call reads, best first", data.taken), fateBox("dropped", data.dropped)]));
    const paragraphs = data.paragraphs.length ? data.paragraphs.map(paragraph) : [el("p", { dir: "auto" }, data.text)];
    written.hidden = stage < 3;
    written.replaceChildren(el("strong", {}, "the answer, and the numbers of the points it rests on"), ...paragraphs);
    choose();
  };

  const choose = () => {
    const key = model.get("selected");
    const point = points.get(key);
    const number = key.split(".")[0];
    for (const node of root.querySelectorAll("[data-point]")) {
      node.classList.toggle("lgr-chosen", node.dataset.point === key);
      node.setAttribute("aria-pressed", String(node.dataset.point === key));
    }
    for (const node of root.querySelectorAll("[data-passage]")) {
      const [batch, id] = node.dataset.passage.split(/ (.*)/s);
      node.classList.toggle("lgr-from", point !== undefined && batch === number && point.ids.includes(id));
    }
    for (const node of root.querySelectorAll("[data-cites]")) {
      node.classList.toggle("lgr-from", key !== "" && node.dataset.cites.split(" ").includes(key));
    }
  };

  stepKeys(root, model, "stage", last);
  draw();
  const ends = [watch(model, ["data", "stage"], draw), watch(model, ["selected"], choose)];
  return () => {
    play.stop();
    ends.forEach((end) => end());
  };
}

export default { render };
