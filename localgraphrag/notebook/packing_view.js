const WORDS = {
  substitute: "The elements of a sub-community give way to its report",
  keep: "The elements of a sub-community stay",
  add: "A record enters the context",
  join: "One that says nothing new joins the record that says it",
  drop: "A record is left out",
  evict: "The last record is taken out again",
};

function render({ model, el: root }) {
  adopt(root);
  const title = el("h4");
  const why = el("div", { class: "lgr-why" });
  const whole = el("div");
  const wholeBar = el("div", { class: "lgr-bar", "aria-hidden": "true" });
  const used = el("div");
  const packed = el("div", { class: "lgr-packed", "aria-hidden": "true" });
  const columns = el("div", { class: "lgr-columns" });
  const last = () => model.get("data").steps.length;
  const play = player(model, "step", { last, label: "decision", describe: (now, end) => `${now} of ${end} decisions`, milliseconds: 450 });
  root.append(title, play.node, why, whole, wholeBar, used, packed, columns);

  const amount = (step) => (step.freed ? `${step.freed.toLocaleString("en")} → ` : "") + `${step.tokens.toLocaleString("en")} tokens`;

  const item = (at, now) => {
    const { steps, looks } = model.get("data");
    const [colour, mark] = looks[steps[at].kind];
    const text = steps[at].line || steps[at].name;
    const node = el("li", { title: steps[at].reason, tabindex: 0, onclick: () => put(model, "step", at + 1) });
    node.addEventListener("keydown", (event) => event.key === "Enter" && put(model, "step", at + 1));
    node.classList.toggle("lgr-now", at === now - 1);
    node.append(el("span", { style: `color:${colour}`, title: steps[at].kind }, mark), ` ${text} `, el("span", { class: "lgr-muted" }, amount(steps[at])));
    return node;
  };

  const column = (name, numbers, now) => {
    const items = numbers.map((at) => item(at, now));
    const box = el("div", { class: "lgr-box" }, el("strong", {}, `${name} (${items.length})`), el("ol", {}, items));
    return [box, items.find((node) => node.classList.contains("lgr-now"))];
  };

  const draw = () => {
    const { title: name, steps, frames, budget, looks } = model.get("data");
    const now = clamp(model.get("step"), 0, last());
    const [shown, replaced, out, tokens, planned] = frames[now];
    const step = steps[now - 1];
    title.textContent = name;
    play.update();
    why.replaceChildren(
      ...(step
        ? [el("strong", {}, `${WORDS[step.action]}: `), `${step.name} (${amount(step)}). `, el("span", { class: "lgr-muted" }, step.reason)]
        : ["Nothing is decided yet. First: does all that there is to tell fit the budget?"]),
    );
    const most = Math.max(frames[0][4], budget, 1);
    whole.textContent = `all that is to be told: ${planned.toLocaleString("en")} tokens; the budget is ${budget.toLocaleString("en")}`;
    wholeBar.replaceChildren(el("i", { style: `width:${(100 * planned) / most}%` }), el("span", { class: "lgr-limit", style: `left:${(100 * budget) / most}%` }));
    used.textContent = `in the context: ${tokens.toLocaleString("en")} of ${budget.toLocaleString("en")} tokens`;
    packed.replaceChildren(
      ...shown.map((at) => {
        const [colour, mark] = looks[steps[at].kind];
        const node = el("i", { style: `width:${(100 * steps[at].tokens) / Math.max(budget, 1)}%;background:${colour}`, title: steps[at].name, onclick: () => put(model, "step", at + 1) }, mark);
        node.classList.toggle("lgr-now", at === now - 1);
        return node;
      }),
    );
    const drawn = [column("in the context", shown, now), column("replaced by a report", replaced, now), column("left out", out, now)];
    const focused = columns.contains(document.activeElement);
    columns.replaceChildren(...drawn.map(([box]) => box));
    for (const [box, here] of drawn) {
      if (!here) continue;
      box.scrollTop = here.offsetTop - box.offsetTop - box.clientHeight / 2;
      if (focused) here.focus({ preventScroll: true });
    }
  };

  stepKeys(root, model, "step", last);
  draw();
  const end = watch(model, ["data", "step"], draw);
  return () => {
    play.stop();
    end();
  };
}

export default { render };
