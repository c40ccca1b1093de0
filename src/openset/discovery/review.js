"use strict";
// Texts and labels enter the page as textContent and value only, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const { samples, groups, classes } = data;
const PAGE = 50; // samples shown at a time
const COLORS = ["#e31e1f", "#24b17e", "#0b3cc2", "#f7be0c", "#7e5492", "#442217", "#d0609c",
  "#1a7f8e"];
const JUNK = { kind: "junk", label: "" };
const ofGroup = new Map(); // index of a group -> decision
const ofSample = new Map(); // index of a sample -> decision
let saved = true;

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
  return ofSample.get(i) || ofGroup.get(samples.group[i]) || null;
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
  tell();
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
  document.getElementById("state").textContent =
    `${decided} of ${samples.row.length} decided, ${names.size} new classes` +
    (saved ? "" : "; not saved yet");
}

// A field for a name and a button for junk; `change` is told the decision or null.
function controls(decision, hint, change) {
  const field = element("input", { placeholder: hint, value: decision ? decision.label : "" });
  field.setAttribute("list", "classes");
  field.setAttribute("aria-label", hint);
  const junk = element("button", { textContent: "junk", type: "button" });
  const press = (on) => junk.setAttribute("aria-pressed", String(on));
  press(decision === JUNK);
  const decide = (made) => {
    press(made === JUNK);
    change(made);
    saved = false;
    tell();
  };
  field.addEventListener("change", () => decide(decisionFor(field.value)));
  junk.addEventListener("click", () => {
    field.value = "";
    decide(junk.getAttribute("aria-pressed") === "true" ? null : JUNK);
  });
  return [field, junk];
}

function set(map, key, decision) {
  if (decision) map.set(key, decision);
  else map.delete(key);
}

function showSample(i) {
  const what = element("div", { className: "what" });
  if (samples.image) what.append(element("img", { src: samples.image[i], alt: "", loading: "lazy" }));
  if (samples.text) what.append(element("div", { textContent: samples.text[i], dir: "auto" }));
  const near = samples.near[i].map((c, k) => `${classes[c]} (${samples.score[i][k]})`).join(", ");
  const lacks = Math.max(0, -samples.score[i][0]).toFixed(3);
  const like = samples.similar[i] > 0
    ? `; most similar training row ${samples.similar[i]}, distance ${samples.distance[i]}` : "";
  what.append(element("div", {
    className: "soft",
    textContent: `row ${samples.row[i]}; nearest ${near}; ${lacks} below acceptance${like}`,
  }));
  const change = (decision) => set(ofSample, i, decision);
  return element("div", { className: "sample" }, what,
    ...controls(ofSample.get(i), "this sample only", change));
}

function showMembers(box, members) {
  box.replaceChildren();
  const add = (from) => {
    box.append(...members.slice(from, from + PAGE).map(showSample));
    if (from + PAGE >= members.length) return;
    const more = element("button", { type: "button",
      textContent: `more (${members.length - from - PAGE})` });
    more.addEventListener("click", () => { more.remove(); add(from + PAGE); });
    box.append(more);
  };
  add(0);
}

function showGroup(g) {
  const group = groups[g];
  const article = element("article", { id: `group${g}` });
  const swatch = element("span", { textContent: "\u25cf" });
  swatch.style.color = COLORS[g % COLORS.length];
  const change = (decision) => {
    set(ofGroup, g, decision);
    article.className = decision ? (decision === JUNK ? "junk" : "decided") : "";
  };
  const header = element("header", {}, swatch,
    element("strong", { textContent: `${group.name}: ${group.members.length} samples` }),
    element("span", { className: "soft",
      textContent: `near ${group.near}, tightness ${group.tightness} (small is tight)` }),
    ...controls(null, "name of the group", change));
  const members = group.members;
  const ends = members.length > 8 ? [...members.slice(0, 5), ...members.slice(-3)] : members;
  const box = element("div");
  showMembers(box, ends);
  article.append(header, element("div", { className: "soft",
    textContent: "five typical members, then the three least typical ones" }), box);
  if (ends !== members) {
    const all = element("button", { type: "button", textContent: "all members" });
    all.addEventListener("click", () => { all.remove(); showMembers(box, members); });
    article.append(all);
  }
  return article;
}

function showRest() {
  const rest = samples.row.map((_, i) => i).filter((i) => samples.group[i] < 0);
  const article = element("article", { id: "rest" },
    element("strong", { textContent: `in no group: ${rest.length} samples` }));
  const box = element("div");
  const open = element("button", { type: "button", textContent: "show" });
  open.addEventListener("click", () => { open.remove(); showMembers(box, rest); });
  article.append(" ", open, box);
  return article;
}

function drawCounts() {
  const canvas = document.getElementById("counts");
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

function drawMap() {
  const canvas = document.getElementById("map");
  const pen = canvas.getContext("2d");
  const dot = ([x, y], color, size) => {
    pen.fillStyle = color;
    pen.fillRect(10 + x * (canvas.width - 20), 10 + (1 - y) * (canvas.height - 20), size, size);
  };
  data.known.place.forEach((place, k) =>
    dot(place, `hsl(${(data.known.class[k] * 137) % 360} 35% 85%)`, 4));
  samples.place.forEach((place, i) => {
    const g = samples.group[i];
    dot(place, g < 0 ? "#8c8c8c" : COLORS[g % COLORS.length], g < 0 ? 3 : 5);
  });
}

document.getElementById("summary").textContent =
  `${samples.row.length} of ${data.n} samples are unknown, in ${groups.length} groups and ` +
  "on their own.";
document.getElementById("classes").append(
  ...classes.map((name) => element("option", { value: name })));
document.getElementById("groups").append(...groups.map((_, g) => showGroup(g)), showRest());
document.getElementById("save").addEventListener("click", save);
window.addEventListener("beforeunload", (event) => { if (!saved) event.preventDefault(); });
drawCounts();
drawMap();
tell();
