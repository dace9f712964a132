// What the explorer found: facts, and JSON that is indented as it is, with links where there is more to find.

import { ago, byId, clock, dateAndTime, findLink, make, provide, short } from "./elements.js";

const SHOWN_MAX = 300000;
const LINKS_MAX = 2000;
// A member with a field element; or a record of L1, whose hashes are not of this chain, to be passed over.
const MEMBER = /"l1": \{[^}]*\}|"(\w+)": "(0x[0-9a-f]{64})"/g;
const ZERO = /^0x0*$/;
// What the explorer can look up.  It finds no tree roots, note hashes, nullifiers or slots.
const LINKED = new Set([
  "hash", "blockHash", "l2BlockHash", "txHash", "id", "address", "contractAddress", "deployer", "currentContractClassId", "originalContractClassId",
]);
// Here `hash` is that of a call's arguments.
const LINKED_IN_PENDING = new Set(["txHash"]);

/** JSON text with line breaks and indents.  Not parsed: numbers stay as they are written. */
export function indent(json) {
  let out = "", depth = 0, index = 0;
  const line = () => "\n" + "  ".repeat(depth);
  while (index < json.length) {
    const sign = json[index];
    if (sign === '"') {
      const start = index;
      index += 1;
      while (index < json.length && json[index] !== '"') index += json[index] === "\\" ? 2 : 1;
      index += 1;
      out += json.slice(start, index);
      continue;
    }
    index += 1;
    if (sign === "{" || sign === "[") {
      const closing = json[index];
      if (closing === "}" || closing === "]") { out += sign + closing; index += 1; continue; }
      depth += 1;
      out += sign + line();
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      out += line() + sign;
    } else if (sign === ",") out += sign + line();
    else if (sign === ":") out += ": ";
    else out += sign;
  }
  return out;
}

/** A block of JSON, with links at the members named in `linked`; keyboards can scroll it. */
export function jsonBlock(json, label, linked = LINKED) {
  const text = indent(json.slice(0, SHOWN_MAX));
  const block = make("pre", { tabindex: "0", role: "group", "aria-label": label });
  let end = 0, links = 0;
  for (const { 0: member, 1: name, 2: value, index } of text.matchAll(MEMBER)) {
    if (!linked.has(name) || ZERO.test(value) || links >= LINKS_MAX) continue;
    links += 1;
    const start = index + member.length - 1 - value.length;
    block.append(text.slice(end, start), findLink(value));
    end = start + value.length;
  }
  block.append(text.slice(end));
  if (json.length > SHOWN_MAX) block.append("\n… cut here; the file has all of it");
  return block;
}

function download(json, name) {
  const address = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function saveButton(json, name) {
  const button = make("button", { type: "button", class: "copy" }, "Save as file");
  button.addEventListener("click", () => download(json, name));
  return button;
}

/** Put a text on the clipboard; where a page may not (plain HTTP from another machine), by way of a selection. */
async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = make("textarea", { "aria-hidden": "true", class: "skip" });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

function copyButton(text, name) {
  const button = make("button", { type: "button", class: "copy", "aria-label": `Copy ${name}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await copy(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

const HASH = /^0x[0-9a-f]{40,}$/;
const HEX = /^0x[0-9a-f]+(:\S+)?$/;

/** A time with its age; in a table the age alone, with the time when it is pointed at. */
function timeOf(timestamp, isShort) {
  const text = dateAndTime(timestamp);
  const age = timestamp ? ago(Math.max(0, Date.now() / 1000 + clock.ahead - timestamp)) : "at genesis";
  return make("time", { datetime: text, title: isShort ? text : null }, isShort ? age : `${text} (${age})`);
}

/** What a fact says; in a table hashes are short, and their whole is in the link. */
function factValue(fact, isShort = false) {
  if (/^@[0-9]+$/.test(fact.value)) return timeOf(Number(fact.value.slice(1)), isShort);
  const text = isShort && HASH.test(fact.value) ? short(fact.value) : fact.value;
  const shown = fact.query === null ? make("span", {}, text) : findLink(fact.query, text);
  if (HEX.test(fact.value)) shown.className = isShort && text.length < 14 ? "hash whole" : "hash";
  if (text !== fact.value) shown.title = fact.value;
  else if (fact.query !== null && HASH.test(fact.query) && fact.query !== text) shown.title = fact.query;
  return shown;
}

function tableOf(table) {
  const head = make("tr", {}, ...table.columns.map((name) => make("th", { scope: "col" }, name)));
  const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", { "data-name": cell.name }, factValue(cell, true)))));
  const caption = table.title ? make("caption", {}, table.title) : null;
  return make("table", { class: "found" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
}

function documentParts(document) {
  const call = `${document.method} ${JSON.stringify(document.params)}`;
  if (document.json === null) {
    return [make("h3", {}, call), make("p", { class: "quiet" }, `${document.size} bytes: too long for a page; ask the public port for it.`)];
  }
  return [
    make("h3", { class: "hash" }, call),
    make("p", { class: "row" }, saveButton(document.json, `${document.method}.json`), copyButton(document.json, `result of ${document.method}`)),
    jsonBlock(document.json, `Result of ${document.method}`, document.method === "node_getTxByHash" ? LINKED_IN_PENDING : LINKED),
  ];
}

function findingParts(finding) {
  const list = make("dl");
  for (const fact of finding.facts) {
    const value = HASH.test(fact.value) ? [factValue(fact), " ", copyButton(fact.value, fact.name)] : [factValue(fact)];
    list.append(make("dt", {}, fact.name), make("dd", {}, ...value));
  }
  const parts = [make("h3", {}, finding.title)];
  if (finding.facts.length) parts.push(list);
  if (finding.table !== null && finding.table.rows.length) parts.push(tableOf(finding.table));
  else if (finding.table !== null && !finding.facts.length) parts.push(make("p", { class: "quiet" }, "There are none now."));
  parts.push(...finding.tables.map(tableOf));
  if (finding.more.length) {
    parts.push(make("p", { class: "row wrap" }, ...finding.more.map((fact) => findLink(fact.query, `${fact.name}: ${fact.value}`))));
  }
  if (finding.trace !== null) parts.push(make("p", {}, make("a", { href: `#trace=${finding.trace}` }, "Its public calls as a tree")));
  if (finding.block !== null) parts.push(make("p", {}, make("a", { href: `#block=${finding.block}` }, "The whole block as JSON")));
  return [...parts, ...finding.documents.flatMap(documentParts)];
}

export function show(title, parts) {
  byId("result-title").textContent = title;
  byId("result-body").replaceChildren(...parts);
  byId("result").hidden = false;
  byId("result-title").focus();
  document.title = `${title} · fastnode`;
}

/** Show what a text means; `ask` fetches JSON text from a path. */
export async function showFound(ask, query) {
  const answer = JSON.parse(await ask("find?q=" + encodeURIComponent(query)));
  const parts = answer.found.flatMap(findingParts);
  if (answer.message !== null) parts.push(make("p", {}, answer.message));
  show(`Found for ${answer.query || "nothing"}`, parts);
  const [first] = answer.found;
  if (first) document.title = `${first.title}${first.title.endsWith(answer.query) ? "" : ` ${short(answer.query)}`} · fastnode`;
}

export async function showBlock(ask, number) {
  const json = await ask("block?number=" + encodeURIComponent(number), { isOptional: true });
  if (json === null) {
    show(`Block ${number}`, [make("p", {}, "There is no such block.")]);
    return;
  }
  const back = make("p", {}, findLink(number, "What is known of it"));
  const buttons = make("p", { class: "row" }, saveButton(json, `block-${number}.json`), copyButton(json, `block ${number}`));
  show(`Block ${number}, whole`, [back, buttons, jsonBlock(json, `Block ${number}`)]);
}

provide("explorer", { showBlock, showFound });
