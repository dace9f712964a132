// A local network: its accounts, and buttons that call the methods of the admin port.

import { byId, fillList, findLink, make, provide, whole18 } from "./elements.js";

let shownAccounts = "", shownSnapshots = "";

export function showLocalNetwork(network) {
  byId("local-network").hidden = !network;
  if (!network) return;
  const mining = network.interval ? `every ${network.interval} s` : network.automine ? "for each transaction" : "when asked for";
  fillList(byId("local-facts"), [
    ["Blocks are built", mining],
    ["Next block's time", new Date(network.nextTimestamp * 1000).toISOString().replace(".000", "")],
    ["Price of L2 gas", network.minFee],
    ["L1", network.l1 ? "attached" : "none"],
  ]);
  const accounts = JSON.stringify(network.accounts);
  if (accounts !== shownAccounts) {
    shownAccounts = accounts;
    byId("accounts").replaceChildren(...network.accounts.map((account) => make("tr", {},
      make("td", {}, account.name),
      make("td", { class: "hash" }, findLink(account.address)),
      make("td", { class: "number" }, account.balance === null ? "–" : whole18(account.balance)))));
  }
  const snapshots = JSON.stringify(network.snapshots);
  if (snapshots !== shownSnapshots) {
    shownSnapshots = snapshots;
    byId("snapshots").replaceChildren(...network.snapshots.map((name) => make("option", { value: name }, name)));
    byId("snapshots").value = network.snapshots.at(-1) ?? "";
  }
  byId("revert").disabled = network.snapshots.length === 0;
}

/** Let the buttons work; `call` asks a method of the admin port, `refresh` shows what came of it. */
export function connectButtons(call, refresh) {
  const act = async (method, params, said) => {
    try {
      const result = await call(method, params);
      byId("done").className = "quiet";
      byId("done").textContent = said(result);
    } catch (error) {
      byId("done").className = "bad";
      byId("done").textContent = error.message;
    }
    await refresh();
  };
  byId("mine").addEventListener("click", () => act("fastnode_mine", [1], (number) => `Block ${number} is built.`));
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    act("fastnode_warp", [`+${byId("seconds").value}`], (time) => `It is ${new Date(time * 1000).toISOString().replace(".000", "")}.`);
  });
  byId("snapshot").addEventListener("click", () => act("fastnode_snapshot", [], (name) => `Snapshot ${name} is taken.`));
  byId("revert").addEventListener("click", () => {
    const name = byId("snapshots").value;
    act("fastnode_revert", [name], (done) => done ? `The chain is as at snapshot ${name}.` : `There is no snapshot ${name} any more.`);
  });
}

provide("local-network", { connectButtons, showLocalNetwork });
