// The page of `loadframe explore`, from the server's JSON. Names and values are inserted as plain text.

const part = (id) => document.getElementById(id);
// The latest findings and the time axis that they have.
let source, kinds = {}, findings, axis, selected = [], asked = 0;
// Maximum number of listed events.
const EVENTS = 200;
// Added filters: [field, value].
let filters = [];
const charts = {}, answers = {};

async function get(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const where = filters.flatMap(([field, value]) => [["where", field], ["value", value]]);
  const answer = await fetch(`${name}?${new URLSearchParams([...given, ...name === "findings" ? where : []])}`);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

// Runs a step, and shows its error instead of the page's state. The result of a step is dropped if a later one began.
async function attempt(step) {
  const number = ++asked;
  part("lost").hidden = true;
  try {
    await step(number);
  } catch (error) {
    if (number !== asked) return;
    part("stand").textContent = "";
    part("lost").textContent = error instanceof TypeError ? "The server does not answer. Start loadframe explore again." : error.message;
    part("lost").hidden = false;
  }
  if (number === asked) lock(false);
}

// Disables everything but the collection, while the form has the fields of another one.
function lock(locked) {
  for (const control of part("form").elements) control.disabled = locked && control.id !== "collection";
}

function options(id, names, none) {
  const entries = names.map((name) => element("option", { value: name }, name));
  part(id).replaceChildren(...(none === undefined ? [] : [element("option", { value: "" }, none)]), ...entries);
}

async function begin(step) {
  source = await get("source");
  part("name").textContent = source.title;
  document.title = `${source.title} · loadframe explore`;
  part("hint").textContent = source.clock
    ? "Times are UTC, such as 2017-03-01T12:00." : "Times are seconds since the start of the run.";
  part("hint").textContent += " Each filter narrows the selection further.";
  options("collection", source.collections);
  part("events").hidden = !source.events.length;
  part("events").querySelector("tbody").replaceChildren(...source.events.slice(0, EVENTS).map((event, at) => element("tr", {},
    element("td", {}, String(at + 1)), element("td", {}, event.time.toFixed(1)), element("td", { class: "word" }, eventText(event)))));
  if (source.events.length > EVENTS)
    part("events").querySelector("p").textContent += ` The first ${EVENTS} of ${number(source.events.length)} are listed; the collection events has all.`;
  part("answers").hidden = !source.answers.length;
  for (const record of source.answers)
    new Answer(part("recorded")).draw({ ...record, when: record.operation });
  if (!source.clock) part("order").labels[0].firstChild.data = "Rows ";
  if (!source.collections.length) part("stand").textContent = "There are no collections.";
  else await choose(step);
}

async function choose(number) {
  lock(true);
  const answer = await get("fields", { collection: part("collection").value });
  if (number !== asked) return;
  kinds = answer.fields;
  const names = (...wanted) => Object.keys(kinds).filter((name) => wanted.includes(kinds[name]));
  options("time", names("time"), "none");
  if (names("time").length) part("time").value = names("time").includes("time") ? "time" : names("time")[0];
  options("field", names("number", "keyword"), "none");
  options("where", names("number", "keyword"), "any");
  part("value").value = "";
  filters = [];
  await show(number);
}

// Moves the filter of the form to the list, so that the next one narrows the selection further.
function add() {
  if (!part("where").value) return;
  filters.push([part("where").value, part("value").value]);
  part("where").value = part("value").value = "";
}

function remove(filter) {
  filters = filters.filter((other) => other !== filter);
  attempt(show);
}

async function show(number) {
  part("filters").hidden = !filters.length;
  part("filters").replaceChildren(...filters.map((filter) => {
    const text = filter.join(" = ");
    const button = element("button", { type: "button", "aria-label": `Remove the filter ${text}` }, `${text} ×`);
    button.addEventListener("click", () => remove(filter));
    return element("li", {}, button);
  }));
  part("stand").textContent = "Loading";
  const latest = await get("findings", {
    collection: part("collection").value, time: part("time").value, field: part("field").value,
    start: part("start").value.trim(),
    end: part("until").value.trim(), [part("order").value || "newest"]: "1",
  });
  if (number !== asked) return;
  findings = latest;
  selected = selection();
  draw();
}

// The filters and the time range of the latest findings, in words.
function selection() {
  const given = (id) => part(id).value.trim(), unit = source.clock ? "" : " s";
  const where = filters.map(([field, value]) => `${field} is ${value === "" ? "empty" : value}`).join(" and ");
  const range = [given("start") && `from ${given("start")}${unit}`, given("until") && `before ${given("until")}${unit}`];
  return [where && `where ${where}`, range.filter(Boolean).join(" and ")].filter(Boolean);
}

// A unit for times that suits the values, and its factor.
function unitOf(unit, values) {
  const most = Math.max(0, ...values);
  return unit !== "s" || most >= 1 ? [unit, 1] : most < 1e-3 ? ["µs", 1e6] : ["ms", 1e3];
}

// Charts of the mean and, where it differs, the maximum: one line for each subject. Warm-up has its own, dashed line.
function subjectCharts(field) {
  const shown = findings.series.filter((one) => one.points.length), each = timeText(findings.width);
  const differ = shown.some((one) => one.points.some(([, mean, most]) => mean !== most));
  const of = differ ? [[1, `${field}: mean in ${each}`], [2, `${field}: maximum in ${each}`]] : [[1, field]];
  return of.map(([column, title]) => {
    const values = shown.flatMap((one) => one.points.map((point) => point[column] ?? 0));
    const [unit, factor] = unitOf(findings.measure, values);
    return [title, unit, shown.map(({ name, points, of: subject, warmup }) => {
      const places = points.map((point) => [point[0], point[column] === null ? null : point[column] * factor]);
      const last = places.filter((place) => place[1] !== null).at(-1);
      return { name, points: places, style: `s${subject}${warmup ? " dash" : ""}`, text: number(last[1]) };
    })];
  });
}

function draw() {
  if (!findings) return;
  const field = part("field").value, statistics = findings.statistics;
  // A recorded run has rows, and its metric "documents" is another count.
  const noun = source.clock ? "document" : "row";
  const total = `${findings.total.toLocaleString("en")} ${noun}${findings.total === 1 ? "" : "s"}`;
  part("stand").textContent = [total, ...selected].join(", ");
  part("notes").hidden = !findings.notes.length;
  part("notes").replaceChildren(...findings.notes.map((note) => element("li", {}, note)));
  axis = null;
  if (findings.periods.length) {
    const width = findings.width;
    const from = findings.periods[0].start, to = findings.periods.at(-1).start + width;
    axis = { from, to, clock: source.clock, events: marks(from, to) };
  }
  const apart = findings.series.length > 0;
  const measured = axis && !apart && findings.periods.some((period) => period.mean !== null);
  const lines = {
    ...axis ? { count: [`${source.clock ? "Documents" : "Rows"} in ${timeText(findings.width)}`, `${noun}s`, over([["count", "s0"]], 0)] } : {},
    ...measured
      ? { numbers: [`${field}: mean and maximum`, findings.measure, over([["mean", "s2"], ["most", "s1 dash"]], null)] } : {},
    ...axis && apart ? Object.fromEntries(subjectCharts(field).map((chart, at) => [`subjects ${at}`, chart])) : {},
  };
  // All charts exist before one is drawn, because their number determines their widths.
  for (const key of Object.keys(charts)) if (charts[key].title !== lines[key]?.[0]) drop(key);
  for (const [key, [title]] of Object.entries(lines)) charts[key] ??= new Chart(part("charts"), title);
  for (const [key, [, unit, drawn]] of Object.entries(lines)) charts[key].draw({ ...axis, unit, lines: drawn });
  const rows = findings.values.map(([label, count]) => [label, count, []]);
  answer("values", rows.length > 0, { title: `Most frequent values of ${field}`, chart: "bars", rows, beside: [], unit: findings.unit });
  const unit = findings.measure ? `, ${findings.measure}` : "";
  answer("statistics", apart || Object.keys(statistics).length > 0, {
    title: `Statistics of ${field}${unit}`,
    ...apart
      ? { chart: "bars", unit: "mean", beside: ["max", "count"],
        rows: findings.series.map(({ name, statistics: { mean, max, count } }) => [name, mean, [max, count]]) }
      : { chart: "figures", figures: statistics },
  });
  part("documents").hidden = !findings.documents.length;
  part("documents").querySelector("h2").textContent = source.clock ? "Documents" : "Rows";
  part("documents").querySelector("ol").replaceChildren(
    ...findings.documents.map((text) => element("li", {}, element("pre", { tabindex: 0 }, text))));
}

// Returns lines over the periods. `empty` is the value of a period without documents.
function over(lines, empty) {
  const known = new Map(findings.periods.map((period) => [Math.round((period.start - axis.from) / findings.width), period]));
  const places = Array.from({ length: Math.round((axis.to - axis.from) / findings.width) }, (_, place) => place);
  const names = { count: "latest count", mean: "latest mean", most: "latest maximum" };
  return lines.map(([name, style]) => {
    const points = places.map((place) => [axis.from + (place + 0.5) * findings.width, known.get(place)?.[name] ?? empty]);
    const last = points.filter((point) => point[1] !== null).at(-1);
    return { name: names[name], points, style, text: last ? number(last[1]) : "–" };
  });
}

function drop(key) {
  charts[key].box.remove();
  delete charts[key];
}

function answer(key, wanted, record) {
  if (wanted) (answers[key] ??= new Answer(part("drawn"))).draw({ more: 0, when: part("collection").value, ...record });
  else if (answers[key]) {
    answers[key].box.remove();
    delete answers[key];
  }
}

function marks(from, to) {
  const events = source.events.map((event, at) => [event.time, at + 1]);
  return events.filter(([time]) => time >= from && time <= to).sort((one, other) => one[0] - other[0]);
}

part("form").addEventListener("submit", (event) => {
  event.preventDefault();
  add();
  attempt(show);
});
part("collection").addEventListener("change", () => attempt(choose));
for (const id of ["time", "field", "order"]) part(id).addEventListener("change", () => attempt(show));
new ResizeObserver(() => requestAnimationFrame(draw)).observe(part("charts"));
attempt(begin);
