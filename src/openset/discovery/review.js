"use strict";
// Texts and labels enter the page as textContent and value only, never as HTML.
const content = document.getElementById("data");
const data = JSON.parse(content.textContent);
const { samples, groups, classes, train } = data;
const PAGE = 50; // samples or small groups shown at a time
const COLORS = ["#e31e1f", "#24b17e", "#0b3cc2", "#f7be0c", "#7e5492", "#442217", "#d0609c",
  "#1a7f8e"];
const KEY = `openset-review-${content.dataset.key}`; // of the names kept in this browser
const CLICK = 14; // pixels of the map: a shorter path is a click, on a sample within them
const JUNK = { kind: "junk", label: "" };
const decisions = { group: new Map(), sample: new Map() }; // index -> decision
const selected = new Set(); // indices of samples
const done = []; // changes that can be undone: lists of [kind, index, decision before]
let saved = true;
let kept = true; // the browser keeps names
const given = []; // names in the order in which they came
const waiting = new WeakMap(); // button that shows more -> indices of the samples that it shows

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function decisionFor(name) {
  const label = name.trim();
  if (!label) return null;
  return { kind: classes.includes(label) ? "class" : "new", label };
}

function decisionOf(i) {
  return decisions.sample.get(i) || decisions.group.get(samples.group[i]) || null;
}

function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function decisionsCsv() {
  const lines = ["row,decision,label"];
  samples.row.forEach((row, i) => {
    const decision = decisionOf(i);
    if (decision) lines.push(`${row},${decision.kind},${quoted(decision.label)}`);
  });
  return lines.join("\n") + "\n";
}

function save() {
  const file = new Blob([decisionsCsv()], { type: "text/csv" });
  const link = element("a", { href: URL.createObjectURL(file), download: "decisions.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  saved = true;
  keep();
  tell();
}

// Names outlive the page until they are saved. A browser may refuse to keep them.
function keep() {
  try {
    const named = Object.entries(decisions).map(([kind, map]) =>
      [kind, [...map].map(([index, { label }]) => [index, label])]);
    if (saved) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(named)));
  } catch {
    kept = false;
  }
}

function restore() {
  let changes = [];
  try {
    const named = JSON.parse(localStorage.getItem(KEY)) ?? {};
    changes = Object.keys(decisions).flatMap((kind) => (named[kind] ?? [])
      .filter(([index, label]) => Number.isInteger(index) && typeof label === "string")
      .map(([index, label]) => [kind, index, decisionFor(label) || JUNK]));
  } catch {
    kept = false;
  }
  change(changes);
}

// Make changes, a list of [kind, index, decision or null], that one undo takes back.
function change(changes) {
  if (!changes.length) return;
  done.push(changes.map(([kind, index]) => [kind, index, decisions[kind].get(index) || null]));
  apply(changes);
}

function apply(changes) {
  for (const [kind, index, decision] of changes) {
    if (decision) decisions[kind].set(index, decision);
    else decisions[kind].delete(index);
    if (decision?.label && !given.includes(decision.label)) given.push(decision.label);
  }
  saved = false;
  keep();
  refresh();
}

function undo() {
  const changes = done.pop();
  if (!changes) return;
  apply(changes);
  const [kind, index] = changes[0];
  document.querySelector(`#groups [data-kind="${kind}"][data-index="${index}"]`)?.focus();
}

function tell() {
  let decided = 0;
  const names = new Set();
  samples.row.forEach((_, i) => {
    const decision = decisionOf(i);
    if (!decision) return;
    decided += 1;
    if (decision.kind === "new") names.add(decision.label);
  });
  const note = kept ? "; not saved yet, kept in this browser" : "; not saved yet";
  byId("state").textContent =
    `${decided} of ${samples.row.length} decided, ${names.size} new classes` + (saved ? "" : note);
  byId("undo").disabled = !done.length;
  byId("names").replaceChildren(...given.slice(0, 9).map((name, k) =>
    element("span", {}, element("kbd", { textContent: k + 1 }), ` ${shortened(name)}`)));
}

function shortened(name) {
  return name.length > 30 ? `${name.slice(0, 29)}\u2026` : name;
}

// Show the state of the decisions in all fields and buttons, on the map, and in words.
function refresh() {
  document.querySelectorAll(".item").forEach(showState);
  drawMap();
  tell();
}

function showState(item) {
  const { kind, index } = item.dataset;
  if (kind === "selection") return;
  const decision = decisions[kind].get(Number(index)) || null;
  const junk = decision !== null && decision.kind === "junk";
  item.querySelector("input").value = decision ? decision.label : "";
  item.querySelector("button").setAttribute("aria-pressed", String(junk));
  item.classList.toggle("selected", kind === "sample" && selected.has(Number(index)));
  if (kind === "group") {
    item.parentElement.className = decision ? (junk ? "junk" : "decided") : "";
  }
}

// What a name or junk given at an item is for.
function targets(item) {
  if (item.dataset.kind === "group") return [["group", Number(item.dataset.index)]];
  const index = Number(item.dataset.index);
  const all = item.dataset.kind === "selection" || selected.has(index);
  return (all ? [...selected] : [index]).map((i) => ["sample", i]);
}

function give(item, decision) {
  const chosen = targets(item);
  change(chosen.map(([kind, index]) => [kind, index, decision]));
  if (chosen.some(([kind, i]) => kind === "sample" && selected.has(i))) select([]);
}

function isJunk(item) {
  return targets(item).every(([kind, i]) => decisions[kind].get(i)?.kind === "junk");
}

// A field for a name and a button for junk.
function controls(item, hint) {
  const field = element("input", { placeholder: hint });
  field.setAttribute("list", "classes");
  field.setAttribute("aria-label", hint);
  const junk = element("button", { textContent: "junk", type: "button" });
  field.addEventListener("change", () => give(item, decisionFor(field.value)));
  junk.addEventListener("click", () => give(item, isJunk(item) ? null : JUNK));
  item.append(field, junk);
}

function makeItem(tag, kind, index, hint, ...children) {
  const item = element(tag, { tabIndex: -1 }, ...children);
  item.classList.add("item");
  Object.assign(item.dataset, { kind, index });
  controls(item, hint);
  return item;
}

function similarRow(i) {
  const row = samples.similar[i];
  const like = element("div", { className: "soft like" });
  if (row <= 0) return like;
  const text = train.text?.[row] ? `: ${train.text[row]}` : "";
  if (train.image?.[row]) like.append(element("img", { src: train.image[row], alt: "" }));
  like.append(element("div", { dir: "auto",
    textContent: `most similar training row ${row}, distance ${samples.distance[i]}${text}` }));
  return like;
}

function showSample(i) {
  const what = element("div", { className: "what" });
  if (samples.image) what.append(element("img", { src: samples.image[i], alt: "", loading: "lazy" }));
  if (samples.text) what.append(element("div", { textContent: samples.text[i], dir: "auto" }));
  const near = samples.near[i].map((c, k) => `${classes[c]} (${samples.score[i][k]})`).join(", ");
  const lacks = Math.max(0, -samples.score[i][0]).toFixed(3);
  what.append(element("div", {
    className: "soft",
    textContent: `row ${samples.row[i]}; nearest ${near}; ${lacks} below acceptance`,
  }), similarRow(i));
  const item = makeItem("div", "sample", i, "this sample only", what);
  item.classList.add("sample");
  showState(item);
  return item;
}

// Append what `show` makes of the first of a list, and a button for the others.
function showPage(box, list, show, samplesOf) {
  const made = list.slice(0, PAGE).map(show);
  box.append(...made);
  const others = list.slice(PAGE);
  if (others.length) {
    box.append(moreButton(`more (${others.length})`, others.flatMap(samplesOf), (button) => {
      button.remove();
      return showPage(box, others, show, samplesOf);
    }));
  }
  return made[0];
}

const showSamples = (box, indices) => showPage(box, indices, showSample, (i) => [i]);

// A button that shows more samples, and hands the keyboard to the first of them.
function moreButton(textContent, indices, show) {
  const button = element("button", { type: "button", className: "more", textContent });
  waiting.set(button, indices);
  button.addEventListener("click", () => {
    const first = show(button);
    (first.matches(".item") ? first : first.querySelector(".item")).focus();
  });
  return button;
}

function showGroup(g) {
  const group = groups[g];
  const article = element("article", { id: `group${g}` });
  const swatch = element("span", { textContent: "\u25cf" });
  swatch.style.color = COLORS[g % COLORS.length];
  const header = makeItem("header", "group", g, "name of the group", swatch,
    element("strong", { textContent: `${group.name}: ${group.members.length} samples` }),
    element("span", { className: "soft",
      textContent: `near ${group.near}, tightness ${group.tightness} (small is tight)` }));
  article.append(header);
  showState(header);
  const members = group.members;
  const ends = members.length > 8 ? [...members.slice(0, 5), ...members.slice(-3)] : members;
  const box = element("div");
  showSamples(box, ends);
  article.append(box);
  if (ends !== members) {
    box.before(element("div", { className: "soft",
      textContent: "five typical members, then the three least typical ones" }));
    article.append(moreButton(`all members (${members.length})`, members, (button) => {
      button.remove();
      box.replaceChildren();
      return showSamples(box, members);
    }));
  }
  return article;
}

function showGroups() {
  const indices = groups.map((_, g) => g);
  const small = indices.filter((g) => groups[g].small);
  const rest = samples.row.map((_, i) => i).filter((i) => samples.group[i] < 0);
  byId("groups").append(...indices.filter((g) => !groups[g].small).map(showGroup));
  if (small.length) {
    const box = element("div");
    byId("groups").append(element("h2", { textContent: `Small groups: ${small.length}` }),
      element("div", { className: "soft", textContent:
        "Samples close to each other, but so few that chance may have made the group." }), box);
    showPage(box, small, showGroup, (g) => groups[g].members);
  }
  const article = element("article", { id: "rest" },
    element("strong", { textContent: `in no group: ${rest.length} samples` }), " ");
  if (rest.length) {
    const box = element("div");
    article.append(moreButton("show", rest, (button) => {
      button.remove();
      return showSamples(box, rest);
    }), box);
  }
  byId("groups").append(article);
}

function select(indices, add = false) {
  if (!add) selected.clear();
  indices.forEach((i) => selected.add(i));
  showSelection();
  refresh();
}

function showSelection() {
  const article = byId("selection");
  article.hidden = !selected.size;
  article.replaceChildren();
  if (!selected.size) return;
  const header = makeItem("header", "selection", 0, "name of the selected samples",
    element("strong", { textContent: `${selected.size} samples selected` }));
  const clear = element("button", { type: "button", textContent: "clear" });
  clear.addEventListener("click", () => select([]));
  header.append(clear);
  const box = element("div");
  showSamples(box, [...selected]);
  article.append(header, box);
}

// Keys are for the item that has the focus, or for the selected samples.
function currentItem() {
  return document.activeElement.closest(".item") || byId("selection").querySelector(".item");
}

// Whether there is nothing to decide at an item or behind a button.
function isDecided(stop) {
  const { kind, index } = stop.dataset;
  const decided = (i) => decisionOf(i) !== null;
  if (kind === "selection") return true;
  if (kind === "sample") return decided(Number(index));
  return (waiting.get(stop) || groups[index].members).every(decided);
}

// Go to the next (step 1) or previous (-1) item or button that is not skipped.
function go(step, skip = () => false) {
  const stops = [...document.querySelectorAll(".item, .more")];
  let k = stops.indexOf(document.activeElement.closest(".item, .more"));
  if (k < 0 && step < 0) k = stops.length;
  do k += step; while (stops[k] && skip(stops[k]));
  (stops[k] || document.activeElement).focus();
}

function giveAndGo(item, decision) {
  give(item, decision);
  if (decision) go(1, isDecided);
}

function pressInField(event, item) {
  if (event.key === "Escape") {
    event.target.value = "";
    showState(item);
    item.focus();
  } else if (event.key === "Enter") {
    event.preventDefault();
    const named = event.target.value.trim() !== "";
    item.focus(); // the field has changed
    if (named) go(1, isDecided);
  }
}

function pressKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const item = currentItem();
  if (event.target.matches("input")) {
    pressInField(event, item);
    return;
  }
  const keys = { j: () => go(1), ArrowDown: () => go(1), k: () => go(-1), ArrowUp: () => go(-1),
    u: undo, s: save, c: () => select([]) };
  if (item) {
    keys.n = keys.Enter = () => {
      item.querySelector("input").focus();
      item.querySelector("input").select();
    };
    keys.x = () => giveAndGo(item, isJunk(item) ? null : JUNK);
    given.slice(0, 9).forEach((name, k) => {
      keys[k + 1] = () => giveAndGo(item, decisionFor(name));
    });
    if (item.dataset.kind === "sample") keys[" "] = () => toggle(Number(item.dataset.index));
  }
  const presses = event.target.matches("button") && [" ", "Enter"].includes(event.key);
  if (presses || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

function toggle(i) {
  const others = [...selected].filter((other) => other !== i);
  select(others.length < selected.size ? others : [...others, i]);
}

// The map.
function drawCounts() {
  const canvas = byId("counts");
  const pen = canvas.getContext("2d");
  const shares = data.counts.map(([n, unknown]) => unknown / n);
  const top = Math.max(0.05, ...shares);
  const width = (canvas.width - 60) / shares.length;
  pen.fillStyle = "#0b3cc2";
  shares.forEach((share, k) => {
    const height = (canvas.height - 40) * share / top;
    pen.fillRect(50 + k * width, canvas.height - 20 - height, Math.max(1, width - 2), height);
  });
  pen.fillStyle = "#262626";
  pen.font = "18px sans-serif";
  pen.fillText(`${(100 * top).toFixed(0)} %`, 0, 30);
  pen.fillText("0", 30, canvas.height - 18);
}

const map = byId("map");
const pen = map.getContext("2d");
const onMap = ([x, y]) => [10 + x * (map.width - 20), 10 + (1 - y) * (map.height - 20)];

function drawMap(path = null) {
  pen.clearRect(0, 0, map.width, map.height);
  const dot = (place, color, size) => {
    const [x, y] = onMap(place);
    pen.fillStyle = color;
    pen.fillRect(x - size / 2, y - size / 2, size, size);
  };
  data.known.place.forEach((place, k) =>
    dot(place, `hsl(${(data.known.class[k] * 137) % 360} 35% 85%)`, 4));
  selected.forEach((i) => dot(samples.place[i], "#000", 11));
  samples.place.forEach((place, i) => {
    const g = samples.group[i];
    dot(place, g < 0 ? "#8c8c8c" : COLORS[g % COLORS.length], g < 0 ? 4 : 6);
  });
  drawNames();
  if (path) {
    pen.strokeStyle = "#0b3cc2";
    pen.lineWidth = 2;
    pen.stroke(path);
  }
}

// Names amid their samples, as long as they do not cover each other: given ones, then those of
// groups without a name, then the known classes.
function drawNames() {
  const places = new Map([["bold ", new Map()], ["italic ", new Map()], ["", new Map()]]);
  const add = (style, name, place) => {
    const of = places.get(style);
    if (of.has(name)) of.get(name).push(place);
    else of.set(name, [place]);
  };
  samples.place.forEach((place, i) => {
    const decision = decisionOf(i);
    const group = groups[samples.group[i]];
    if (decision?.label) add("bold ", decision.label, place);
    else if (!decision && group && !group.small) add("italic ", group.name, place);
  });
  data.known.place.forEach((place, k) => add("", classes[data.known.class[k]], place));
  const boxes = [];
  pen.textAlign = "center";
  pen.lineWidth = 4;
  pen.strokeStyle = "#fff";
  places.forEach((of, style) => {
    pen.font = `${style}18px sans-serif`;
    pen.fillStyle = style ? "#000" : "#737373";
    of.forEach((list, name) => drawName(shortened(name), list, boxes));
  });
}

function drawName(name, list, boxes) {
  const mean = [0, 1].map((axis) => list.reduce((sum, place) => sum + place[axis], 0) / list.length);
  const half = pen.measureText(name).width / 2 + 4;
  const [x, y] = onMap(mean);
  const box = [Math.min(Math.max(x, half), map.width - half), Math.max(y, 20), half];
  if (boxes.some(([u, v, w]) => Math.abs(u - box[0]) < w + half && Math.abs(v - box[1]) < 22)) return;
  boxes.push(box);
  pen.strokeText(name, box[0], box[1] + 6);
  pen.fillText(name, box[0], box[1] + 6);
}

let lasso = null; // points of the path that is being drawn

function pointOf(event) {
  return [event.offsetX * map.width / map.clientWidth,
    event.offsetY * map.height / map.clientHeight];
}

function pathOf(points) {
  const path = new Path2D();
  points.forEach(([x, y]) => path.lineTo(x, y));
  path.closePath();
  return path;
}

function chosenBy(points) {
  const [start] = points;
  const from = ([x, y], [u, v]) => Math.hypot(x - u, y - v);
  const all = samples.place.map((place, i) => [i, onMap(place)]);
  if (points.some((point) => from(point, start) > CLICK)) {
    const path = pathOf(points);
    return all.filter(([, place]) => pen.isPointInPath(path, ...place)).map(([i]) => i);
  }
  const near = all.map(([i, place]) => [i, from(place, start)]).filter(([, d]) => d <= CLICK);
  return near.sort(([, a], [, b]) => a - b).slice(0, 1).map(([i]) => i);
}

map.addEventListener("pointerdown", (event) => {
  map.setPointerCapture(event.pointerId);
  lasso = [pointOf(event)];
});
map.addEventListener("pointermove", (event) => {
  if (!lasso) return;
  lasso.push(pointOf(event));
  drawMap(pathOf(lasso));
});
map.addEventListener("pointercancel", () => { lasso = null; drawMap(); });
map.addEventListener("pointerup", (event) => {
  if (!lasso) return;
  const points = [...lasso, pointOf(event)];
  lasso = null;
  select(chosenBy(points), event.shiftKey);
  byId("selection").querySelector("input")?.focus({ preventScroll: true });
});

const nGroups = groups.filter((group) => !group.small).length;
byId("summary").textContent =
  `${samples.row.length} of ${data.n} samples are unknown, in ${nGroups} groups, ` +
  `${groups.length - nGroups} small groups and on their own.`;
byId("classes").append(...classes.map((name) => element("option", { value: name })));
showGroups();
byId("save").addEventListener("click", save);
byId("undo").addEventListener("click", undo);
document.addEventListener("keydown", pressKey);
window.addEventListener("beforeunload", (event) => {
  if (!saved && !kept) event.preventDefault();
});
drawCounts();
refresh();
restore();
