// Asks the published validators of release 4.1.2: questions of bent_messages.py in, a verdict for each out, one a line.
import { createHash } from 'node:crypto';
import readline from 'node:readline';
import { EthAddress } from '@aztec/foundation/eth-address';
import { BlockProposal, CheckpointAttestation, CheckpointProposal, P2PMessage } from '@aztec/stdlib/p2p';
import { Tx } from '@aztec/stdlib/tx';

const at = path => import(`../node_modules/@aztec/p2p/dest/msg_validators/${path}`);
const { BlockProposalValidator } = await at('proposal_validator/block_proposal_validator.js');
const { CheckpointProposalValidator } = await at('proposal_validator/checkpoint_proposal_validator.js');
const { CheckpointAttestationValidator } = await at('attestation_validator/attestation_validator.js');

const kinds = {
  block_proposal: [BlockProposal, cache => new BlockProposalValidator(cache, { txsPermitted: true })],
  checkpoint_proposal: [CheckpointProposal, cache => new CheckpointProposalValidator(cache, { txsPermitted: true })],
  checkpoint_attestation: [CheckpointAttestation, cache => new CheckpointAttestationValidator(cache)],
};
const letters = { LowToleranceError: 'L', MidToleranceError: 'M', HighToleranceError: 'H' };

async function judge({ topic, b, slot, proposer }) {
  const { payload } = P2PMessage.fromMessageData(Buffer.from(b, 'base64'));
  if (topic === 'tx') {
    const tx = Tx.fromBuffer(payload);
    return `read ${createHash('sha256').update(tx.toBuffer()).digest('hex').slice(0, 8)}`;
  }
  const [kind, validator] = kinds[topic];
  const message = kind.fromBuffer(payload);
  const cache = {
    getCurrentAndNextSlot: () => ({ currentSlot: slot, nextSlot: slot + 1 }),
    getEpochAndSlotNow: () => ({ ts: 0n, nowMs: 5000n, slot }),
    getProposerAttesterAddressInSlot: () => Promise.resolve(EthAddress.fromString(proposer)),
    isInCommittee: (_slot, address) => Promise.resolve(address.toString() === proposer),
  };
  const { result, severity } = await validator(cache).validate(message);
  return severity === undefined ? result : `${result} ${letters[severity]}`;
}

process.on('unhandledRejection', () => {});
for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let verdict;
  try { verdict = await judge(JSON.parse(line)); } catch { verdict = 'reject L'; }
  process.stdout.write(JSON.stringify(verdict) + '\n');
}
process.exit(0);
