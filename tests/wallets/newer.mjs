// The same as people do with the wallet of a newer release, whose accounts are not on the network yet; a line of JSON a step.
import { getInitialTestAccountsData } from '@aztec/accounts/testing';
import { NO_FROM } from '@aztec/aztec.js/account';
import { createAztecNodeClient } from '@aztec/aztec.js/node';
import { TokenContract } from '@aztec/noir-contracts.js/Token';
import { EmbeddedWallet } from '@aztec/wallets/embedded';

const say = (step, facts) =>
  console.log(JSON.stringify({ step, ...facts }, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
const [alice, bob] = await getInitialTestAccountsData();
say('account', { address: alice.address.toString() });
if (!process.env.NODE_URL) process.exit(0);

const node = createAztecNodeClient(process.env.NODE_URL);
const wallet = await EmbeddedWallet.create(node, { pxeConfig: { proverEnabled: false }, ephemeral: true });
const owners = [];
for (const { secret, salt, signingKey } of [alice, bob]) owners.push(await wallet.createSchnorrAccount(secret, salt, signingKey));
await (await owners[0].getDeployMethod()).send({ from: NO_FROM });

const from = { from: alice.address };
const deployed = await TokenContract.deploy(wallet, alice.address, 'Mine', 'MINE', 18).send(from);
const token = deployed.contract ?? deployed;
const mint = await token.methods.mint_to_public(alice.address, 100n).send(from);
await token.methods.mint_to_private(alice.address, 50n).send(from);
await token.methods.transfer_in_public(alice.address, bob.address, 7n, 0n).send(from);
const balance = async (method, owner) => {
  const found = await token.methods[method](owner).simulate(from);
  return found.result ?? found;
};
say('balances', {
  bob: await balance('balance_of_public', bob.address),
  private: await balance('balance_of_private', alice.address),
});

const receipt = mint.receipt ?? mint;
say('receipt', { result: receipt.executionResult, block: receipt.blockNumber });
say('node', { version: (await node.getNodeInfo()).nodeVersion });
