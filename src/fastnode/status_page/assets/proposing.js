// What the node writes to L1: slots and why they were missed, proofs, accounts that pay, signatures.

import { byId, dateAndTime, fillList, make, provide, short, whole, whole18 } from "./elements.js";

const OUTCOMES = { proposed: "good", missed: "bad", yielded: "warn", empty: "quiet", others: "quiet" };
let shownSlots = "", shownAccounts = "";

const counted = (counts) => Object.entries(counts).map(([name, count]) => `${whole(count)} ${name}`).join(", ");

export function showProposing(proposing) {
  byId("proposing").hidden = !proposing;
  if (!proposing) return;
  const { sequencer, prover, publishing } = proposing;
  fillList(byId("proposing-facts"), [
    ...(sequencer ? sequencerRows(sequencer) : []),
    ...(prover ? proverRows(prover) : []),
    ...signingRows(publishing.signing),
  ]);
  showSlots(sequencer ? sequencer.newest : []);
  showAccounts(publishing.publishers);
}

function sequencerRows({ state, slots, blocks, txs, attestations }) {
  const rows = [
    ["Sequencer", state],
    ["Slots", counted(slots), slots.missed ? "warn" : null],
    ["Published", `${whole(blocks)} blocks with ${whole(txs)} transactions`],
  ];
  if (attestations) {
    const refused = attestations.refusal ? `; the newest: ${attestations.refusal}` : "";
    rows.push(["Attested for others", `${whole(attestations.attested)}, ${whole(attestations.refused)} refused${refused}`]);
  }
  return rows;
}

function proverRows({ state, trouble, epochs, checkpoints, failures, blocksReexecuted, blocksByRootsAlone }) {
  return [
    ["Prover", state, trouble ? "bad" : null],
    ["Proven", `${whole(epochs)} epochs, ${whole(checkpoints)} checkpoints; ${whole(failures)} failures`, failures ? "warn" : null],
    ["Verified", `${whole(blocksReexecuted)} blocks executed again, ${whole(blocksByRootsAlone)} by their roots alone`],
  ];
}

function signingRows({ keys, isShared, signed, yielded, failed }) {
  const locks = isShared ? "each duty takes its lock in the shared database" : "not shared with other nodes";
  const rows = [["Keys", `${whole(keys)}, ${locks}`], ["Signed", counted(signed) || "nothing yet"]];
  if (Object.keys(yielded).length) rows.push(["Left to other nodes", counted(yielded)]);
  if (Object.keys(failed).length) rows.push(["Not signed", counted(failed), "bad"]);
  return rows;
}

function showSlots(slots) {
  // Rows are only replaced when they change, so that a selection stays.
  const state = JSON.stringify(slots);
  if (state === shownSlots) return;
  shownSlots = state;
  byId("slots").replaceChildren(...slots.slice(0, 16).map((slot) => make("tr", {},
    make("td", {}, make("span", { title: dateAndTime(slot.at) }, whole(slot.slot))),
    make("td", { class: OUTCOMES[slot.outcome] ?? null }, slot.outcome),
    make("td", { class: "number" }, slot.checkpoint === null ? "–" : whole(slot.checkpoint)),
    make("td", { class: "number wide" }, whole(slot.txs)),
    make("td", { class: "number wide" }, `${slot.seconds.toFixed(1)} s`),
    make("td", {}, slot.reason ?? ""))));
}

function showAccounts(publishers) {
  const state = JSON.stringify(publishers);
  if (state === shownAccounts) return;
  shownAccounts = state;
  byId("publishers").replaceChildren(...publishers.map((account) => make("tr", {},
    make("td", { class: "hash" }, make("span", { title: account.address }, short(account.address))),
    make("td", { class: account.trouble ? "bad" : null }, account.trouble ?? account.state),
    make("td", { class: account.isBalanceLow ? "number bad" : "number" }, account.balanceWei === null ? "–" : whole18(account.balanceWei)),
    make("td", { class: "number" }, whole18(account.feesPaidWei)),
    make("td", {}, account.inFlight.map(inFlight).join(", ") || "none"),
    make("td", { class: "number wide" }, `${whole(account.speedUps)} / ${whole(account.cancellations)}`))));
}

function inFlight({ what, nonce, attempts, isCancelled }) {
  const tried = attempts > 1 ? `, attempt ${whole(attempts)}` : "";
  return `${what} (nonce ${whole(nonce)}${tried}${isCancelled ? ", cancelled" : ""})`;
}

provide("proposing", { showProposing });
