const MOST_LABELS = 40;

function render({ model, el: root }) {
  adopt(root);
  const data = model.get("data");
  const count = data.ids.length;
  const numberOf = new Map(data.ids.map((id, number) => [id, number]));
  const near = data.ids.map(() => []);
  for (const [source, target] of data.links) {
    near[source].push(target);
    near[target].push(source);
  }
  const byDegree = data.ids.map((_, number) => number).sort((a, b) => data.degrees[b] - data.degrees[a]);
  const extent = [0, 1].map((axis) => data.places.reduce((most, at) => Math.max(most, at[axis]), 0) || 1);
  const crowd = clamp(14 / Math.sqrt(count || 1), 0.42, 1.1);
  const camera = { x: 0, y: 0, scale: 1, whole: 1 }; // screen = place * scale + (x, y); `whole` shows everything
  let hovered = -1;
  let asked = 0;
  let fitted = false;

  const chosen = () => numberOf.get(model.get("selected")) ?? -1;
  const level = () => data.levels[model.get("level")];
  const facts = (number) => `${data.types[number]}, ${data.degrees[number]} neighbour${data.degrees[number] === 1 ? "" : "s"}`;
  const lookOf = (community) => data.looks[community % data.looks.length];
  const select = (number) => put(model, "selected", number < 0 ? "" : data.ids[number]);

  const canvas = el("canvas", {
    tabindex: 0,
    role: "application",
    "data-keys": "own",
    "aria-label": `Graph of ${count} entities. Arrow keys go to a neighbour, plus and minus zoom, 0 shows all, Home goes to the best-linked entity.`,
  });
  const button = (text, label, onclick) => el("button", { type: "button", "aria-label": label, title: label, onclick }, text);
  const zoomBar = el(
    "div",
    { class: "lgr-graph-zoom" },
    button("+", "zoom in", () => zoom(1.4)),
    button("−", "zoom out", () => zoom(1 / 1.4)),
    button("⤢", "show all", () => fit()),
  );
  const stage = el("div", { class: "lgr-graph-stage" }, canvas, zoomBar);

  const last = () => data.levels.length - 1;
  const slider = el("input", { type: "range", min: 0, max: Math.max(last(), 0), "aria-label": "level of the communities", oninput: () => put(model, "level", Number(slider.value)) });
  const levelTold = el("span", { class: "lgr-told" });
  const names = el("datalist", { id: `lgr-names-${Math.random().toString(36).slice(2)}` });
  names.append(...data.names.map((name) => el("option", { value: name })));
  const search = el("input", { type: "search", list: names.id, placeholder: "find an entity", "aria-label": "find an entity", onchange: () => find(search.value) });
  const detail = el("div", { "aria-live": "polite" });
  const legend = el("ul", { class: "lgr-graph-legend" });
  const side = el("div", { class: "lgr-graph-side" }, search, names, detail, el("h4", {}, "Communities"), legend);
  if (last() < 0) legend.previousSibling.remove();
  const levels = last() < 1 ? levelTold : el("div", { class: "lgr-player" }, el("span", {}, "coarse"), slider, el("span", {}, "fine"), levelTold);
  const hint = el("div", { class: "lgr-muted" }, "Drag to move; click a node to select it. With the picture in focus the wheel and + − zoom, and arrow keys go from neighbour to neighbour.");
  root.append(levels, el("div", { class: "lgr-graph" }, stage, side), hint);

  const find = (text) => {
    const number = data.names.findIndex((name) => name.toLowerCase() === text.trim().toLowerCase());
    if (number < 0) return;
    select(number);
    reveal(number, true);
  };

  // Places and the camera

  const at = (number) => [data.places[number][0] * camera.scale + camera.x, data.places[number][1] * camera.scale + camera.y];
  const size = () => [canvas.clientWidth, canvas.clientHeight];
  const radius = (number) => Math.min(3.2 + 1.7 * Math.sqrt(data.degrees[number]), 15) * crowd * clamp(Math.sqrt(camera.scale / camera.whole), 0.7, 2.4);

  function fit() {
    const [width, height] = size();
    camera.scale = camera.whole = Math.max(Math.min((width - 70) / extent[0], (height - 60) / extent[1]), 10);
    camera.x = (width - extent[0] * camera.scale) / 2;
    camera.y = (height - extent[1] * camera.scale) / 2;
    paintSoon();
  }

  function zoom(by, x = size()[0] / 2, y = size()[1] / 2) {
    const scale = clamp(camera.scale * by, camera.whole / 3, camera.whole * 40);
    camera.x = x - ((x - camera.x) * scale) / camera.scale;
    camera.y = y - ((y - camera.y) * scale) / camera.scale;
    camera.scale = scale;
    paintSoon();
  }

  function reveal(number, centre = false) {
    const [x, y] = at(number);
    const [width, height] = size();
    if (!centre && x > 30 && y > 30 && x < width - 30 && y < height - 30) return;
    camera.x += width / 2 - x;
    camera.y += height / 2 - y;
    paintSoon();
  }

  function nodeAt(x, y) {
    let best = -1;
    let nearest = Infinity;
    for (let number = 0; number < count; number++) {
      const [nx, ny] = at(number);
      const far = Math.hypot(nx - x, ny - y) - radius(number);
      if (far < 5 && far < nearest) [best, nearest] = [number, far];
    }
    return best;
  }

  /** The neighbour that lies most in a direction: near, and little to the side. */
  function neighbourTowards(from, dx, dy) {
    const [x, y] = at(from);
    let best = -1;
    let least = Infinity;
    for (const other of near[from]) {
      const [ox, oy] = at(other);
      const far = Math.hypot(ox - x, oy - y) || 1;
      const ahead = ((ox - x) * dx + (oy - y) * dy) / far;
      if (ahead > 0.38 && far / ahead ** 2 < least) [best, least] = [other, far / ahead ** 2];
    }
    return best;
  }

  // Painting

  const paintSoon = () => {
    if (!asked) asked = requestAnimationFrame(paint);
  };

  function background() {
    for (let node = root; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (colour && colour !== "transparent" && !/, 0\)$/.test(colour)) return colour;
    }
    return "white";
  }

  function outline(pen, x, y, r, shape) {
    if (!shape.length) {
      pen.moveTo(x + r, y);
      pen.arc(x, y, r, 0, 2 * Math.PI);
      return;
    }
    shape.forEach(([dx, dy], corner) => (corner ? pen.lineTo(x + r * dx, y + r * dy) : pen.moveTo(x + r * dx, y + r * dy)));
    pen.closePath();
  }

  function paint() {
    asked = 0;
    const [width, height] = size();
    if (!width || !height) return;
    const dense = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    const ink = getComputedStyle(root).color;
    const page = background();
    root.style.setProperty("--lgr-page", page);
    const selected = chosen();
    const lit = new Set(selected < 0 ? [] : [selected, ...near[selected]]);
    const places = data.ids.map((_, number) => at(number));
    paintLinks(pen, places, selected, ink);
    paintNodes(pen, places, lit, ink, width, height);
    for (const number of [selected, hovered]) if (number >= 0) ring(pen, places[number], radius(number), ink);
    paintNames(pen, places, selected, lit, ink, page, width, height);
  }

  function paintLinks(pen, places, selected, ink) {
    pen.strokeStyle = ink;
    for (const own of selected < 0 ? [false] : [false, true]) {
      pen.beginPath();
      for (const [source, target] of data.links) {
        if (own !== (selected >= 0 && (source === selected || target === selected))) continue;
        pen.moveTo(...places[source]);
        pen.lineTo(...places[target]);
      }
      pen.globalAlpha = own ? 0.8 : selected < 0 ? 0.2 : 0.1;
      pen.lineWidth = own ? 1.8 : 1;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** One path for each look, plain and faded. */
  function paintNodes(pen, places, lit, ink, width, height) {
    const current = level();
    const highlighted = current ? current.communities.findIndex((c) => c.id === model.get("highlighted")) : -1;
    const groups = new Map();
    for (let number = 0; number < count; number++) {
      const [x, y] = places[number];
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const community = current ? current.of[number] : 0;
      const faded = (lit.size && !lit.has(number)) || (highlighted >= 0 && community !== highlighted);
      const key = (community % data.looks.length) * 2 + (faded ? 0 : 1);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(number);
    }
    for (const key of [...groups.keys()].sort((a, b) => (a % 2) - (b % 2))) {
      const look = data.looks[key >> 1];
      pen.beginPath();
      for (const number of groups.get(key)) outline(pen, ...places[number], radius(number), look.shape);
      pen.globalAlpha = key % 2 ? 1 : 0.25;
      pen.fillStyle = look.colour;
      pen.strokeStyle = ink;
      pen.lineWidth = 0.7;
      pen.fill();
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function ring(pen, [x, y], r, ink) {
    pen.beginPath();
    pen.arc(x, y, r + 5, 0, 2 * Math.PI);
    pen.strokeStyle = ink;
    pen.lineWidth = 2.5;
    pen.stroke();
  }

  /** Names of what is in question, then of the best-linked that are in sight, where there is room for them. */
  function paintNames(pen, places, selected, lit, ink, page, width, height) {
    pen.font = `12px ${getComputedStyle(root).fontFamily}`;
    pen.textAlign = "center";
    pen.lineJoin = "round";
    const taken = [];
    const first = [hovered, selected, ...[...lit].sort((a, b) => data.degrees[b] - data.degrees[a])].filter((n) => n >= 0);
    const wanted = new Set([...first, ...(lit.size ? [] : byDegree)]);
    const most = Math.min(MOST_LABELS, 10 + (10 * camera.scale) / camera.whole);
    for (const number of wanted) {
      if (taken.length >= most) break;
      const [x, y] = places[number];
      if (x < 0 || y < 0 || x > width || y > height) continue;
      const name = data.names[number].length > 40 ? `${data.names[number].slice(0, 38)} …` : data.names[number];
      const wide = pen.measureText(name).width / 2 + 3;
      const middle = clamp(x, wide, Math.max(width - wide, wide));
      const off = radius(number) + (number === selected || number === hovered ? 11 : 6); // not into its ring
      const top = y - off < 14 ? y + off + 8 : y - off;
      const box = [middle - wide, top - 12, middle + wide, top + 4];
      const forced = number === selected || number === hovered;
      if (!forced && taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3])) continue;
      taken.push(box);
      pen.globalAlpha = 0.85;
      pen.strokeStyle = page;
      pen.lineWidth = 4;
      pen.strokeText(name, middle, top);
      pen.globalAlpha = 1;
      pen.fillStyle = ink;
      pen.fillText(name, middle, top);
    }
  }

  // What a reader does

  let drag = null;
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus();
    canvas.setPointerCapture(event.pointerId);
    drag = { from: point(event), camera: { ...camera }, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event);
    if (drag) {
      const [dx, dy] = [x - drag.from[0], y - drag.from[1]];
      drag.moved ||= Math.hypot(dx, dy) > 4;
      if (drag.moved) Object.assign(camera, { x: drag.camera.x + dx, y: drag.camera.y + dy });
      return paintSoon();
    }
    hover(nodeAt(x, y));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) select(nodeAt(...point(event)));
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("wheel", (event) => {
    if (canvas.getRootNode().activeElement !== canvas && !event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    zoom(Math.exp(-clamp(event.deltaY, -120, 120) / 300), ...point(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const act = { "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit, Home: () => go(byDegree[0] ?? -1), Escape: () => select(-1) }[event.key];
    if (!arrow && !act) return;
    event.preventDefault();
    event.stopPropagation();
    if (act) return act();
    go(chosen() < 0 ? byDegree[0] ?? -1 : neighbourTowards(chosen(), ...arrow));
  });

  function go(number) {
    if (number < 0) return;
    select(number);
    reveal(number);
  }

  function hover(number) {
    if (number === hovered) return;
    hovered = number;
    canvas.classList.toggle("lgr-near", number >= 0);
    canvas.title = number < 0 ? "" : `${data.names[number]} (${facts(number)})`;
    paintSoon();
  }

  // Words beside the picture

  function tellChosen() {
    const number = chosen();
    detail.replaceChildren();
    if (number < 0) return detail.append(el("p", { class: "lgr-muted" }, "Nothing is selected."));
    const community = level() ? level().of[number] : -1;
    detail.append(
      el("h4", {}, data.names[number]),
      el("div", { class: "lgr-muted" }, facts(number)),
    );
    if (community >= 0) detail.append(el("div", {}, markOf(community), ` ${level().communities[community].title}`));
    detail.append(el("p", { class: "lgr-graph-about", dir: "auto" }, data.about[number]));
    const others = near[number].map((other) => button(data.names[other], `go to ${data.names[other]}`, () => go(other)));
    detail.append(el("div", { class: "lgr-graph-near" }, others.slice(0, 30)));
    if (others.length > 30) detail.append(el("div", { class: "lgr-muted" }, `and ${others.length - 30} more`));
  }

  const markOf = (community) => el("span", { style: `color:${lookOf(community).colour}`, "aria-hidden": "true" }, lookOf(community).mark);

  function tellLevel() {
    const current = level();
    if (!current) return;
    slider.value = model.get("level");
    levelTold.textContent = `level C${model.get("level")}: ${current.communities.length} communities`;
    slider.setAttribute("aria-valuetext", levelTold.textContent);
    const highlighted = model.get("highlighted");
    const rows = current.communities.slice(0, data.legend).map((community, number) => {
      const pressed = community.id === highlighted;
      const press = () => put(model, "highlighted", pressed ? "" : community.id);
      return el("li", {}, el("button", { type: "button", "aria-pressed": String(pressed), onclick: press }, markOf(number), ` ${community.title} (${community.nodes})`));
    });
    const more = current.communities.length - rows.length;
    const focus = [...legend.querySelectorAll("button")].indexOf(legend.getRootNode().activeElement);
    legend.replaceChildren(...rows, ...(more > 0 ? [el("li", { class: "lgr-muted" }, `and ${more} smaller`)] : []));
    if (focus >= 0) legend.querySelectorAll("button")[focus]?.focus();
  }

  const ends = [
    watch(model, ["selected"], () => (tellChosen(), paintSoon())),
    watch(model, ["level", "highlighted"], () => (tellLevel(), tellChosen(), paintSoon())),
  ];
  const resized = new ResizeObserver(() => {
    if (!fitted && canvas.clientWidth) {
      fitted = true;
      fit();
    }
    paintSoon();
  });
  resized.observe(stage);
  const themed = new MutationObserver(paintSoon);
  themed.observe(document.body, { attributes: true });
  tellLevel();
  tellChosen();
  return () => {
    ends.forEach((end) => end());
    resized.disconnect();
    themed.disconnect();
    cancelAnimationFrame(asked);
  };
}

export default { render };
