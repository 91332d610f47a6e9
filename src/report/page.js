"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");
const colours = ["--a", "--b", "--c", "--d", "--e", "--f"];
const colour = (i) => `var(${colours[i % colours.length]})`;

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "circle"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                   : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function section(title, note) {
  main.append(make("h2", {}, title));
  if (note) main.append(make("p", {}, note));
}

function short(x) {
  if (x === null || x === undefined || !isFinite(x)) return "-";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
}

// Round numbers within [low, high]; powers of ten when `log`.
function ticks(low, high, log) {
  if (log) {
    const list = [];
    const step = Math.max(1, Math.ceil((high - low) / 5));
    for (let e = Math.ceil(low); e <= high; e += step) list.push(e);
    if (list.length > 1) return list;
  }
  const raw = (high - low) / 4 || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= raw);
  const list = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step) list.push(x);
  return list;
}

// Lines over steps. series: [{name, x: [...], y: [...]}].
function chart(parent, title, series, { log = false, percent = false, axis = "step" } = {}) {
  const lines = series
    .map((s, i) => ({ ...s, colour: s.colour || colour(i),
      points: s.x.map((x, k) => [x, s.y[k]]).filter(([x, y]) =>
        x !== null && y !== null && y !== undefined && (!log || y > 0)) }))
    .filter((s) => s.points.length > 0);
  if (lines.length === 0) return;
  const W = 420, H = 220, L = 54, R = 10, T = 8, B = 26;
  const scale = (y) => (log ? Math.log10(y) : y);
  const all = lines.flatMap((s) => s.points);
  const xs = all.map((p) => p[0]), ys = all.map((p) => scale(p[1]));
  const x0 = Math.min(...xs), x1 = Math.max(...xs);
  let y0 = Math.min(...ys), y1 = Math.max(...ys);
  if (percent) { y0 = 0; y1 = 1; }
  if (y1 - y0 < 1e-12) { y0 -= log ? 0.5 : Math.abs(y0) * 0.1 + 1e-9; y1 += log ? 0.5 : Math.abs(y1) * 0.1 + 1e-9; }
  const px = (x) => L + ((x - x0) / (x1 - x0 || 1)) * (W - L - R);
  const py = (y) => H - B - ((scale(y) - y0) / (y1 - y0)) * (H - T - B);
  const label = (y) => percent ? `${short(100 * y)}%` : short(y);
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const t of ticks(y0, y1, log)) {
    const value = log ? 10 ** t : t;
    const y = py(value);
    svg.append(make("line", { x1: L, x2: W - R, y1: y, y2: y, stroke: "var(--line)" }),
      make("text", { x: L - 5, y: y + 4, "text-anchor": "end" }, label(value)));
  }
  for (const t of ticks(x0, x1, false)) {
    svg.append(make("text", { x: px(t), y: H - 8, "text-anchor": px(t) > W - 30 ? "end" : "middle" }, short(t)));
  }
  for (const s of lines) {
    const d = s.points.map(([x, y], k) => `${k ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
    svg.append(make("path", { d, fill: "none", stroke: s.colour, "stroke-width": 1.6 }));
    if (s.points.length === 1) {
      svg.append(make("circle", { cx: px(s.points[0][0]), cy: py(s.points[0][1]), r: 3, fill: s.colour }));
    }
  }
  const cursor = make("line", { y1: T, y2: H - B, stroke: "var(--faint)", visibility: "hidden" });
  svg.append(cursor);
  const readout = make("div", { class: "readout" });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = x0 + (((event.clientX - box.left) / box.width) * W - L) / (W - L - R) * (x1 - x0);
    const nearest = (s) => s.points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    const x = nearest(lines[0])[0];
    cursor.setAttribute("x1", px(x));
    cursor.setAttribute("x2", px(x));
    cursor.setAttribute("visibility", "visible");
    readout.textContent = `${axis} ${Math.round(x)}: ` + lines.map((s) => `${s.name} ${label(nearest(s)[1])}`).join(", ");
  });
  const legend = make("div", { class: "legend" });
  for (const s of lines) {
    const mark = make("i");
    mark.style.background = s.colour;
    legend.append(make("span", {}, mark, s.name));
  }
  parent.append(make("div", { class: "chart" }, make("h3", {}, title + (log ? " (log scale)" : "")), svg, legend, readout));
}

function table(head, rows, numbers = []) {
  const kind = (i) => numbers.includes(i) ? { class: "number" } : {};
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) =>
    cell instanceof Node ? make("td", kind(i), cell) : make("td", kind(i), String(cell)))));
  const table = make("table");
  if (head) table.append(make("tr", {}, ...head.map((name, i) => make("th", kind(i), name))));
  table.append(...body);
  const box = make("div", { class: "wide" }, table);
  main.append(box);
}

function facts() {
  const rows = data.facts.map(([name, value]) => [make("b", {}, name), value]);
  const result = data.result || {};
  if (typeof result.test_accuracy === "number") {
    rows.push([make("b", {}, "test"), `${(100 * result.test_accuracy).toFixed(4)}% of tokens, ` +
      `${short(100 * result.test_exact)}% of sequences, loss ${short(result.test_loss)}`]);
  }
  if (typeof result.seconds === "number") {
    rows.push([make("b", {}, "time"), `${result.steps} steps in ${result.seconds.toFixed(2)} s`]);
  }
  table(null, rows);
}

function curves() {
  const c = data.curves;
  if (!c || c.step.length === 0) return;
  section("Training");
  const grid = make("div", { class: "grid" });
  main.append(grid);
  chart(grid, "Loss", [{ name: "training", x: c.step, y: c.loss },
    { name: "validation", x: c.evaluated, y: c.validation_loss }], { log: true });
  chart(grid, "Accuracy on validation", [{ name: "tokens", x: c.evaluated, y: c.validation_accuracy },
    { name: "sequences", x: c.evaluated, y: c.validation_exact },
    { name: "chance", x: c.evaluated, y: c.evaluated.map(() => data.chance), colour: "var(--faint)" }], { percent: true });
  chart(grid, "Learning rate", [{ name: "lr", x: c.step, y: c.lr }]);
  chart(grid, "Gradient norm before clipping", [{ name: "all parameters", x: c.step, y: c.grad_norm }], { log: true });
}

function norms() {
  const frames = data.film ? data.film.frames : [];
  if (frames.length < 2 || frames[0].groups.length === 0) return;
  section("Layers");
  const grid = make("div", { class: "grid" });
  main.append(grid);
  const groups = frames[0].groups;
  const steps = frames.map((f) => f.step);
  const lines = (value) => groups.map((name, g) => ({ name, x: steps, y: frames.map((f) => value(f.norms[g])) }));
  chart(grid, "Gradient norm", lines((n) => n[0]), { log: true });
  chart(grid, "Update over weight, of one step", lines((n) => n[2] / n[1]), { log: true });
  chart(grid, "Weight norm", lines((n) => n[1]));
}

function bytes(text) {
  const raw = atob(text);
  return Uint8Array.from(raw, (c) => c.charCodeAt(0));
}

function attention() {
  const film = data.film;
  if (!film) return;
  const thinned = [];
  if (film.every > 1) thinned.push(`every ${film.every}th evaluation`);
  if (film.positions < film.of) thinned.push(`the first ${film.positions} of ${film.of} positions`);
  section("Attention", "Each map: queries downwards, keys across, weights from 0 to 1" +
    (thinned.length ? `. Shown: ${thinned.join(", ")}.` : "."));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const slider = make("input", { type: "range", min: 0, max: film.frames.length - 1, value: film.frames.length - 1, "aria-label": "frame" });
  const step = make("span", { class: "readout" });
  const play = make("button", {}, "Play");
  const probe = make("select", { "aria-label": "probe" }, ...film.probes.map((p, i) =>
    make("option", { value: i }, `probe ${i + 1}: ${p.source.join("").slice(0, 24)}`)));
  main.append(make("div", { class: "controls" }, probe, slider, step, play));
  const box = make("div", { class: "maps" });
  main.append(box);
  let shown = [];
  function draw() {
    const frame = film.frames[Number(slider.value)];
    step.textContent = `step ${frame.step}`;
    for (const one of shown) {
      one.values = bytes(frame.maps[one.index]);
      const picture = one.context.createImageData(one.map.columns, one.map.rows);
      one.values.forEach((v, i) => {
        const t = Math.sqrt(v / 255);
        const [from, to] = dark.matches ? [[26, 34, 44], [150, 205, 255]] : [[243, 246, 251], [8, 48, 124]];
        for (let k = 0; k < 3; ++k) picture.data[4 * i + k] = from[k] + t * (to[k] - from[k]);
        picture.data[4 * i + 3] = 255;
      });
      one.context.putImageData(picture, 0, 0);
    }
  }
  function choose() {
    box.replaceChildren();
    shown = [];
    const labels = film.probes[Number(probe.value)];
    film.maps.forEach((map, index) => {
      if (map.probe !== Number(probe.value)) return;
      const canvas = make("canvas", { width: map.columns, height: map.rows, role: "img", "aria-label": map.name });
      const readout = make("div", { class: "readout" });
      const one = { index, map, values: [], context: canvas.getContext("2d") };
      canvas.addEventListener("pointermove", (event) => {
        const area = canvas.getBoundingClientRect();
        const s = Math.min(map.columns - 1, Math.floor((event.clientX - area.left) / area.width * map.columns));
        const t = Math.min(map.rows - 1, Math.floor((event.clientY - area.top) / area.height * map.rows));
        const query = (labels.target || labels.source)[t];
        const key = (map.cross || !labels.target ? labels.source : labels.target)[s];
        readout.textContent = `query ${t} "${query}" to key ${s} "${key}": ${(one.values[t * map.columns + s] / 255).toFixed(2)}`;
      });
      box.append(make("div", { class: "map" }, make("h3", {}, map.name), canvas, readout));
      shown.push(one);
    });
    draw();
  }
  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (Number(slider.value) === film.frames.length - 1) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      draw();
      if (Number(slider.value) === film.frames.length - 1) play.click();
    }, 200);
  });
  slider.addEventListener("input", draw);
  probe.addEventListener("change", choose);
  dark.addEventListener("change", draw);
  choose();

  if (film.frames.length < 2) return;
  section("Heads", "Means over the queries of up to 32 sequences.");
  const grid = make("div", { class: "grid" });
  main.append(grid);
  const steps = film.frames.map((f) => f.step);
  ["Entropy of the weights, in nats", "Weight on the token before", "Weight on the first token",
    "Induction: weight on what followed the token's last occurrence"].forEach((title, k) => {
    chart(grid, title, film.heads.map((name, h) => ({ name, x: steps, y: film.frames.map((f) => f.scores[h][k]) })));
  });
}

function samples() {
  section("Samples");
  const mono = (text) => make("span", { class: "mono" }, text);
  // Only what differs from the answer is marked.
  const marked = (sample) => {
    const node = make("span", { class: "mono" });
    const wanted = [...sample.wanted];
    [...sample.found].forEach((c, i) => node.append(c === wanted[i] ? c : make("span", { class: "wrong" }, c)));
    return node;
  };
  table(["input", "prediction", "answer", ""], data.samples.map((s) => [mono(s.input), marked(s), mono(s.wanted),
    make("span", { class: s.right ? "right" : "wrong" }, s.right ? "\u2713" : "\u2717")]));
  const grid = make("div", { class: "grid" });
  main.append(make("p"), grid);
  chart(grid, `Accuracy by position, over ${data.position_sequences} sequences`,
    [{ name: "tokens right at each position", x: data.positions.map((_, i) => i), y: data.positions }], { percent: true, axis: "position" });
}

function gradients() {
  const g = data.gradcheck;
  if (!g) return;
  if (typeof g === "string") { section("Gradients", g); return; }
  section("Gradients", `${g.status}: worst error ${short(g.worst)} of the largest gradient, ${g.compared} random ` +
    `directions compared with differences in f64, ${g.evaluations} evaluations, ${g.seconds.toFixed(2)} s.`);
  const fold = make("details", {}, make("summary", {}, "every parameter"));
  const before = main.lastChild;
  table(["parameter", "shape", "directions", "worst error", "its error bar at most"],
    g.tensors.map((t) => [t.name, t.shape, t.compared, short(t.worst), short(t.bar)]), [2, 3, 4]);
  const box = main.lastChild;
  if (box !== before) fold.append(box);
  main.append(fold);
}

facts();
curves();
samples();
attention();
norms();
gradients();
main.append(make("details", {}, make("summary", {}, "Configuration"), make("pre", { class: "wide" }, data.config)));
