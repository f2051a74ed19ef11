"use strict";
// A chart over time: the latest values as numbers, and lines with events below.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 168, LEFT = 46, RIGHT = 10, TOP = 32, BOTTOM = 20;
// Approximate width of a letter of the axes, px.
const LETTER = 6.5;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Three significant digits, or all digits of the integer part, with thousands separators; powers of ten for numbers
// that are very small, or too large to be exact.
function number(value) {
  const size = Math.abs(value);
  if (size && (size < 1e-6 || size > Number.MAX_SAFE_INTEGER)) return value.toExponential(2);
  return size < 100 ? digits(value) : Math.round(value).toLocaleString("en");
}

const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

// A short form for labels of the y axis.
function short(value) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (Math.abs(value) >= unit && Math.abs(value) < 1e15) return `${Number((value / (letter === "k" ? 1e3 : unit)).toPrecision(3))}${letter}`;
  return number(value);
}

// The smallest 1, 2 or 5 times a power of ten that divides `most` into at most `steps` steps.
function step(most, steps) {
  const power = 10 ** Math.floor(Math.log10(most / steps));
  return [1, 2, 5, 10].map((times) => times * power).find((width) => most / width <= steps);
}

function timeStep(span, steps) {
  const hours = [1, 2, 6, 12, 24, 48, 168, 720, 2160, 8760].map((hour) => hour * 3600);
  const widths = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, ...hours];
  return widths.find((width) => span / width <= steps) ?? Math.ceil(span / steps);
}

function timeText(seconds) {
  if (seconds % 60 || !seconds) return `${Number(seconds.toFixed(3))} s`;
  if (seconds % 3600 || seconds < 7200) return `${seconds / 60} min`;
  return seconds % 86400 ? `${seconds / 3600} h` : `${seconds / 86400} d`;
}

// A time since the epoch in UTC: the date for steps of days, else the time of day, with fractions below a second.
function clockText(seconds, step) {
  const date = new Date(seconds * 1000);
  if (isNaN(date)) return `year ${Math.round(1970 + seconds / 31556952).toLocaleString("en")}`;
  const [day, time] = date.toISOString().split("T");
  return step >= 86400 ? day : step >= 60 ? `${day.slice(-5)} ${time.slice(0, 5)}` : time.slice(0, step < 1 ? 12 : 8);
}

function eventText(event) {
  const { number: _, time, wall, kind, nodes, ...rest } = event;
  const more = Object.entries(rest).filter(([, value]) => value !== null && typeof value !== "object");
  const words = [kind, ...(Array.isArray(nodes) && nodes.length ? [nodes.join(", ")] : [])].join(": ");
  const said = more.map(([key, value]) => `${key} ${typeof value === "number" ? number(value) : value}`).join(", ");
  return said ? `${words} (${said})` : words;
}

class Chart {
  constructor(parent, title) {
    this.title = title;
    this.now = element("ul", { class: "now" });
    this.svg = shape("svg", { role: "img", height: HEIGHT });
    this.box = element("section", { class: "chart" }, element("h2", {}, title), this.now, this.svg);
    parent.append(this.box);
  }

  // `lines`: {name, points: [[s, value or null]], style, text: the latest value}. `notes`: [name, text] of values
  // without a line. `from`, `to`: s. `events`: [s, number]. `unit`: unit of the y axis. `clock`: times are since the epoch.
  draw({ lines, notes = [], unit, from, to, events, clock = false }) {
    this.list(lines, notes);
    const width = Math.max(this.svg.clientWidth, 200);
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    const values = lines.flatMap((line) => line.points.map((point) => point[1] ?? 0));
    const most = Math.max(0, ...values), least = Math.min(0, ...values);
    const height = step(most - least || 1, least ? 3 : 4);
    const top = height * Math.ceil((most || (least ? 0 : 1)) / height);
    const low = height * Math.floor(least / height);
    const x = (time) => LEFT + ((time - from) / (to - from)) * (right - LEFT);
    const y = (value) => bottom - ((value - low) / (top - low)) * (bottom - TOP);
    const shapes = [shape("text", { x: 0, y: 10 }, unit)];
    for (let at = 0, value = low; value <= top + height / 100; value = low + ++at * height) {
      shapes.push(shape("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }));
      shapes.push(shape("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    const every = timeStep(to - from, Math.max(2, Math.floor((right - LEFT) / (clock ? 100 : 70))));
    for (let time = Math.ceil(from / every) * every; time <= to; time += every) {
      const text = clock ? clockText(time, every) : timeText(time), half = (text.length * LETTER) / 2;
      const middle = Math.min(Math.max(x(time), half), width - half);
      shapes.push(shape("text", { x: middle, y: HEIGHT - 5, "text-anchor": "middle" }, text));
    }
    shapes.push(...this.marks(events, x, right, bottom));
    for (const line of lines) shapes.push(...this.path(line, x, y));
    this.svg.replaceChildren(...shapes);
    const said = [...lines.map((line) => `${line.name} ${line.text}`), ...notes.map((note) => note.join(" "))];
    this.svg.setAttribute("aria-label", `${this.title} over time; latest: ${said.join(", ")}`);
  }

  list(lines, notes) {
    const entries = lines.map((line) => {
      const key = shape("svg", { "aria-hidden": "true" });
      key.append(shape("line", { class: `line ${line.style}`, x1: 1, x2: 19, y1: 4, y2: 4 }));
      return element("li", {}, key, element("span", {}, line.name), element("b", {}, line.text));
    });
    for (const [name, text] of notes)
      entries.push(element("li", {}, element("span", {}, name), element("b", {}, text)));
    this.now.replaceChildren(...entries);
  }

  // A second without a value is a gap: a line across it would hide an outage. A value between two gaps is a dot.
  path(line, x, y) {
    let way = "", dots = "";
    const known = (at) => (line.points[at]?.[1] ?? null) !== null;
    line.points.forEach(([time, value], at) => {
      if (!known(at)) return;
      const place = `${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      if (known(at - 1)) way += `L${place}`;
      else if (known(at + 1)) way += `M${place}`;
      else dots += `M${place}h.01`;
    });
    const paths = [[`line ${line.style}`, way], [`line ${line.style} dot`, dots]];
    return paths.filter(([, d]) => d).map(([name, d]) => shape("path", { class: name, d }));
  }

  // Lines at events; the numbers of close events are merged, so that they do not overlap.
  marks(events, x, right, bottom) {
    const shapes = [], groups = [];
    for (const [time, mark] of events) {
      const at = x(time);
      shapes.push(shape("line", { class: "event", x1: at, x2: at, y1: TOP - 4, y2: bottom }));
      const last = groups.at(-1);
      if (last && at - last.at < (String(last.marks[0]).length + String(mark).length + 3) * LETTER) last.marks.push(mark);
      else groups.push({ at, marks: [mark] });
    }
    for (const { at, marks } of groups) {
      const text = marks.length > 1 ? `${Math.min(...marks)}–${Math.max(...marks)}` : `${marks[0]}`;
      shapes.push(shape("text", { x: Math.min(at, right - text.length * LETTER), y: TOP - 8 }, text));
    }
    return shapes;
  }
}
