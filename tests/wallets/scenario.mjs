// What wallets do, with the published packages; one line of JSON for each step.
import { getInitialTestAccountsData } from '@aztec/accounts/testing';
import { NO_WAIT } from '@aztec/aztec.js/contracts';
import { createAztecNodeClient } from '@aztec/aztec.js/node';
import { EmbeddedWallet } from '@aztec/wallets/embedded';
import { TokenContract } from '@aztec/noir-contracts.js/Token';

const node = createAztecNodeClient(process.env.NODE_URL);
const say = (step, facts) =>
  console.log(JSON.stringify({ step, ...facts }, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
const accounts = await getInitialTestAccountsData();

async function newWallet(...owners) {
  const wallet = await EmbeddedWallet.create(node, { pxeConfig: { proverEnabled: false }, ephemeral: true });
  for (const owner of owners) await wallet.createSchnorrAccount(owner.secret, owner.salt, owner.signingKey);
  return wallet;
}

const [alice, bob] = accounts;
const wallet = await newWallet(alice);
const from = { from: alice.address };
const deployed = await TokenContract.deploy(wallet, alice.address, 'Mine', 'MINE', 18).send(from);
const contract = deployed.contract ?? deployed;
const token = TokenContract.at(contract.address, wallet);
say('deployed', { address: contract.address.toString(), block: await node.getBlockNumber() });

await token.methods.mint_to_public(alice.address, 1000n).send(from);
await token.methods.mint_to_private(alice.address, 1000n).send(from);
await token.methods.transfer_in_public(alice.address, bob.address, 300n, 0).send(from);
const balance = async (method, owner, as, contract = token) =>
  (await contract.methods[method](owner).simulate({ from: as })).result;
say('public', {
  alice: await balance('balance_of_public', alice.address, alice.address),
  bob: await balance('balance_of_public', bob.address, alice.address),
});

// More transfers to one recipient than a wallet's window of tags is long.
for (let i = 0; i < 22; i++) await token.methods.transfer(bob.address, 10n).send(from);
const other = await newWallet(bob);
await other.registerContract(await node.getContract(contract.address), TokenContract.artifact);
await other.registerSender(alice.address, 'alice');
const seenByBob = TokenContract.at(contract.address, other);
say('private', {
  alice: await balance('balance_of_private', alice.address, alice.address),
  bob: await balance('balance_of_private', bob.address, bob.address, seenByBob),
});

// Nobody simulates it before it is sent; it is in a block, without its effects.
try {
  await token.methods.transfer_in_public(alice.address, bob.address, 10n ** 30n, 0).send(from);
  say('too much', { reverted: '' });
} catch (error) {
  say('too much', { reverted: String(error.message) });
}

const sent = await token.methods.transfer(bob.address, 1n).send({ ...from, wait: NO_WAIT });
const hash = sent.txHash ?? sent;
let receipt = await node.getTxReceipt(hash);
for (let tries = 0; receipt.status === 'pending' && tries < 100; tries++) {
  await new Promise(resolve => setTimeout(resolve, 100));
  receipt = await node.getTxReceipt(hash);
}
say('receipt', { status: receipt.status, result: receipt.executionResult, block: receipt.blockNumber });
process.exit(0);
