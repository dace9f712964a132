// Elements and texts.  Whatever comes from the node becomes text, never markup.

const provided = {};

/** Hand out the functions of a module that is here: an import would give them one picture of the screen later. */
export function provide(name, functions) {
  provided[name] = functions;
}

/** The functions of a module; loaded if it is not here yet. */
export const use = (name) => provided[name] ?? import(`./${name}.js`);

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children, which are elements or texts. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** A link to what the explorer says of a text. */
export function findLink(query, text = query) {
  return make("a", { href: "#find=" + encodeURIComponent(query) }, text);
}

export function fillList(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, value, kind]) => [
    make("dt", {}, name),
    make("dd", { class: kind ?? null }, value instanceof Node ? value : String(value)),
  ]));
}

// Not toLocaleString: the browser's tables of languages take longer to load than all numbers of the page to write.
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

export const whole = (value) => grouped(String(Math.round(value)));

const DECIMALS = 18;

/** An amount of the smallest unit, in whole ones with up to four decimals. */
export function whole18(text) {
  const digits = text.padStart(DECIMALS + 1, "0");
  const units = grouped(digits.slice(0, -DECIMALS));
  const rest = digits.slice(-DECIMALS, -DECIMALS + 4).replace(/0+$/, "");
  return rest ? `${units}.${rest}` : units;
}

export function short(hash) {
  return hash.length > 11 ? hash.slice(0, 6) + "…" + hash.slice(-4) : hash;
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${whole(Math.floor(seconds / 86400))} d`;
}

/** A timestamp as date and time in UTC. */
export function dateAndTime(timestamp) {
  return new Date(timestamp * 1000).toISOString().replace(/\.[0-9]+/, "");
}

/** Seconds by which the node's clock is ahead of this machine's. */
export const clock = { ahead: 0 };

/** How long ago something was, by the node's clock. */
export function ago(seconds) {
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

export function latency(ns) {
  if (ns === null) return "–";
  if (ns < 1e6) return `${Math.round(ns / 1e3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
  return `${(ns / 1e9).toFixed(1)} s`;
}

export function rate(perSecond) {
  return perSecond < 10 ? perSecond.toFixed(1) : whole(perSecond);
}
