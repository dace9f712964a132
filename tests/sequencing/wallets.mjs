// What users do on a network with a real L1, with the published wallet, until the file STOP is there: transfers, public
// and private, transactions that revert, deposits from L1 that are claimed, withdrawals that are consumed on L1 when
// their epoch is proven, bursts and pauses.  One line of JSON for each transaction and each step on standard output.
//
// NODE_URL, L1_URL; STATE: a file that keeps the contracts for the next run; STOP; PAUSE_MS between transactions.
import { getInitialTestAccountsData } from '@aztec/accounts/testing';
import { AztecAddress, EthAddress } from '@aztec/aztec.js/addresses';
import { SetPublicAuthwitContractInteraction } from '@aztec/aztec.js/authorization';
import { NO_WAIT } from '@aztec/aztec.js/contracts';
import { generateClaimSecret } from '@aztec/aztec.js/ethereum';
import { Fr } from '@aztec/aztec.js/fields';
import { createAztecNodeClient } from '@aztec/aztec.js/node';
import { createEthereumChain } from '@aztec/ethereum/chain';
import { createExtendedL1Client } from '@aztec/ethereum/client';
import { sha256ToField } from '@aztec/foundation/crypto/sha256';
import { InboxAbi } from '@aztec/l1-artifacts/InboxAbi';
import { OutboxAbi } from '@aztec/l1-artifacts/OutboxAbi';
import { TokenContract } from '@aztec/noir-contracts.js/Token';
import { TokenBridgeContract } from '@aztec/noir-contracts.js/TokenBridge';
import { computeL2ToL1MessageHash } from '@aztec/stdlib/hash';
import { computeL2ToL1MembershipWitness } from '@aztec/stdlib/messaging';
import { EmbeddedWallet } from '@aztec/wallets/embedded';
import { decodeEventLog, getContract, toFunctionSelector } from 'viem';
import fs from 'node:fs';

const { NODE_URL, L1_URL, STATE, STOP } = process.env;
const PAUSE_MS = +(process.env.PAUSE_MS ?? 3000);
const PATIENCE_MS = 600_000;
// The third account of anvil's mnemonic: the "portal" of the bridge, which holds no contract here.
const PORTAL_KEY = '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a';
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const plain = (_, value) => (typeof value === 'bigint' ? value.toString() : value);
const say = facts => console.log(JSON.stringify({ at: Date.now(), ...facts }, plain));
process.on('uncaughtException', error => { say({ failed: String(error.stack ?? error).slice(0, 1500) }); process.exit(1); });

// ---- the node, with every transaction watched -----------------------------------------------------

const raw = createAztecNodeClient(NODE_URL);
const records = [];
const watching = [];

async function watch(record, tx) {
  const times = (record.times = {});
  while (Date.now() - record.sent < PATIENCE_MS) {
    await sleep(250);
    let receipt;
    try { receipt = await raw.getTxReceipt(record.hash); } catch { continue; }
    if (!(receipt.status in times)) times[receipt.status] = (Date.now() - record.sent) / 1000;
    if (receipt.status === 'dropped') {
      // The node was killed: a user sends once more.
      record.again = (record.again ?? 0) + 1;
      try { await patiently(raw.sendTx.bind(raw))(tx); } catch (error) { record.refused = String(error.message).slice(0, 200); return say({ lost: record }); }
    }
    if (['checkpointed', 'proven', 'finalized'].includes(receipt.status)) {
      record.result = receipt.executionResult;
      record.block = Number(receipt.blockNumber);
      return say({ tx: record });
    }
  }
  say({ lost: record });
}

async function sendWatched(tx) {
  const record = { hash: tx.getTxHash().toString(), sent: Date.now() };
  for (let tries = 0; ; tries++) {
    try { await raw.sendTx(tx); break; } catch (error) {
      if (!isAway(error) || tries > 600) throw error;
      await sleep(500);
    }
  }
  record.accepted = (Date.now() - record.sent) / 1000;
  records.push(record);
  watching.push(watch(record, tx));
}

// A node that is killed, or starting, is asked again.
const isAway = error => /fetch|ECONN|closed|socket|terminated|50[234]/i.test(String(error) + String(error.cause ?? ''));
const patiently = call => async (...args) => {
  for (let tries = 0; ; tries++) {
    try { return await call(...args); } catch (error) {
      if (!isAway(error) || tries > 600) throw error;
      await sleep(500);
    }
  }
};

const node = new Proxy(raw, {
  get: (target, key) =>
    key === 'sendTx' ? sendWatched : typeof target[key] === 'function' ? patiently(target[key].bind(target)) : target[key],
});

// ---- L1 -------------------------------------------------------------------------------------------

const info = await raw.getNodeInfo();
const l1 = createExtendedL1Client([L1_URL], PORTAL_KEY, createEthereumChain([L1_URL], info.l1ChainId).chainInfo);
const addresses = info.l1ContractAddresses;
const inbox = getContract({ address: addresses.inboxAddress.toString(), abi: InboxAbi, client: l1 });
const outbox = getContract({ address: addresses.outboxAddress.toString(), abi: OutboxAbi, client: l1 });
const portal = EthAddress.fromString(l1.account.address);
const word = selector => Buffer.from(toFunctionSelector(selector).slice(2), 'hex');
const mined = async hash => {
  const receipt = await l1.waitForTransactionReceipt({ hash });
  if (receipt.status !== 'success') throw new Error(`L1 transaction ${hash} failed`);
  return receipt;
};

// ---- contracts ------------------------------------------------------------------------------------

const wallet = await EmbeddedWallet.create(node, { pxeConfig: { proverEnabled: false }, ephemeral: true });
const owners = (await getInitialTestAccountsData()).slice(0, 3);
const kept = fs.existsSync(STATE) ? JSON.parse(fs.readFileSync(STATE)) : {};
for (const owner of owners) {
  const account = await wallet.createSchnorrAccount(owner.secret, owner.salt, owner.signingKey);
  if (!kept.token) await (await account.getDeployMethod()).send({ from: AztecAddress.ZERO });
}
const [alice, bob, carol] = owners.map(owner => owner.address);
const from = { from: alice };

async function contract(Contract, address, make) {
  if (address) {
    const known = AztecAddress.fromString(address);
    await wallet.registerContract(await raw.getContract(known), Contract.artifact);
    return Contract.at(known, wallet);
  }
  const made = await make().send(from);
  return Contract.at((made.contract ?? made).address, wallet);
}

const token = await contract(TokenContract, kept.token, () => TokenContract.deploy(wallet, alice, 'Mine', 'MINE', 18));
const bridge = await contract(TokenBridgeContract, kept.bridge, () => TokenBridgeContract.deploy(wallet, token.address, portal));
if (!kept.token) {
  await token.methods.set_minter(bridge.address, true).send(from);
  await token.methods.mint_to_public(alice, 100_000n).send(from);
  await token.methods.mint_to_public(bob, 100_000n).send(from);
  await token.methods.mint_to_private(alice, 100_000n).send(from);
  fs.writeFileSync(STATE, JSON.stringify({ token: token.address.toString(), bridge: bridge.address.toString() }));
}
const balance = async (method, owner) => (await token.methods[method](owner).simulate({ from: owner })).result;
const balances = async () => ({
  public: await Promise.all([alice, bob, carol].map(owner => balance('balance_of_public', owner))),
  private: await Promise.all([alice, bob].map(owner => balance('balance_of_private', owner))),
  supply: (await token.methods.total_supply().simulate(from)).result,
});
say({ start: { token: token.address.toString(), ...(await balances()) } });

// ---- what is done ---------------------------------------------------------------------------------

const count = { transfer: 0, private: 0, reverted: 0, deposit: 0, claim: 0, withdrawal: 0, consumed: 0, refused: 0 };
const deposits = [], withdrawals = [];

async function deposit() {
  const amount = 7n, [secret, secretHash] = await generateClaimSecret();
  const content = sha256ToField([word('mint_to_public(bytes32,uint256)'), carol, new Fr(amount)]);
  const message = [{ actor: bridge.address.toString(), version: BigInt(info.rollupVersion) }, content.toString(), secretHash.toString()];
  const receipt = await mined(await inbox.write.sendL2Message(message, { gas: 500_000n }));
  const events = receipt.logs.map(log => { try { return decodeEventLog({ abi: InboxAbi, ...log }); } catch { return undefined; } });
  const { hash, index, checkpointNumber } = events.find(event => event?.eventName === 'MessageSent').args;
  deposits.push({ amount, secret, hash, index, checkpoint: Number(checkpointNumber) });
  count.deposit++;
}

async function claim() {
  const tip = Number((await raw.getL2Tips()).checkpointed.checkpoint.number);
  const ready = deposits.findIndex(one => one.checkpoint <= tip);
  if (ready < 0) return false;
  const [one] = deposits.splice(ready, 1);
  await bridge.methods.claim_public(carol, one.amount, one.secret, one.index).send({ ...from, wait: NO_WAIT });
  count.claim++;
  return true;
}

async function withdraw() {
  const amount = 3n, nonce = Fr.random();
  const action = token.methods.burn_public(alice, amount, nonce);
  await (await SetPublicAuthwitContractInteraction.create(wallet, alice, { caller: bridge.address, action }, true)).send();
  const sent = await bridge.methods.exit_to_l1_public(portal, amount, EthAddress.ZERO, nonce).send(from);
  const receipt = sent.receipt ?? sent;
  const content = sha256ToField([
    word('withdraw(address,uint256,address)'), portal.toBuffer32(), new Fr(amount).toBuffer(), EthAddress.ZERO.toBuffer32(),
  ]);
  withdrawals.push({ content, hash: receipt.txHash });
  count.withdrawal++;
}

async function consume() {
  const one = withdrawals[0];
  if (!one || !['proven', 'finalized'].includes((await raw.getTxReceipt(one.hash)).status)) return;
  withdrawals.shift();
  const [version, chain] = [BigInt(info.rollupVersion), BigInt(info.l1ChainId)];
  const parts = { l2Sender: bridge.address, l1Recipient: portal, content: one.content, rollupVersion: new Fr(version), chainId: new Fr(chain) };
  const witness = await computeL2ToL1MembershipWitness(raw, computeL2ToL1MessageHash(parts), one.hash);
  const message = {
    sender: { actor: bridge.address.toString(), version }, recipient: { actor: portal.toString(), chainId: chain },
    content: one.content.toString(),
  };
  const path = witness.siblingPath.toBufferArray().map(node => `0x${node.toString('hex')}`);
  await mined(await outbox.write.consume([message, BigInt(witness.epochNumber), witness.leafIndex, path], { gas: 500_000n }));
  count.consumed++;
  say({ consumed: one.hash.toString() });
}

async function step(i) {
  const [sender, other] = i % 2 ? [bob, alice] : [alice, bob];
  if (i % 40 === 7) return withdraw();
  if (i % 12 === 5) return deposit();
  if (await claim()) return;
  if (i % 31 === 30) {
    await token.methods.transfer_in_public(alice, bob, 10n ** 30n, 0).send({ ...from, wait: NO_WAIT });
    count.reverted++;
  } else if (i % 6 === 3) {
    await token.methods.transfer(bob, 1n).send({ ...from, wait: NO_WAIT });
    count.private++;
  } else {
    await token.methods.transfer_in_public(sender, i % 3 ? carol : other, 1n, 0).send({ from: sender, wait: NO_WAIT });
    count.transfer++;
  }
}

for (let i = 0; !fs.existsSync(STOP); i++) {
  try { await step(i); } catch (error) { count.refused++; say({ refused: { i, reason: String(error.message ?? error).slice(0, 400) } }); }
  try { await consume(); } catch (error) { say({ notConsumed: String(error.message ?? error).slice(0, 400) }); }
  // Bursts fill several blocks of a checkpoint; a pause leaves slots without any.
  if (i % 50 === 49) await sleep(30_000);
  else if (i % 25 > 5) await sleep(PAUSE_MS);
}
await Promise.all(watching);
for (const until = Date.now() + 240_000; withdrawals.length && Date.now() < until; await sleep(2000)) {
  try { await consume(); } catch (error) { say({ notConsumed: String(error.message ?? error).slice(0, 400) }); }
}
const took = records.map(record => record.times.checkpointed ?? record.times.proven).filter(Boolean).sort((a, b) => a - b);
const at = part => took[Math.min(took.length - 1, Math.floor(took.length * part))];
say({
  end: { ...count, transactions: records.length, checkpointed: took.length, again: records.filter(one => one.again).length,
    seconds: { min: took[0], median: at(0.5), p90: at(0.9), max: at(1) },
    accepted: records.map(one => one.accepted).sort((a, b) => a - b)[records.length >> 1],
    unclaimed: deposits.length, unconsumed: withdrawals.length, ...(await balances()) },
});
process.exit(0);
