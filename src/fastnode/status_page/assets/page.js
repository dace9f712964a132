// The status page: asks for the key if one is needed, then for the overview every other second.
//
// The first numbers come with the page itself and need this module and elements.js alone.  All others are loaded when
// they are wanted, or when the numbers are on the screen.

import { ago, bytes, byId, clock, dateAndTime, duration, fillList, findLink, latency, make, rate, short, use, whole } from "./elements.js";

const INTERVAL_MS = 2000;
// Of a local network: its blocks come while the page is open.
const LOCAL_INTERVAL_MS = 500;
const LOG_LINES = 200;
const SHOWS_CHAIN_ONLY = document.documentElement.dataset.shows === "chain";
const LANDING = "#find=newest"; // the node sends what is found for it with the page
const TIPS = ["proposed", "checkpointed", "proven", "finalized"];

let key = null; // here and nowhere else: neither cookie nor storage
let startedAt = null;
let lastLine = 0;
let timer = null;
let intervalMs = INTERVAL_MS;
let newest = null; // the overview that is shown
// Modules, when they are loaded.
let charts = null, localNetwork = null, proposing = null;
let history = null;

class Refused extends Error {}
class Superseded extends Error {}

/** The JSON text that came with the page; null the next time, and for a page that comes before the key. */
function takeFirst() {
  const first = document.getElementById("first");
  first?.remove();
  return first === null ? null : first.textContent;
}

/** The JSON text at a path of the page; null for nothing found, if that may be. */
async function ask(path, { isOptional = false } = {}) {
  const response = await fetch("status-page/" + path, {
    headers: key === null ? {} : { "x-api-key": key },
    credentials: "omit",
    cache: "no-store",
  });
  if (response.status === 401) throw new Refused();
  if (isOptional && response.status === 404) return null;
  if (response.status === 413) throw new Error(JSON.parse(await response.text()).message);
  if (!response.ok) throw new Error(`the node answered ${response.status}`);
  return response.text();
}

/** The result of a method of the admin port. */
async function call(method, params) {
  const response = await fetch("./", {
    method: "POST",
    headers: { "content-type": "application/json", ...(key === null ? {} : { "x-api-key": key }) },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    credentials: "omit",
    cache: "no-store",
  });
  if (response.status === 401) throw new Refused("The key is not accepted any more.");
  const answer = JSON.parse(await response.text());
  if (answer.error) throw new Error(answer.error.message);
  return answer.result;
}

// ---- the key ------------------------------------------------------------------------------------

function askForKey(problem = "") {
  clearTimeout(timer);
  key = null;
  byId("page").hidden = true;
  byId("sign-out").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-problem").textContent = problem;
  byId("health").textContent = "locked";
  byId("health").className = "badge";
  byId("software").textContent = "";
  byId("key").focus();
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("key").value.trim();
  if (!/^[\x21-\x7e]+$/.test(text)) {
    askForKey("A key has no blanks and only plain characters.");
    return;
  }
  key = text;
  byId("key").value = "";
  open();
});

// A fresh load forgets the key and all that was shown with it.
byId("sign-out").addEventListener("click", () => location.replace(location.pathname));

async function open() {
  const first = takeFirst();
  if (SHOWS_CHAIN_ONLY) {
    showChainOnly();
    // What is here already is shown at once; what has to be asked for comes into a page that is there.
    if (first !== null && location.hash === LANDING) await explore(first);
    else explore();
  } else if (!(await refresh(first))) return;
  byId("sign-in").hidden = true;
  byId("page").hidden = false;
  byId("sign-out").hidden = key === null;
  performance.mark("shown");
  if (!SHOWS_CHAIN_ONLY) explore();
  requestAnimationFrame(() => {
    byId("log").scrollTop = byId("log").scrollHeight;
    setTimeout(loadRest);
  });
}

// The explorer's own port: nothing of the node is asked for.
function showChainOnly() {
  byId("node").hidden = true;
  byId("health").textContent = "explorer";
  byId("software").textContent = "Blocks and transactions of an Aztec chain, as a node has verified them";
  if (!location.hash) window.history.replaceState(null, "", LANDING);
}

/** Load what the numbers on the screen did not have to wait for. */
async function loadRest() {
  const explorers = [use("explorer"), use("trace")];
  if (!SHOWS_CHAIN_ONLY) {
    charts ??= await use("charts");
    history ??= new charts.CallHistory();
    if (newest !== null) showCalls(newest);
  }
  await Promise.all(explorers);
  performance.mark("complete");
}

// ---- the overview -------------------------------------------------------------------------------

/** Show the overview that the node sends, or the given one; false when it wants a key. */
async function refresh(given = null) {
  clearTimeout(timer);
  timer = setTimeout(tick, intervalMs);
  try {
    const state = JSON.parse(given ?? await ask(`overview?after=${lastLine}`));
    clock.ahead = state.now - Date.now() / 1000;
    await loadParts(state);
    show(state);
    byId("problem").hidden = true;
    return true;
  } catch (error) {
    if (error instanceof Refused) {
      askForKey(key === null ? "" : "This is not the key of this node.");
      return false;
    }
    byId("problem").textContent = `No answer from the node: ${error.message}. Trying again.`;
    byId("problem").hidden = false;
    setHealth("no answer", "bad");
    return true;
  }
}

/** Load the modules of what not every node has. */
async function loadParts(overview) {
  if (overview.localNetwork && localNetwork === null) {
    localNetwork = await use("local-network");
    localNetwork.connectButtons(call, refresh);
  }
  if (overview.proposing) proposing ??= await use("proposing");
}

function tick() {
  // A hidden page asks for nothing.
  if (!document.hidden) refresh();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !byId("page").hidden && !SHOWS_CHAIN_ONLY) refresh();
});

function setHealth(text, kind) {
  const badge = byId("health");
  if (badge.textContent !== text) badge.textContent = text;
  badge.className = `badge ${kind}`;
}

function show(overview) {
  newest = overview;
  if (startedAt !== overview.startedAt) {
    if (startedAt !== null) {
      // Another process: its counters and its log begin anew.
      byId("log").replaceChildren();
      history = charts && new charts.CallHistory();
    }
    startedAt = overview.startedAt;
    lastLine = 0;
  }
  intervalMs = overview.localNetwork ? LOCAL_INTERVAL_MS : INTERVAL_MS;
  showSoftware(overview);
  localNetwork?.showLocalNetwork(overview.localNetwork);
  proposing?.showProposing(overview.proposing);
  showTips(overview);
  showBlocks(overview);
  showSync(overview);
  showFleet(overview.fleet);
  showPool(overview.pool);
  showPorts(overview.ports);
  showCalls(overview);
  showLog(overview.log);
}

function showSoftware({ software, health, chain, now }) {
  const failing = Object.values(health.failing);
  if (failing.length) setHealth(failing.join("; "), "bad");
  else if (health.notReady) setHealth(health.notReady, "warn");
  else if (health.notes.sync) setHealth(health.notes.sync, "warn");
  else setHealth("ready", "good");
  const network = chain ? ` · network ${chain.rollupVersion} on L1 chain ${chain.l1ChainId}, release ${chain.networkVersion || "unknown"}` : "";
  byId("software").textContent =
    `${software.version} · kernel ${software.kernel} (${software.extensions}) · Python ${software.python}${network} · up ${duration(now - startedAt)}`;
}

function tile(name, value, note, query = null) {
  return make("div", { class: "tile" }, make("span", {}, name), make("b", {}, query === null ? value : findLink(query, value)), make("span", {}, note));
}

function showTips({ chain, sync, ingestion, now }) {
  if (!chain) {
    byId("tips").replaceChildren(tile("chain", "none yet", ""));
    return;
  }
  const newest = chain.blocks[0];
  const tiles = TIPS.map((name) => {
    const tip = chain.tips[name];
    const note = tip.checkpoint === null ? `made ${ago(now - newest.timestamp)}` : `checkpoint ${whole(tip.checkpoint)}`;
    return tile(name, whole(tip.block), note, String(tip.block));
  });
  const lag = sync && sync.lagBlocks !== null ? `${whole(sync.lagBlocks)} blocks` : sync ? "unknown" : "–";
  tiles.push(tile("lag", lag, sync ? sync.state : "no upstream"));
  tiles.push(tile("ingested", whole(ingestion.blocks), `${whole(ingestion.reorgs)} reorgs, deepest ${whole(ingestion.deepestReorg)}`));
  byId("tips").replaceChildren(...tiles);
}

let shownBlocks = "";

function showBlocks({ chain, now }) {
  const blocks = chain ? chain.blocks : [];
  // Rows are only replaced when they change, so that a link keeps the keyboard's focus.
  const state = JSON.stringify(blocks);
  if (state !== shownBlocks) {
    shownBlocks = state;
    byId("blocks").replaceChildren(...blocks.map((block) => make("tr", {},
      make("td", {}, findLink(String(block.number), whole(block.number))),
      make("td", { class: "age", "data-made": block.timestamp }),
      make("td", { class: "number" }, whole(block.txs)),
      make("td", { class: "wide" }, whole(block.slot)),
      make("td", { class: "wide" }, block.status),
      make("td", { class: "hash" }, findLink(block.hash, short(block.hash))),
      make("td", {}, make("a", { href: `#block=${block.number}`, "aria-label": `Block ${block.number} as JSON` }, "JSON")),
    )));
  }
  for (const cell of byId("blocks").querySelectorAll(".age")) {
    const made = Number(cell.dataset.made);
    cell.textContent = made ? duration(Math.max(0, now - made)) : "genesis";
    if (made) cell.title = dateAndTime(made);
  }
}

/** A bar with rate and time left while the chain is behind: of checkpoints from L1, else of blocks. */
function catchingUp({ tip, sourceTip, lagBlocks, catchingUp: speed, derivation }) {
  const progress = derivation && derivation.progress;
  if (!progress && !(lagBlocks && speed)) return null;
  const [unit, done, all, rate, left] = progress
    ? ["checkpoint", progress.checkpoint, progress.ofCheckpoint, progress.checkpointsPerSecond, progress.etaSeconds]
    : ["block", tip, sourceTip, speed.blocksPerSecond, speed.etaSeconds];
  const told = [`${unit} ${whole(done)} of ${whole(all)}`];
  if (rate !== null) told.push(`${rate} a second`);
  if (left !== null) told.push(`${duration(left)} left`);
  return make("span", {}, make("progress", { value: done, max: Math.max(1, all), "aria-label": "Catching up" }), ` ${told.join(", ")}`);
}

function showSync({ sync, chain, health, now }) {
  const notes = Object.entries(health.notes).map(([name, note]) => [name[0].toUpperCase() + name.slice(1), note, "warn"]);
  if (!sync) {
    fillList(byId("sync"), [["State", "no upstream"], ...notes, ["State trees", chain && chain.stateTip !== null ? `block ${whole(chain.stateTip)}` : "not ready"]]);
    byId("upstreams").replaceChildren();
    return;
  }
  const rows = [
    ["State", sync.reason ? `${sync.state}: ${sync.reason}` : sync.state, sync.state === "degraded" ? "bad" : null],
    ["Their newest block", sync.sourceTip === null ? "unknown" : whole(sync.sourceTip)],
    ["Last pass", sync.lastPassAt === null ? "none yet" : ago(now - sync.lastPassAt)],
    ["State trees", chain && chain.stateTip !== null ? `block ${whole(chain.stateTip)}` : "not ready"],
    ...notes,
  ];
  const behind = catchingUp(sync);
  if (behind) rows.splice(1, 0, ["Catching up", behind]);
  const l1 = sync.l1;
  if (l1) {
    const block = l1.block === null ? "" : `, block ${whole(l1.block)} of ${ago(now - l1.blockTime)}`;
    rows.push(["L1", `${l1.state}${l1.reason ? `: ${l1.reason}` : ""}${block}`, l1.state === "degraded" ? "bad" : null]);
    for (const node of l1.nodes) rows.push([node.name, node.ok ? "answers" : node.reason, node.ok ? null : "bad"]);
  }
  fillList(byId("sync"), rows);
  byId("upstreams").replaceChildren(...sync.upstreams.map((upstream) => make("li", {},
    make("b", {}, upstream.name), ": ",
    make("span", { class: upstream.state === "healthy" ? "good" : "warn" }, upstream.state),
    `, for ${duration(now - upstream.since)}`,
    upstream.nodeVersion ? `, version ${upstream.nodeVersion}` : "",
    upstream.tip === null ? "" : `, block ${whole(upstream.tip)}`,
    upstream.reason ? ` (${upstream.reason})` : "",
  )));
}

function showFleet(fleet) {
  byId("fleet").hidden = !fleet;
  if (!fleet) return;
  const rows = [
    ["Bus", fleet.connected ? "answers" : "away", fleet.connected ? null : "bad"],
    ["This node", fleet.handsOn ? `${fleet.name}, hands transactions on` : fleet.name],
  ];
  if (fleet.lagMs !== undefined && fleet.lagMs !== null) rows.push(["Blocks come after", `${fleet.lagMs} ms`]);
  for (const publisher of fleet.publishers ?? []) {
    const said = `${publisher.isFollowed ? "followed" : publisher.state}${publisher.reason ? `: ${publisher.reason}` : ""}`;
    rows.push([`Publisher ${publisher.name}`, said, publisher.reason ? "bad" : null]);
  }
  fillList(byId("fleet-self"), rows);
  byId("fleet-nodes").replaceChildren(...fleet.nodes.map((node) => make("li", {},
    make("b", {}, node.name), `: ${node.role}, block ${node.tip === null ? "unknown" : whole(node.tip)}, version ${node.release}`,
    node.trouble ? make("span", { class: "warn" }, ` (${node.trouble})`) : null,
  )));
}

function showPool(pool) {
  if (!pool) {
    fillList(byId("pool"), [["Transactions", "none are taken"]]);
    return;
  }
  const refused = Object.entries(pool.rejections).sort((a, b) => b[1] - a[1]);
  fillList(byId("pool"), [
    ["Pending", `${whole(pool.pending)} of ${whole(pool.limit)}`],
    ["Refused", refused.length ? refused.map(([code, count]) => `${code}: ${whole(count)}`).join(", ") : "none"],
    proofsRow(pool.proofs),
  ]);
}

function proofsRow(proofs) {
  if (!proofs.verifier) {
    return ["Proofs", "not asked for by this network"];
  }
  if (proofs.limitation) {
    return ["Proofs", proofs.limitation, "warn"];
  }
  const { valid, invalid, unknown } = proofs.verdicts;
  const queue = proofs.waiting ? `, ${whole(proofs.waiting)} waiting` : "";
  const pace = proofs.checks ? `, ${whole(Math.round(1000 * proofs.checkSeconds / proofs.checks))} ms each` : "";
  const verdicts = `${whole(valid)} valid, ${whole(invalid)} invalid, ${whole(unknown)} unknown`;
  return ["Proofs", `${proofs.verifier} ${proofs.state ?? ""}: ${verdicts}${pace}${queue}`, proofs.lastTrouble ? "warn" : null];
}

function showPorts(ports) {
  fillList(byId("ports"), Object.entries(ports).map(([name, port]) => {
    const refused = Object.entries(port.rejected).map(([limit, count]) => `, ${whole(count)} above ${limit}`).join("");
    const faults = port.faults ? `, ${whole(port.faults)} faults` : "";
    return [`${name}, ${port.port}`, `${whole(port.connections)} connections, ${bytes(port.receivedBytes)} in, ${bytes(port.sentBytes)} out${refused}${faults}`, port.faults ? "bad" : null];
  }));
}

// ---- requests -----------------------------------------------------------------------------------

function showCalls({ calls, now }) {
  if (!calls) {
    byId("calls-note").textContent = "Calls are not counted: the node was started with --metrics-port 0.";
    return;
  }
  if (history === null) return; // it is loaded after the first numbers
  const rows = history.add(now, calls);
  const names = history.lines();
  const seconds = rows.reduce((sum, row) => sum + row.perSecond, 0);
  byId("calls-note").textContent = `${rate(seconds)} calls per second now.`;
  const rates = history.rates(names), latencies = history.latencies(names, calls.boundsNs);
  charts.draw(byId("rate-chart"), rates, rate);
  charts.draw(byId("latency-chart"), latencies, latency);
  byId("rate-chart").setAttribute("aria-label", `Calls per second of the last three minutes: ${rate(seconds)} now`);
  byId("latency-chart").setAttribute("aria-label", "Latency of the last three minutes, 99th percentile by method; the table below has the present values");
  byId("calls").replaceChildren(...rows.map((row) => {
    const place = names.includes(row.name) ? names.indexOf(row.name) : names.length - 1;
    return make("tr", {},
      make("td", {}, make("span", { class: place < 0 ? "key" : `key c${place}`, "aria-hidden": "true" }), row.name),
      make("td", { class: "number" }, rate(row.perSecond)),
      make("td", { class: "number wide" }, latency(row.p50)),
      make("td", { class: "number" }, latency(row.p99)),
      make("td", { class: "number wide" + (row.newErrors ? " bad" : "") }, whole(row.errors)),
      make("td", { class: "number wide" }, whole(row.total)));
  }));
}

// ---- log ----------------------------------------------------------------------------------------

const KINDS = { warning: "warn", error: "bad", critical: "bad" };

function showLog(lines) {
  const fresh = lines.filter((line) => line.number > lastLine);
  if (!fresh.length) return;
  const list = byId("log");
  const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
  for (const line of fresh) {
    const time = new Date(line.time * 1000).toISOString().slice(11, 19);
    list.append(make("div", {}, `${time} `, make("span", { class: `level ${KINDS[line.level] ?? "quiet"}` }, line.level), " ", line.text));
    lastLine = line.number;
  }
  while (list.childElementCount > LOG_LINES) list.firstElementChild.remove();
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

// ---- the explorer -------------------------------------------------------------------------------

/** Show what the address names; `given` is the answer of the node if it came already. */
async function explore(given = null) {
  const hash = location.hash;
  const [, what, text] = /^#(find|block|trace)=(.*)$/.exec(hash) ?? [];
  if (what === undefined) return;
  // An answer that comes after the next question is not shown.
  const askNow = async (...wanted) => {
    const answer = given ?? await ask(...wanted);
    if (location.hash !== hash) throw new Superseded();
    return answer;
  };
  try {
    const query = decodeURIComponent(text);
    byId("query").value = query;
    if (what === "trace") await (await use("trace")).showTrace(askNow, query);
    else if (what === "block") await (await use("explorer")).showBlock(askNow, query);
    else await (await use("explorer")).showFound(askNow, query);
  } catch (error) {
    if (error instanceof Superseded) return;
    if (error instanceof Refused) askForKey("The key is not accepted any more.");
    else {
      byId("problem").textContent = `That could not be looked up: ${error.message}.`;
      byId("problem").hidden = false;
    }
  }
}

window.addEventListener("hashchange", () => {
  if (!byId("page").hidden) explore();
});

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const hash = "#find=" + encodeURIComponent(byId("query").value.trim());
  if (location.hash === hash) explore();
  else location.hash = hash;
});

function close() {
  window.history.replaceState(null, "", location.pathname);
  document.title = "fastnode";
  byId("result").hidden = true;
  byId("result-body").replaceChildren();
  byId("query").value = "";
  byId("query").focus();
}

byId("close-result").addEventListener("click", close);
byId("query").addEventListener("focus", () => byId("query").select());

// A slash goes to the search, whose text is then selected; Escape closes what was found.
window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const isTyping = event.target instanceof Element && event.target.matches("input, textarea, select");
  if (event.key === "/" && !isTyping && byId("query").checkVisibility()) {
    event.preventDefault();
    byId("query").focus();
  } else if (event.key === "Escape" && !byId("result").hidden) {
    event.preventDefault();
    close();
  }
});

if (document.documentElement.dataset.signIn === "yes") askForKey();
else open();
