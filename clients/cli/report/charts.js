"use strict";
// Draws the figures of the page as SVG: lines, steps, stacked areas and marks over one x axis. No library.
const SVG = "http://www.w3.org/2000/svg";
const MARK = {
  "triangle-up": "M0,-7L7,6H-7Z", "triangle-down": "M0,7L7,-6H-7Z", diamond: "M0,-8L8,0L0,8L-8,0Z",
  x: "M-6,-4L-4,-6L0,-2L4,-6L6,-4L2,0L6,4L4,6L0,2L-4,6L-6,4L-2,0Z", circle: "M-5,0A5,5 0 1 0 5,0A5,5 0 1 0 -5,0Z",
  star: "M0,-9L2.6,-3L9,-2.6L4,1.6L5.6,8L0,4.6L-5.6,8L-4,1.6L-9,-2.6L-2.6,-3Z",
};
const svg = (name, attributes = {}, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};
const html = (name, className, text = "") => {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
};
const shortened = (value) => {
  const size = Math.abs(value);
  if (size >= 1e6) return +(value / 1e6).toPrecision(4) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(4) + "k";
  return String(+value.toPrecision(6));
};
const exact = (value) => (+(+value).toPrecision(7)).toLocaleString("en");
// Steps of an axis are 1, 2 or 5 times a power of ten; of time, usual parts of minutes, hours and days.
const roundStep = (span, count, isWhole) => {
  const rough = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  return isWhole ? Math.max(1, Math.round(step)) : step;
};
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30].map((one) => one * SECOND).concat(
  [1, 2, 5, 10, 15, 30].map((one) => one * MINUTE), [1, 2, 3, 6, 12].map((one) => one * HOUR),
  [1, 2, 7, 14, 28, 91, 182, 365, 730].map((one) => one * DAY));
const timeText = (moment, step) => {
  const text = new Date(moment).toISOString();
  if (step >= DAY) return text.slice(5, 10);
  const clock = step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
  return clock.startsWith("00:00") ? text.slice(5, 10) + " " + clock : clock;
};
const ticksOf = (low, high, count, isDate, isWhole) => {
  const span = high - low || 1;
  const step = isDate ? TIME_STEPS.find((one) => span / one <= count) || 730 * DAY : roundStep(span, count, isWhole);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return [found, step];
};
class Drawn {
  constructor(place, figure) {
    this.place = place;
    this.figure = figure;
    this.isDate = figure.layout.xaxis.type === "date";
    const at = this.isDate ? (text) => Date.parse(text.replace(" ", "T") + "Z") : Number;
    this.hidden = new Set();
    const below = new Map();
    this.traces = figure.data.map((trace, number) => {
      const x = trace.x.map((one) => (one === null ? null : at(one)));
      let y = trace.y, base = null;
      if (trace.stackgroup) {
        base = x.map((one) => below.get(one) || 0);
        y = trace.y.map((one, index) => one + base[index]);
        x.forEach((one, index) => below.set(one, y[index]));
      }
      return {...trace, number, px: x, py: y, base};
    });
    this.holder = html("div", "plot");
    this.tip = html("div", "tip");
    this.tip.hidden = true;
    place.append(this.holder, this.tip);
    if (figure.layout.showlegend) place.append(this.legend());
    this.holder.addEventListener("pointermove", (event) => this.hover(event));
    this.holder.addEventListener("pointerleave", () => this.leave());
    this.draw();
  }
  legend() {
    const list = html("ul", "legend keys");
    this.traces.forEach((trace) => {
      const item = html("li", ""), button = html("button", "", trace.name), mark = document.createElement("i");
      mark.style.background = (trace.marker || trace.line).color;
      button.type = "button";
      button.prepend(mark);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!this.hidden.delete(trace.number)) this.hidden.add(trace.number);
        button.setAttribute("aria-pressed", String(!this.hidden.has(trace.number)));
        this.draw();
      });
      item.append(button);
      list.append(item);
    });
    return list;
  }
  get shown() { return this.traces.filter((trace) => !this.hidden.has(trace.number)); }
  bounds() {
    let [left, right, top] = [Infinity, -Infinity, 0];
    for (const trace of this.shown) {
      trace.px.forEach((x, index) => {
        if (x === null) return;
        left = Math.min(left, x); right = Math.max(right, x); top = Math.max(top, trace.py[index]);
      });
    }
    if (left > right) [left, right] = [0, 1];
    if (left === right) { left -= this.isDate ? HOUR : 0.5; right += this.isDate ? HOUR : 0.5; }
    const isMarked = this.traces.some((trace) => trace.mode === "markers");
    const room = isMarked ? (right - left) * 0.02 : 0;
    return {left: left - room, right: right + room, top: top * (isMarked ? 1.08 : 1.04) || 1};
  }
  draw(size) {
    this.size = size || this.size;
    const width = this.size?.width || this.place.clientWidth, height = this.size?.height || 300;
    const {left, right, top} = this.bounds(), layout = this.figure.layout;
    const yTitle = layout.yaxis.title.text, xTitle = layout.xaxis.title?.text || "";
    const count = layout.yaxis.nticks || 6;
    const [yTicks] = ticksOf(0, top, count, false, Number.isInteger(layout.yaxis.nticks));
    const gutter = Math.max(...yTicks.map((one) => shortened(one).length)) * 7.5 + (yTitle ? 26 : 10);
    const area = {x: gutter, y: 10, width: Math.max(40, width - gutter - 14), height: height - (xTitle ? 52 : 34)};
    this.area = area;
    this.toX = (x) => area.x + ((x - left) / (right - left)) * area.width;
    this.toY = (y) => area.y + area.height - (y / top) * area.height;
    this.fromX = (px) => left + ((px - area.x) / area.width) * (right - left);
    const root = svg("svg", {class: "main-svg", width, height, viewBox: `0 0 ${width} ${height}`});
    const grid = svg("g", {class: "grid"}), labels = svg("g", {class: "labels"});
    for (const tick of yTicks) {
      const y = this.toY(tick);
      grid.append(svg("line", {x1: area.x, x2: area.x + area.width, y1: y, y2: y, class: tick ? "" : "zero"}));
      const group = svg("g", {class: "ytick"});
      group.append(svg("text", {x: area.x - 6, y: y + 4, "text-anchor": "end"}, shortened(tick)));
      labels.append(group);
    }
    const [xTicks, step] = ticksOf(left, right, Math.max(2, area.width / 90), this.isDate, false);
    for (const tick of xTicks) {
      const x = this.toX(tick), group = svg("g", {class: "xtick"});
      grid.append(svg("line", {x1: x, x2: x, y1: area.y + area.height, y2: area.y + area.height + 4}));
      const text = this.isDate ? timeText(tick, step) : shortened(tick);
      const near = x > width - 4 * text.length ? "end" : x < 4 * text.length ? "start" : "middle";
      group.append(svg("text", {x, y: area.y + area.height + 18, "text-anchor": near}, text));
      labels.append(group);
    }
    if (xTitle) labels.append(svg("text", {class: "xtitle", x: area.x + area.width / 2, y: height - 6, "text-anchor": "middle"}, xTitle));
    const middle = area.y + area.height / 2;
    if (yTitle) labels.append(svg("text", {class: "ytitle", x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})`}, yTitle));
    root.append(grid, labels);
    this.cursor = svg("line", {class: "cursor", y1: area.y, y2: area.y + area.height, visibility: "hidden"});
    root.append(...this.shown.map((trace) => (trace.mode === "markers" ? this.points(trace) : this.line(trace))), this.cursor);
    this.holder.replaceChildren(root);
  }
  line(trace) {
    const isStep = trace.line.shape === "hv", group = svg("g", {class: "trace"});
    const path = (ys) => {
      let text = "", last = null;
      trace.px.forEach((x, index) => {
        if (x === null) { last = null; return; }
        const px = this.toX(x).toFixed(1), py = this.toY(ys[index]).toFixed(1);
        text += last === null ? `M${px},${py}` : isStep ? `H${px}V${py}` : `L${px},${py}`;
        last = py;
      });
      return text;
    };
    if (trace.stackgroup && trace.px.length) {
      const back = [];
      for (let index = trace.px.length - 1; index >= 0; index--) {
        const y = this.toY(trace.base[index]).toFixed(1);
        if (isStep && index < trace.px.length - 1) back.push(`V${y}H${this.toX(trace.px[index]).toFixed(1)}`);
        else back.push(`L${this.toX(trace.px[index]).toFixed(1)},${y}`);
      }
      group.append(svg("path", {d: `${path(trace.py)}${back.join("")}Z`, fill: trace.line.color, "fill-opacity": 0.55, stroke: "none"}));
    }
    const width = trace.stackgroup ? 1 : trace.line.width || 2;
    const dash = trace.line.dash === "dot" ? {"stroke-dasharray": "2 4"} : {};
    group.append(svg("path", {d: path(trace.py), fill: "none", stroke: trace.line.color, "stroke-width": width, ...dash}));
    return group;
  }
  points(trace) {
    const group = svg("g", {class: "points"});
    trace.px.forEach((x, index) => {
      const at = `translate(${this.toX(x).toFixed(1)} ${this.toY(trace.py[index]).toFixed(1)})`;
      const mark = svg("path", {d: MARK[trace.marker.symbol] || MARK.circle, transform: at, fill: trace.marker.color, class: "mark"});
      const opens = trace.customdata?.[index];
      if (opens) mark.addEventListener("click", () => reveal(opens));
      group.append(mark);
    });
    return group;
  }
  nearest(trace, x) {
    let best = -1;
    trace.px.forEach((one, index) => {
      if (one !== null && (best < 0 || Math.abs(one - x) < Math.abs(trace.px[best] - x))) best = index;
    });
    return best;
  }
  hover(event) {
    const box = this.holder.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let told = [], at = null;
    if (this.figure.layout.hovermode === "x") {
      const x = this.fromX(px);
      for (const trace of this.shown) {
        const index = this.nearest(trace, x);
        if (index < 0) continue;
        at = at === null ? trace.px[index] : at;
        told.push(`${trace.name}: ${exact(trace.y[index])}`);
      }
      if (at !== null && this.isDate) told.unshift(new Date(at).toISOString().slice(0, 19).replace("T", " "));
    } else {
      let best = 30;
      for (const trace of this.shown) {
        trace.px.forEach((x, index) => {
          if (x === null) return;
          const away = Math.hypot(this.toX(x) - px, this.toY(trace.py[index]) - py);
          const isNearer = trace.mode === "markers" ? away < best : away < best - 8;
          if (!isNearer) return;
          best = away; at = x;
          const named = this.isDate ? `${new Date(x).toISOString().slice(0, 19).replace("T", " ")}, ${trace.name}` : trace.name;
          told = [trace.text?.[index] || `${named}: ${exact(trace.y[index])}`];
        });
      }
    }
    this.tip.hidden = at === null;
    if (at === null) { this.cursor.setAttribute("visibility", "hidden"); return; }
    const x = this.toX(at);
    this.cursor.setAttribute("x1", x); this.cursor.setAttribute("x2", x);
    this.cursor.setAttribute("visibility", "visible");
    this.tip.textContent = told.join("\n");
    this.tip.style.left = `${Math.max(0, Math.min(px + 14, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${Math.max(0, py + 16)}px`;
  }
  leave() { this.tip.hidden = true; this.cursor.setAttribute("visibility", "hidden"); }
}
const reveal = (id) => {
  const entry = document.getElementById(id);
  if (!entry) return;
  for (let outer = entry; outer; outer = outer.parentElement?.closest("details")) outer.open = true;
  entry.scrollIntoView({block: "center"});
  entry.querySelector("summary").focus({preventScroll: true});
};
