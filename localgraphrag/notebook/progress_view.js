function render({ model, el: root }) {
  adopt(root);
  const title = el("strong");
  const state = el("span", { "aria-live": "polite" });
  const stop = el("button", { type: "button", onclick: () => put(model, "stopping", true) }, "stop");
  const stages = el("div");
  const detail = el("div", { class: "lgr-muted" });
  const error = el("p", { class: "lgr-error", role: "alert", hidden: true });
  const failures = el("div");
  root.append(el("div", { class: "lgr-progress-head" }, title, state, stop), stages, detail, error, failures);
  const rows = new Map();

  function row(name) {
    const fill = el("i");
    const bar = el("div", { class: "lgr-bar", role: "progressbar", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
    const told = el("span");
    const node = el("div", { class: "lgr-stage" }, el("span", {}, name), bar, told);
    return { node, bar, fill, told };
  }

  function draw() {
    const data = model.get("data");
    const now = model.get("state");
    title.textContent = data.title;
    state.textContent = now === "running" && model.get("stopping") ? "stopping when the call at hand reports" : data.states[now];
    stop.hidden = now !== "running";
    stop.disabled = model.get("stopping");
    const names = data.stages.map((stage) => stage.name);
    for (const name of [...rows.keys()].filter((known) => !names.includes(known))) {
      rows.get(name).node.remove();
      rows.delete(name);
    }
    for (const stage of data.stages) {
      if (!rows.has(stage.name)) {
        rows.set(stage.name, row(stage.name));
        stages.append(rows.get(stage.name).node);
      }
      const { bar, fill, told } = rows.get(stage.name);
      const wandering = !stage.known && now === "running";
      bar.classList.toggle("lgr-unknown", wandering);
      fill.style.width = wandering ? "" : `${100 * stage.share}%`;
      if (stage.known) bar.setAttribute("aria-valuenow", Math.round(100 * stage.share));
      else bar.removeAttribute("aria-valuenow");
      bar.setAttribute("aria-valuetext", stage.told);
      told.textContent = stage.told;
    }
    const last = data.stages[data.stages.length - 1];
    detail.textContent = now === "running" && last && !last.told.includes(last.detail) ? last.detail : "";
    error.hidden = !data.message;
    error.textContent = data.message ? `It ended with an error: ${data.message}` : "";
    const lines = data.failures.map((line) => el("li", {}, line));
    failures.replaceChildren(...(lines.length ? [`${data.failed} failed, the latest:`, el("ul", {}, lines)] : []));
  }

  draw();
  return watch(model, ["data", "state", "stopping"], draw);
}

export default { render };
