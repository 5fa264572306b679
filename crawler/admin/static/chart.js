// Charts over time as SVG: lines with gaps, or bars. No state but what is drawn.

import { h, s } from "./dom.js";
import { clock, plain } from "./format.js";

const LEFT = 46;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;
const STEPS = 4;

// The next round number: 1, 2, 2.5, 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export class Chart {
  // options: bars (else lines), format (of a value), label (what it shows, for screen readers)
  constructor(place, options) {
    this.place = place;
    this.options = options;
    this.times = [];
    this.series = [];
    this.tip = h("div", { class: "tip", hidden: true });
    this.svg = s("svg", { role: "img" });
    place.append(this.svg, this.tip);
    new ResizeObserver(() => this.draw()).observe(place);
    place.addEventListener("pointermove", (event) => this.hover(event));
    place.addEventListener("pointerleave", () => this.leave());
  }

  // times: epoch seconds; series: [{name, kind (s1 … s5), values}], null where nothing is known
  set(times, series) {
    this.times = times;
    this.series = series;
    this.draw();
  }

  draw() {
    const width = this.place.clientWidth;
    const height = this.place.clientHeight;
    if (!width || !height) return;
    this.width = width;
    this.height = height;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const known = this.series.flatMap((one) => one.values).filter((value) => value !== null);
    const label = known.length
      ? `${this.options.label}: ${this.series.map((one) => `${one.name} ${this.last(one)}`).join(", ")}`
      : `${this.options.label}: nothing yet`;
    this.svg.setAttribute("aria-label", label);
    if (!known.length) {
      this.svg.replaceChildren(
        s("text", { x: width / 2, y: height / 2, class: "empty", "text-anchor": "middle" }, "Nothing in this time"),
      );
      return;
    }
    const stacked = this.options.bars
      ? this.times.map((_, i) => this.series.reduce((sum, one) => sum + (one.values[i] ?? 0), 0))
      : known;
    const most = Math.max(...stacked);
    this.step = roundUp(most / STEPS);
    this.top = this.step * Math.max(1, Math.ceil((most / this.step) * 0.999));
    const marks = this.options.bars ? this.bars() : this.series.flatMap((one) => this.line(one));
    this.cross = s("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    this.svg.replaceChildren(...this.grid(), ...marks, this.cross);
  }

  last(one) {
    const value = one.values.findLast((each) => each !== null);
    return value === undefined ? "unknown" : this.options.format(value);
  }

  x(i) {
    const room = this.width - LEFT - RIGHT;
    if (this.options.bars) return LEFT + (room * (i + 0.5)) / this.times.length;
    return LEFT + (room * i) / Math.max(1, this.times.length - 1);
  }

  y(value) {
    return TOP + (this.height - TOP - BOTTOM) * (1 - value / this.top);
  }

  grid() {
    const found = [];
    for (let tick = 0; tick <= Math.round(this.top / this.step); tick += 1) {
      const value = this.step * tick;
      const y = Math.round(this.y(value)) + 0.5;
      found.push(s("line", { class: "gridline", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      found.push(s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, plain(this.options.format(value))));
    }
    const every = Math.ceil(this.times.length / Math.max(2, Math.floor(this.width / 110)));
    for (let i = this.times.length - 1; i >= 0; i -= every) {
      const x = this.x(i);
      const anchor = x > this.width - 24 ? "end" : "middle";
      if (x > LEFT + 12) found.push(s("text", { x, y: this.height - 4, "text-anchor": anchor }, clock(this.times[i])));
    }
    return found;
  }

  line(one) {
    const marks = [];
    let path = "";
    let before = false;
    one.values.forEach((value, i) => {
      const after = one.values[i + 1] ?? null;
      if (value === null) {
        before = false;
        return;
      }
      const x = this.x(i).toFixed(1);
      const y = this.y(value).toFixed(1);
      path += `${before ? "L" : "M"}${x} ${y}`;
      if ((!before && after === null) || i === one.values.length - 1) {
        marks.push(s("circle", { class: `point ${one.kind}`, cx: x, cy: y, r: 2.6 }));
      }
      before = true;
    });
    return [s("path", { class: `line ${one.kind}`, d: path }), ...marks];
  }

  bars() {
    const room = (this.width - LEFT - RIGHT) / this.times.length;
    const width = Math.min(28, Math.max(1.5, room * 0.72));
    const marks = [];
    this.times.forEach((_, i) => {
      let below = 0;
      for (const one of this.series) {
        const value = one.values[i] ?? 0;
        if (value <= 0) continue;
        const y = this.y(below + value);
        const height = Math.max(1, this.y(below) - y);
        marks.push(s("rect", { class: `area ${one.kind}`, x: (this.x(i) - width / 2).toFixed(1), y: y.toFixed(1), width: width.toFixed(1), height: height.toFixed(1), rx: 1.5 }));
        below += value;
      }
    });
    return marks;
  }

  hover(event) {
    if (!this.times.length || !this.cross?.isConnected) return;
    const at = event.clientX - this.place.getBoundingClientRect().left;
    let nearest = 0;
    this.times.forEach((_, i) => {
      if (Math.abs(this.x(i) - at) < Math.abs(this.x(nearest) - at)) nearest = i;
    });
    const x = this.x(nearest);
    this.cross.setAttribute("x1", x);
    this.cross.setAttribute("x2", x);
    this.cross.setAttribute("visibility", "visible");
    this.tip.replaceChildren(
      h("strong", {}, clock(this.times[nearest])),
      ...this.series.map((one) =>
        h("div", {}, h("span", { class: `key ${one.kind}` }), `${one.name}: ${one.values[nearest] === null ? "–" : this.options.format(one.values[nearest])}`),
      ),
    );
    this.tip.hidden = false;
    const left = x + this.tip.offsetWidth + 16 > this.width ? x - this.tip.offsetWidth - 12 : x + 12;
    this.tip.style.left = `${Math.max(0, left)}px`;
  }

  leave() {
    this.tip.hidden = true;
    this.cross?.setAttribute("visibility", "hidden");
  }
}
