// Rates and latencies by method: from counters that only rise to lines that are drawn.

const SVG = "http://www.w3.org/2000/svg";
const USUAL_WIDTH = 600, HEIGHT = 144, LEFT = 46, TOP = 8, BOTTOM = 18;
const SAMPLES = 90;
const LINES = 5;
const OTHERS = "all others";

/** What happened between two readings of a method's row: [errors, nanoseconds, calls per bucket...]. */
function difference(now, before) {
  return before ? now.map((value, index) => value - before[index]) : now;
}

/** The upper bound of the bucket in which a share of the calls is reached, in nanoseconds. */
export function quantile(counts, bounds, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let seen = 0;
  for (let index = 0; index < counts.length; index += 1) {
    const before = seen;
    seen += counts[index];
    if (seen >= share * total) {
      const low = index === 0 ? 0 : bounds[index - 1];
      const high = index < bounds.length ? bounds[index] : bounds[bounds.length - 1];
      return low + (high - low) * ((share * total - before) / counts[index]);
    }
  }
  return bounds[bounds.length - 1];
}

export class CallHistory {
  constructor() {
    this.samples = [];
    this.last = null;
  }

  /** Take the counters of an overview; returns a row for each method that was ever called. */
  add(now, calls) {
    const last = this.last;
    this.last = { now, methods: calls.methods };
    const seconds = last ? now - last.now : 0;
    const rows = Object.entries(calls.methods).map(([name, row]) => {
      const [errors, , ...counts] = last ? difference(row, last.methods[name]) : row.map(() => 0);
      const count = counts.reduce((sum, value) => sum + value, 0);
      return {
        name,
        perSecond: seconds > 0 ? count / seconds : 0,
        counts,
        newErrors: errors,
        p50: quantile(counts, calls.boundsNs, 0.5),
        p99: quantile(counts, calls.boundsNs, 0.99),
        errors: row[0],
        total: row.slice(2).reduce((sum, value) => sum + value, 0),
      };
    });
    rows.sort((a, b) => b.perSecond - a.perSecond || b.total - a.total);
    if (seconds > 0) {
      this.samples.push({ time: now, rows: new Map(rows.map((row) => [row.name, row])) });
      if (this.samples.length > SAMPLES) this.samples.shift();
    }
    return rows;
  }

  /** Names of the lines: the methods called most in the window, and the rest together. */
  lines() {
    const totals = new Map();
    for (const sample of this.samples) {
      for (const [name, row] of sample.rows) {
        const count = row.counts.reduce((sum, value) => sum + value, 0);
        if (count) totals.set(name, (totals.get(name) ?? 0) + count);
      }
    }
    const names = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
    return names.length > LINES ? [...names.slice(0, LINES), OTHERS] : names;
  }

  rates(names) {
    return names.map((name) => this.samples.map((sample) => {
      if (name !== OTHERS) return sample.rows.get(name)?.perSecond ?? 0;
      return [...sample.rows.values()].filter((row) => !names.includes(row.name)).reduce((sum, row) => sum + row.perSecond, 0);
    }));
  }

  latencies(names, bounds) {
    return names.map((name) => this.samples.map((sample) => {
      if (name !== OTHERS) return sample.rows.get(name)?.p99 ?? null;
      const counts = new Array(bounds.length + 1).fill(0);
      for (const row of sample.rows.values()) {
        if (!names.includes(row.name)) row.counts.forEach((count, index) => { counts[index] += count; });
      }
      return quantile(counts, bounds, 0.99);
    }));
  }
}

function element(name, attributes, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

/** Draw lines into an svg; null is a gap.  `show` names the values at the axis. */
export function draw(svg, lines, show) {
  // One unit is one pixel, so that labels have their size on a phone too.
  const width = Math.round(svg.clientWidth) || USUAL_WIDTH;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const values = lines.flat().filter((value) => value !== null);
  const top = Math.max(...values, 0) || 1;
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const x = (index, length) => LEFT + ((SAMPLES - length + index) / (SAMPLES - 1)) * (width - LEFT - 4);
  const parts = [];
  for (const share of lines.length ? [0, 0.5, 1] : [0]) {
    parts.push(element("line", { x1: LEFT, x2: width - 4, y1: y(top * share), y2: y(top * share) }));
    parts.push(element("text", { x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, show(top * share)));
  }
  parts.push(element("text", { x: width - 4, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
  lines.forEach((line, number) => {
    let path = "", isDrawing = false;
    line.forEach((value, index) => {
      if (value !== null) {
        path += `${isDrawing ? "L" : "M"}${x(index, line.length).toFixed(1)} ${y(value).toFixed(1)}`;
        if (!isDrawing) path += "h0.1";
      }
      isDrawing = value !== null;
    });
    parts.push(element("path", { d: path, class: `c${number}` }));
  });
  if (!lines.length) {
    const place = { x: (LEFT + width) / 2, y: HEIGHT / 2, "text-anchor": "middle" };
    parts.push(element("text", place, "No calls in this time"));
  }
  svg.replaceChildren(...parts);
}
