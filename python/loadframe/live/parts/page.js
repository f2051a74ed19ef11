// The page, from the server's records; see docs/how-to/live-page.md.

// Maximum and minimum time span of a chart, s.
const LONGEST = 600, SHORTEST = 30;
// Above this number of nodes, charts show their minimum, median and maximum.
const NODES = 8;
const ROWS = 40;
// Events of samplers, which are listed, but not marked in charts.
const UNMARKED = new Set(["gap", "gap over"]);

const part = (id) => document.getElementById(id);
let shown, charts = {}, answers = {}, drawing = false;

function begin(command) {
  shown = { command, part: null, run: null, step: "", finished: [], remarks: [], over: null, trial: null,
    judged: new Map() };
  beginRun({ run: null });
  shown.run = null;
}

function beginRun(run) {
  Object.assign(shown, { run, phase: null, load: [], watched: [], events: [], answers: {}, over: null });
}

const TAKE = {
  command: begin,
  run: beginRun,
  part: (record) => { shown.part = record; },
  trial: (record) => { shown.trial = record; },
  judged: (record) => { shown.judged.set(record.run, record); },
  phase: (record) => { shown.phase = record; shown.step = ""; },
  load: (record) => { push(shown.load, record); },
  watched: (record) => { push(shown.watched, record); },
  answer: (record) => { shown.answers[record.operation] = record; },
  event: (record) => { shown.events.push({ number: shown.events.length + 1, ...record.event }); },
  finished: (record) => { shown.finished.push(record); shown.phase = null; },
  step: (record) => { shown.step = record.text; },
  remark: (record) => { shown.remarks.push(record.text); },
  over: (record) => { shown.over = record; shown.phase = null; shown.step = ""; },
};

function push(records, record) {
  // A late record may be slightly older than its predecessor; lines do not go back.
  if (records.length && record.time <= records.at(-1).time) return;
  // Missing records are a gap in the lines.
  if (records.length && record.time - records.at(-1).time > 5) records.push({ time: record.time, hole: true });
  records.push(record);
  while (records[0].time < record.time - LONGEST) records.shift();
}

function draw() {
  drawing = false;
  if (!shown) return;
  drawWords();
  drawCharts();
  drawAnswers();
  rows("events", [...shown.events].reverse(), (event) => [
    element("td", {}, String(event.number)), element("td", {}, event.time.toFixed(1)),
    element("td", { class: "word" }, eventText(event)),
  ]);
  rows("runs", [...shown.finished].reverse(), (run) => [
    element("td", { class: "word" }, run.run), element("td", { class: "word" }, ...verdict(run)),
  ]);
  part("remarks").hidden = !shown.remarks.length;
  part("remarks").querySelector("ul").replaceChildren(
    ...shown.remarks.slice(-ROWS).reverse().map((text) => element("li", {}, text)));
}

function drawWords() {
  const { command, phase, over } = shown;
  part("command").textContent = `loadframe ${command.command}, process ${command.process}, since ${clock(command.started)}`;
  part("name").textContent = command.name;
  const words = [];
  if (shown.part) words.push(`${shown.trial ? "search" : "run"} ${shown.part.number} of ${shown.part.of}`);
  if (shown.run) words.push(shown.run.run ?? "preparing the store");
  const second = shown.load.at(-1)?.second ?? 0;
  if (phase) words.push(`phase ${phase.phase}`, phase.seconds ? `${second} s of ${number(phase.seconds)} s` : `${second} s`);
  if (phase && shown.trial) words.push(trialText(shown.trial, shown.load.at(-1)));
  part("stand").textContent = over ? "" : words.join(" · ");
  part("bar").hidden = !phase?.seconds;
  if (phase?.seconds) part("bar").value = Math.min(second / phase.seconds, 1);
  part("step").textContent = shown.step;
  document.title = `${over ? "ended" : phase ? phase.phase : "waiting"} · ${command.name} · loadframe`;
  part("end").hidden = !over;
  part("end").classList.toggle("bad", Boolean(over) && over.how !== "done");
  part("end").replaceChildren(...(over ? ending() : []));
}

// The last second against the limit of the SLO; the trial is judged as a whole at its end.
function trialText({ number, load, percentile, limit }, now) {
  const known = limit === null ? null : now?.[percentile] ?? null;
  const measured = known === null ? "" : `${duration(known)} `;
  const slo = limit === null ? "" : `, ${percentile} ${measured}(SLO ${duration(limit)})`;
  return `trial ${number}: ${load}${slo}${known === null ? "" : known <= limit ? ": passing" : ": failing"}`;
}

const HOW = {
  done: "The command has ended.",
  interrupted: "The command was interrupted.",
  failed: "The command has failed.",
  killed: "The command was killed.",
};

function ending() {
  const { over, finished, command } = shown;
  const lines = [element("p", {}, HOW[over.how])];
  if (over.why) lines.push(element("p", {}, over.why));
  const last = finished.at(-1);
  if (finished.length === 1) lines.push(element("p", {}, `The run ${last.run}: `, ...verdict(last)));
  else if (finished.length) {
    const valid = finished.filter((run) => run.valid).length;
    const passed = [...shown.judged.values()].filter((trial) => trial.outcome === "passed").length;
    lines.push(element("p", {}, shown.judged.size
      ? `${passed} of ${shown.judged.size} trials of this command passed.`
      : `${valid} of ${finished.length} runs of this command are valid.`));
  }
  if (over.report) lines.push(element("p", {}, "The report: ", element("code", {}, over.report)));
  else if (last) {
    const path = finished.length === 1 ? last.path : command.path;
    lines.push(element("p", {}, "Recorded in ", element("code", {}, path), ". To create a report, run ",
      element("code", {}, `loadframe report ${path}`), "."));
  }
  return lines;
}

function verdict(run) {
  if (run.status !== "done") return [element("span", { class: "invalid" }, run.status)];
  const trial = shown.judged.get(run.run);
  if (trial) return [element("span", { class: trial.outcome === "passed" ? "valid" : "word" }, trial.text)];
  const word = run.valid ? "valid" : "invalid";
  return [element("span", { class: word }, word), run.reasons.length ? `: ${run.reasons.join("; ")}` : ""];
}

function drawCharts() {
  const { load, watched, events } = shown;
  const marked = events.filter((event) => !UNMARKED.has(event.kind)).sort((one, other) => one.time - other.time);
  const to = Math.max(SHORTEST, load.at(-1)?.time ?? 0, watched.at(-1)?.time ?? 0, marked.at(-1)?.time ?? 0);
  const from = Math.max(0, to - LONGEST);
  for (const title of ["Throughput", "Response time", "Errors", "CPU of the nodes"]) chart(title);
  const frame = { from, to, events: marked.filter((event) => event.time >= from).map((event) => [event.time, event.number]) };
  const of = (records, value) => records.map((record) => [record.time, record.hole ? null : value(record) ?? null]);
  const now = load.at(-1);

  const throughput = [line("requests", of(load, (record) => record.requests), "s0", rate(now?.requests))];
  if (load.some((record) => record.documents))
    throughput.push(line("documents", of(load, (record) => record.documents), "s2", rate(now?.documents)));
  chart("Throughput").draw({ ...frame, unit: "1/s", lines: throughput });

  const slowest = Math.max(0, ...load.map((record) => record.p99 ?? 0));
  const [unit, scale] = slowest < 1e-3 ? ["µs", 1e6] : slowest < 10 ? ["ms", 1e3] : ["s", 1];
  const times = (name, style) => line(
    name, of(load, (record) => record[name] === null ? null : record[name] * scale), style, duration(now?.[name]));
  chart("Response time").draw({ ...frame, unit, lines: [times("p50", "s2"), times("p99", "s1 dash")] });

  chart("Errors").draw({
    ...frame, unit: "1/s", lines: [line("errors", of(load, (record) => record.errors), "s1", rate(now?.errors))],
    notes: [["in this phase", now ? number(now.all_errors) : "–"]],
  });

  const seen = watched.at(-1);
  const notes = seen?.machine === undefined ? [] : [["whole machine busy", `${number(100 * seen.machine)} %`]];
  chart("CPU of the nodes").draw({ ...frame, unit: "cores", lines: cpuLines(watched, of), notes });

  if (load.some((record) => record.events)) {
    const events = (name, style) => line(
      name, of(load, (record) => record.events?.[name]), style, rate(now?.events?.[name]));
    const told = (title, name) => [title, count(now?.events?.[name])];
    chart("Events of sources").draw({
      ...frame, unit: "1/s", lines: [events("accepted", "s0"), events("indexed", "s2 dash")],
      notes: [told("accepted in all", "all_accepted"), told("indexed", "all_indexed"),
        ...now?.events?.visible === undefined ? [] : [told("visible, about", "visible")],
        told("unacknowledged", "unacknowledged"), told("dead letters", "dead_letters")],
    });
  } else dropChart("Events of sources");

  if (watched.some((record) => record.moving !== undefined)) {
    const pieces = (name, key, style) => line(name, of(watched, (record) => record[key]), style, count(seen[key]));
    chart("Shards and other data in motion").draw({
      ...frame, unit: "pieces", lines: [pieces("moving", "moving", "s0"), pieces("missing", "missing", "s1 dash")],
      notes: [["nodes that serve", count(seen.nodes)]],
    });
  } else dropChart("Shards and other data in motion");
}

function dropChart(title) {
  charts[title]?.box.remove();
  delete charts[title];
}

function drawAnswers() {
  const records = Object.values(shown.answers);
  part("answers").hidden = !records.length;
  for (const name of Object.keys(answers).filter((name) => !(name in shown.answers))) {
    answers[name].box.remove();
    delete answers[name];
  }
  for (const record of records) (answers[record.operation] ??= new Answer(part("drawn"))).draw(record);
}

function cpuLines(watched, of) {
  const names = [...new Set(watched.flatMap((record) => Object.keys(record.cpu ?? {})))].sort(byNumber);
  const cores = (value) => value === undefined || value === null ? "–" : number(Math.round(value * 100) / 100);
  const last = watched.at(-1)?.cpu ?? {};
  if (names.length <= NODES)
    return names.map((name, at) => line(name, of(watched, (record) => record.cpu[name]), `s${at}`, cores(last[name])));
  const place = { least: 0, median: 0.5, most: 1 };
  return Object.entries(place).map(([name, share], at) => {
    const pick = (record) => {
      const values = Object.values(record.cpu).sort((one, other) => one - other);
      return values[Math.round(share * (values.length - 1))];
    };
    return line(`${name} of ${names.length}`, of(watched, pick), `s${at}`, cores(pick({ cpu: last })));
  });
}

const byNumber = new Intl.Collator("en", { numeric: true }).compare;
const line = (name, points, style, text) => ({ name, points, style, text });
const chart = (title) => (charts[title] ??= new Chart(part("charts"), title));
const rate = (value) => (value === undefined ? "–" : `${number(value)}/s`);
const count = (value) => (value === undefined ? "–" : number(value));
const clock = (text) => new Date(text).toLocaleTimeString("en-GB");

function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  return seconds < 1e-3 ? `${number(seconds * 1e6)} µs` : seconds < 1 ? `${number(seconds * 1e3)} ms` : `${number(seconds)} s`;
}

function rows(id, records, cells) {
  part(id).hidden = !records.length;
  part(id).querySelector("tbody").replaceChildren(
    ...records.slice(0, ROWS).map((record) => element("tr", {}, ...cells(record))));
}

function redraw() {
  if (!drawing) requestAnimationFrame(draw);
  drawing = true;
}

const source = new EventSource("events");
source.onmessage = (message) => {
  for (const record of JSON.parse(message.data)) if (shown || record.kind === "command") TAKE[record.kind]?.(record);
  redraw();
};
source.onopen = () => { part("lost").hidden = true; };
source.onerror = () => { part("lost").hidden = Boolean(shown?.over); };
// Widths of charts change with the window, scroll bars and the number of charts.
new ResizeObserver(redraw).observe(part("charts"));
