const shown = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "end";
const isStruck = ([, , , candidates]) => candidates.length > 0 && !candidates[0][2];
const isForced = ([, , chosen]) => chosen < 0;

function render({ model, el: root }) {
  adopt(root);
  const title = el("h4");
  const turns = el("div", { class: "lgr-turns", role: "group", "aria-label": "replies" });
  const reply = el("div", { class: "lgr-code lgr-reply", tabindex: 0, role: "group", "aria-label": "the reply, token by token; arrow keys step" });
  const choice = el("div", { class: "lgr-steps" });
  const passes = el("div", { class: "lgr-box" });
  const legend = el(
    "ul",
    { class: "lgr-legend" },
    el("li", {}, el("span", { class: "lgr-token" }, "chosen by the model")),
    el("li", {}, el("span", { class: "lgr-token lgr-forced" }, "forced by the grammar")),
    el("li", {}, el("span", { class: "lgr-token lgr-struck" }, "chosen after the likeliest was struck out")),
  );
  let steps = []; // of all replies together
  let firsts = []; // of each reply, its first step
  let tokens = [];
  let drawn = -1;

  const last = () => Math.max(steps.length - 1, 0);
  const play = player(model, "step", {
    last,
    label: "token",
    describe: (now, end) => `token ${now + 1} of ${end + 1}`,
    milliseconds: 250,
  });
  const jump = el("button", { type: "button", onclick: () => put(model, "step", nextStruck()) }, "next ✗");
  jump.title = "the next step at which the likeliest token was against the grammar";
  play.node.append(jump);
  root.append(title, turns, play.node, legend, reply, choice, passes);

  const nextStruck = () => {
    const now = model.get("step");
    const found = steps.findIndex((step, at) => at > now && isStruck(step));
    return found >= 0 ? found : Math.max(steps.findIndex(isStruck), 0);
  };
  const turnOf = (step) => firsts.findLastIndex((first) => first <= step);

  const load = () => {
    const data = model.get("data");
    title.textContent = data.title;
    steps = data.turns.flatMap((turn) => turn.steps);
    firsts = data.turns.map((_, number) => data.turns.slice(0, number).reduce((sum, turn) => sum + turn.steps.length, 0));
    turns.replaceChildren(
      ...data.turns.map((turn, number) =>
        el("button", { type: "button", onclick: () => put(model, "step", firsts[number]) }, `${number + 1}. ${turn.name} (${turn.steps.length})`),
      ),
    );
    jump.disabled = !steps.some(isStruck);
    drawn = -1;
    drawPasses(data);
    draw();
  };

  const drawPasses = (data) => {
    const lists = data.passes.map((found, number) => {
      const many = `${found.length} ${found.length === 1 ? "entity" : "entities"}`;
      const names = found.map(([name, type]) =>
        el("li", {}, el("span", { class: "lgr-span", style: `--lgr-colour:${data.kinds[type].colour};--lgr-line-style:${data.kinds[type].line}` }, `${data.kinds[type].mark} ${name}`), ` ${type}`),
      );
      return el("div", {}, number ? `gleaning ${number} adds ${many}` : `first pass: ${many}`, el("ul", { class: "lgr-legend" }, names));
    });
    passes.replaceChildren(el("strong", {}, "What each pass found"), ...lists);
  };

  const drawTurn = (number) => {
    const { turns: all } = model.get("data");
    tokens = (all[number]?.steps ?? []).map((step, at) =>
      el("span", { class: `lgr-token${isForced(step) ? " lgr-forced" : isStruck(step) ? " lgr-struck" : ""}`, onclick: () => put(model, "step", firsts[number] + at) }, step[0] || (at === all[number].steps.length - 1 ? "■" : "")),
    );
    reply.replaceChildren(...tokens);
    [...turns.children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === number)));
    drawn = number;
  };

  const draw = () => {
    const now = clamp(model.get("step"), 0, last());
    const number = turnOf(now);
    if (number !== drawn) drawTurn(number);
    tokens.forEach((node, at) => {
      node.classList.toggle("lgr-later", firsts[number] + at > now);
      node.classList.toggle("lgr-chosen", firsts[number] + at === now);
    });
    const here = tokens[now - firsts[number]];
    if (here) reply.scrollTop = here.offsetTop - reply.offsetTop - reply.clientHeight / 2;
    play.update();
    choice.replaceChildren(...describe(steps[now], model.get("data").turns[number]));
  };

  const describe = (step, turn) => {
    if (!step) return ["no reply was written"];
    const [text, allowed, chosen, candidates] = step;
    const back = turn.taken_back ? `In this reply ${turn.taken_back} tokens were written and taken back, since it repeated itself or reached its cap.` : "";
    if (isForced(step)) return [el("p", {}, "The grammar left one way on, so no token was asked for: ", el("code", {}, shown(text))), el("p", { class: "lgr-muted" }, back)];
    const rows = candidates.flatMap(([word, share, legal], at) => {
      const name = el("code", {}, shown(word));
      const told = `${(100 * share).toFixed(share < 0.01 ? 2 : 0)} %${legal ? "" : ", against the grammar"}${at === chosen ? ", chosen" : ""}`;
      const bar = el("div", { class: `lgr-bar${legal ? "" : " lgr-illegal"}` }, el("i", { style: `width:${100 * share}%` }), el("span", {}, told));
      return [el("div", {}, at === chosen ? "✓ " : legal ? "○ " : "✗ ", legal ? name : el("s", {}, name)), bar];
    });
    const head = `The grammar allows ${allowed.toLocaleString("en")} ${allowed === 1 ? "token" : "tokens"} here. The model's likeliest, before the grammar is asked:`;
    return [el("p", {}, head), el("div", { class: "lgr-choice" }, rows), el("p", { class: "lgr-muted" }, back)];
  };

  stepKeys(root, model, "step", last);
  load();
  const ends = [watch(model, ["data"], load), watch(model, ["step"], draw)];
  return () => {
    play.stop();
    ends.forEach((end) => end());
  };
}

export default { render };
