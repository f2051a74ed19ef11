// Chart of one answer as defined in the workload: bars, columns or figures. Texts are inserted as plain text.

const COLUMNS_HEIGHT = 130, COLUMNS_FOOT = 18;

class Answer {
  constructor(parent) {
    this.title = element("h2");
    this.when = element("p", { class: "soft" });
    this.body = element("div", { class: "scroll" });
    this.box = element("section", { class: "chart answer" }, this.title, this.when, this.body);
    parent.append(this.box);
  }

  draw(record) {
    this.title.textContent = record.title;
    const more = record.more ? `; ${number(record.more)} more are not shown` : "";
    this.when.textContent = `${record.when ?? `${record.operation}, at ${number(record.time)} s`}${more}`;
    const kind = { bars, columns, figures }[record.chart];
    this.body.replaceChildren(...kind(record, this.box.clientWidth - 28));
  }
}

// Ratio of a value to the maximum of the rows; 0 for negative and unknown values.
function share(record, value) {
  const most = Math.max(0, ...record.rows.map((row) => row[1] ?? 0));
  return most > 0 && value > 0 ? value / most : 0;
}

const told = (value) => (value === null || value === undefined ? "–" : number(value));
const head = (record, name) => (record.unit && name === "value" ? record.unit : name);

function bars(record) {
  if (!record.rows.length) return [element("p", { class: "soft" }, "The answer has no rows.")];
  const names = element("tr", {}, element("th", { class: "word" }, "label"), element("td", { class: "bar" }),
    element("th", {}, head(record, "value")), ...record.beside.map((name) => element("th", {}, name)));
  const rows = record.rows.map(([label, value, beside]) => {
    const bar = shape("svg", { "aria-hidden": "true", viewBox: "0 0 100 10", preserveAspectRatio: "none" });
    bar.append(shape("rect", { class: "fill", x: 0, y: 0, height: 10, width: (100 * share(record, value)).toFixed(2) }));
    return element("tr", {}, element("td", { class: "word" }, label), element("td", { class: "bar" }, bar),
      element("td", {}, told(value)), ...beside.map((other) => element("td", {}, told(other))));
  });
  return [element("table", { class: "rows" }, element("thead", {}, names), element("tbody", {}, ...rows))];
}

function columns(record, space) {
  if (!record.rows.length) return [element("p", { class: "soft" }, "The answer has no rows.")];
  const width = Math.max(space, 160), foot = COLUMNS_HEIGHT - COLUMNS_FOOT, each = width / record.rows.length;
  const said = record.rows.map(([label, value]) => `${label} ${told(value)}`).join(", ");
  const svg = shape("svg", { role: "img", width, height: COLUMNS_HEIGHT, "aria-label": said });
  svg.append(shape("text", { x: 0, y: 10 }, `most ${told(Math.max(0, ...record.rows.map((row) => row[1] ?? 0)))} ${record.unit}`));
  record.rows.forEach(([label, value], at) => {
    const height = (foot - 16) * share(record, value);
    const box = shape("rect", { class: "fill", x: (at * each).toFixed(1), y: (foot - height).toFixed(1),
      width: Math.max(each - 1, 1).toFixed(1), height: height.toFixed(1) });
    box.append(shape("title", {}, `${label}: ${told(value)}`));
    svg.append(box);
  });
  const first = record.rows[0][0], last = record.rows.at(-1)[0];
  svg.append(shape("text", { x: 0, y: COLUMNS_HEIGHT - 4 }, first));
  if (record.rows.length > 1 && (first.length + last.length + 2) * LETTER < width)
    svg.append(shape("text", { x: width, y: COLUMNS_HEIGHT - 4, "text-anchor": "end" }, last));
  return [svg];
}

function figures(record) {
  const entries = Object.entries(record.figures).map(([name, value]) =>
    element("li", {}, element("span", {}, name), element("b", {}, told(value))));
  return [element("ul", { class: "now" }, ...entries)];
}
