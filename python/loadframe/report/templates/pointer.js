"use strict";
// Shows values at the pointer in plots. Without scripts, only this is missing from a page.
const number = value => value.toLocaleString("en", {maximumSignificantDigits: 4});

function pixelOf(axis, value) {
  let place = axis.categories ? axis.categories.indexOf(value) : value;
  if (axis.log) place = Math.log10(place);
  const [low, high] = axis.values, [start, end] = axis.pixels;
  return start + (place - low) / (high - low) * (end - start);
}

function pointsOf(figure) {
  const points = [];
  for (const trace of figure.traces) {
    if (trace.hover === false) continue;
    trace.x.forEach((x, index) => {
      const y = trace.y[index];
      if (x === null || y === null) return;
      points.push({trace, index, x, y, left: pixelOf(figure.x, x), top: pixelOf(figure.panels[trace.panel], y)});
    });
  }
  return points;
}

// The nearest point within 30 pixels.
function nearest(points, x, y) {
  let best = null, least = 30 * 30;
  for (const point of points) {
    const distance = (point.left - x) ** 2 + (point.top - y) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best ? [best] : [];
}

// The point of each trace nearest to the pointer's x, within 12 pixels.
function atTime(points, x) {
  const best = new Map();
  for (const point of points) {
    const other = best.get(point.trace);
    if (!other || Math.abs(point.left - x) < Math.abs(other.left - x)) best.set(point.trace, point);
  }
  return [...best.values()].filter(point => Math.abs(point.left - x) < 12);
}

function words(figure, points) {
  if (!figure.follow) {
    const {trace, index, x, y} = points[0];
    if (trace.texts) return [{text: trace.texts[index]}];
    return [{text: `${trace.name}\n${x}: ${number(y)}`}];
  }
  const lines = points.map(({trace, y}) => ({color: trace.color, text: `${trace.name}: ${number(y)}`}));
  return [{text: `${number(points[0].x)} s`}, ...lines];
}

function watch(plot) {
  const figure = JSON.parse(plot.querySelector("script").textContent);
  const hidden = new Set();
  for (const svg of plot.querySelectorAll("svg")) {
    point(plot, svg, svg.closest(".narrow") ? {...figure, ...figure.narrow} : figure, hidden);
  }
  legend(plot, figure, hidden);
}

function point(plot, svg, figure, hidden) {
  const points = pointsOf(figure);
  const box = plot.appendChild(document.createElement("div"));
  box.className = "pointer";
  box.hidden = true;
  const shape = name => svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
  const ring = shape("circle"), line = shape("line");
  ring.setAttribute("class", "ring");
  line.setAttribute("class", "at");
  const hide = () => { box.hidden = true; ring.style.display = line.style.display = "none"; };
  hide();
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const area = svg.getBoundingClientRect(), scale = figure.width / area.width;
    const x = (event.clientX - area.left) * scale, y = (event.clientY - area.top) * scale;
    const shown = points.filter(point => !hidden.has(point.trace));
    const found = figure.follow ? atTime(shown, x) : nearest(shown, x, y);
    hide();
    if (!found.length) return;
    box.replaceChildren(...words(figure, found).map(({color, text}) => {
      const row = document.createElement("div");
      row.textContent = text;
      if (color) row.style.borderLeft = `3px solid ${color}`;
      return row;
    }));
    box.hidden = false;
    const at = found[0].left;
    if (figure.follow) {
      for (const [key, value] of [["x1", at], ["x2", at], ["y1", figure.panels[0].pixels[1]],
        ["y2", figure.panels[figure.panels.length - 1].pixels[0]]]) line.setAttribute(key, value);
      line.style.display = "";
    } else {
      ring.setAttribute("cx", at);
      ring.setAttribute("cy", found[0].top);
      ring.setAttribute("r", 8);
      ring.style.display = "";
    }
    const left = at / scale, wide = box.offsetWidth;
    box.style.left = `${left + 14 + wide > area.width ? Math.max(left - wide - 14, 0) : left + 14}px`;
    box.style.top = `${Math.max((figure.follow ? y : found[0].top) / scale - box.offsetHeight / 2, 0)}px`;
  });
}

// A click on a name in the legend, or Enter or Space, hides or shows its traces.
function legend(plot, figure, hidden) {
  for (const svg of plot.querySelectorAll("svg")) svg.setAttribute("role", "group");
  for (const key of plot.querySelectorAll(".key")) {
    key.setAttribute("role", "button");
    key.setAttribute("tabindex", "0");
    key.setAttribute("aria-pressed", "true");
    key.setAttribute("aria-label", `Show ${key.textContent}`);
    key.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      key.dispatchEvent(new MouseEvent("click"));
    });
    key.addEventListener("click", () => {
      const off = !key.classList.contains("off");
      for (const other of plot.querySelectorAll(".key")) {
        if (other.dataset.key !== key.dataset.key) continue;
        other.classList.toggle("off", off);
        other.setAttribute("aria-pressed", !off);
      }
      for (const part of plot.querySelectorAll("[data-group]")) {
        if (part.dataset.group === key.dataset.key) part.style.display = off ? "none" : "";
      }
      for (const trace of figure.traces) {
        if (trace.group === key.dataset.key) off ? hidden.add(trace) : hidden.delete(trace);
      }
    });
  }
}

document.querySelectorAll(".plot").forEach(watch);
// Expand all sections for printing.
window.addEventListener("beforeprint", () => {
  for (const element of document.querySelectorAll("details")) element.open = true;
});
