// What a transaction did, as a tree of its public calls.

import { findLink, make, short, whole } from "./elements.js";
import { show } from "./explorer.js";

const NODES_MAX = 1500;
const OPEN_DEPTH = 3;
const FIELDS_SHOWN = 4;
const OUTCOMES = ["success", "app logic reverted", "teardown reverted", "app logic and teardown reverted"];

/** A field: a small number as such, of others the digits at both ends. */
const field = (value) => (/^0x0*[0-9a-f]{1,12}$/.test(value) ? String(parseInt(value, 16)) : short(value));

const fields = (values) => `(${values.slice(0, FIELDS_SHOWN).map(field).join(", ")}${values.length > FIELDS_SHOWN ? ", …" : ""})`;

function value(decoded) {
  if (typeof decoded === "string") return decoded.startsWith("0x") ? short(decoded) : decoded;
  if (Array.isArray(decoded)) return `[${decoded.map(value).join(", ")}]`;
  if (decoded !== null && typeof decoded === "object") return `{${Object.entries(decoded).map(([name, inner]) => `${name}: ${value(inner)}`).join(", ")}}`;
  return String(decoded);
}

const named = (values) => `(${values.map((each) => `${each.name}: ${value(each.value)}`).join(", ")})`;

const cut = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);

function heading(call) {
  const name = call.functionName ?? call.functionSelector ?? "no function";
  const given = call.arguments === undefined ? fields(call.calldata.slice(1)) : named(call.arguments);
  return cut(`${call.contractName ?? short(call.contractAddress)}.${name}${given}`);
}

function ending(call) {
  if (!call.success) return `failed: ${call.assertion ?? (call.message || "no reason")}`;
  if (call.returnValue !== undefined) return cut(`gave ${value(call.returnValue)}`);
  return call.returnData.length ? `gave ${fields(call.returnData)}` : "gave nothing";
}

/** One thing that a call did, in words. */
function eventText(event) {
  switch (event.event) {
    case "storageRead": return `read ${event.slotName ?? field(event.slot)}: ${field(event.value)}`;
    case "storageWrite": return `wrote ${event.slotName ?? field(event.slot)}: ${field(event.oldValue)} → ${field(event.newValue)}`;
    case "publicLog": return event.eventName === undefined ? `log ${fields(event.fields)}` : cut(`event ${event.eventName}${named(event.arguments ?? [])}`);
    case "debugLog": return cut(`debug log ${event.message} ${fields(event.fields)}`);
    default: {
      const rest = Object.entries(event).filter(([name]) => name !== "event" && name !== "pc");
      return cut(`${event.event} ${rest.map(([name, inner]) => `${name} ${typeof inner === "string" ? field(inner) : inner}`).join(", ")}`);
    }
  }
}

class Tree {
  constructor() {
    this.left = NODES_MAX;
  }

  call(call, depth) {
    const gas = `${whole(call.gasUsed.l2Gas)} L2 gas, ${whole(call.gasUsed.daGas)} DA gas`;
    const ends = make("span", { class: call.success ? "good" : "bad" }, ending(call));
    const summary = make("summary", {}, make("b", {}, heading(call)), " ", ends);
    const whose = make("p", { class: "quiet" }, call.isStaticCall ? "static call of " : "of ", findLink(call.contractAddress, short(call.contractAddress)),
      " by ", findLink(call.msgSender, short(call.msgSender)), `, ${gas}`);
    return make("li", {}, make("details", { open: depth < OPEN_DEPTH ? "" : null }, summary, whose, this.entries(call, depth)));
  }

  entries(call, depth) {
    const items = [];
    for (const entry of call.entries) {
      if (this.left <= 0) break;
      this.left -= 1;
      items.push(entry.event === "call" ? this.call(entry, depth + 1) : make("li", {}, eventText(entry)));
    }
    return items.length ? make("ul", { class: "plain" }, ...items) : null;
  }
}

function facts(trace) {
  const list = make("dl");
  const row = (name, text, kind = null) => list.append(make("dt", {}, name), make("dd", { class: kind }, text));
  row("Transaction", findLink(trace.txHash));
  row("Place", trace.status === "mined" ? `block ${trace.blockNumber}, number ${trace.txIndexInBlock}` : trace.status);
  if (trace.revertCode !== undefined) row("Outcome", OUTCOMES[trace.revertCode] ?? `revert code ${trace.revertCode}`, trace.revertCode ? "bad" : "good");
  const reason = trace.revertReason;
  if (reason !== undefined) row("Why", reason.assertion ?? reason.originalMessage ?? "", "bad");
  for (const [phase, used] of Object.entries(trace.gas?.phases ?? {})) {
    if (used.l2Gas || used.daGas) row(`Gas, ${phase}`, `${whole(used.l2Gas)} L2, ${whole(used.daGas)} DA`);
  }
  return list;
}

/** Show the tree of a transaction's calls; `ask` fetches JSON text from a path. */
export async function showTrace(ask, hash) {
  const { trace, message } = JSON.parse(await ask("trace?hash=" + encodeURIComponent(hash)));
  const back = make("p", {}, findLink(hash, "What the block has of it"));
  if (trace === null || trace.missing !== undefined) {
    show(`Calls of ${short(hash)}`, [back, make("p", {}, message ?? `No calls can be shown: ${trace.missing}.`)]);
    return;
  }
  const tree = new Tree();
  const parts = [back, facts(trace)];
  for (const phase of ["setup", "app", "teardown"]) {
    const calls = trace.calls.filter((call) => call.phase === phase);
    if (!calls.length) continue;
    parts.push(make("h3", {}, `Public calls: ${phase}`), make("ul", { class: "plain trace" }, ...calls.map((call) => tree.call(call, 0))));
  }
  if (!trace.calls.length) parts.push(make("p", {}, "It makes no public calls; private ones are not visible to a node."));
  if (trace.isTruncated || tree.left <= 0) parts.push(make("p", { class: "quiet" }, "There is more: fastnode trace shows all of it."));
  show(`Calls of ${short(hash)}`, parts);
}
