// What the published node decides in the cases of vote_histories.py, by its own modules: one JSON list of actions a line.
//   node vote_decisions.mjs CASES ANSWERS      where @aztec/slasher is installed
import { EmpireSlasherClient, TallySlasherClient } from '@aztec/slasher';
import { SlasherOffensesStore } from '../node_modules/@aztec/slasher/dest/stores/offenses_store.js';
import { SlasherPayloadsStore } from '../node_modules/@aztec/slasher/dest/stores/payloads_store.js';
import { EthAddress } from '@aztec/foundation/eth-address';
import { openTmpStore } from '@aztec/kv-store/lmdb-v2';
import { encodeSlashConsensusVotes } from '@aztec/stdlib/slashing';
import fs from 'node:fs';

const SLOT_S = 36;
const eth = text => EthAddress.fromString(text);
const PENALTIES = ['slashUnknownPenalty', 'slashDataWithholdingPenalty', 'slashPrunePenalty', 'slashInactivityPenalty',
  'slashBroadcastedInvalidBlockPenalty', 'slashProposeInvalidAttestationsPenalty', 'slashProposeInvalidAttestationsPenalty',
  'slashAttestDescendantOfInvalidPenalty', 'slashDuplicateProposalPenalty', 'slashDuplicateAttestationPenalty'];
const quiet = new Proxy({}, { get: (_, name) => name === 'isLevelEnabled' ? () => false : name === 'createChild' ? () => quiet : () => {} });

function configOf(given) {
  const config = { ...given };
  for (const name of Object.keys(config)) if (name.endsWith('Penalty')) config[name] = BigInt(config[name]);
  for (const name of ['slashValidatorsAlways', 'slashValidatorsNever']) config[name] = (config[name] ?? []).map(eth);
  return config;
}

async function collect(client, item, config) {
  const offenses = item.offenses.map(([validator, offenseType, at]) =>
    ({ validator: eth(validator), amount: config[PENALTIES[offenseType]], offenseType, epochOrSlot: BigInt(at) }));
  await client.offensesCollector.handleWantToSlash(offenses);
  await client.handleNewRound(BigInt(Math.floor(item.slot / item.roundSlots)));
}

async function tally(item, config, kv) {
  const settings = { slashingRoundSize: item.roundSlots, slashingRoundSizeInEpochs: item.roundSlots / item.epochSlots, epochDuration: item.epochSlots,
    slashingExecutionDelayInRounds: item.delay, slashingLifetimeInRounds: item.lifetime, slashingQuorumSize: item.quorum, l1GenesisTime: 0n, slotDuration: SLOT_S,
    slashingOffsetInRounds: item.offset, slashingAmounts: item.amounts.map(BigInt), targetCommitteeSize: item.committeeSize, rollupRegisteredAtL2Slot: 0 };
  const actionsOf = round => item.rounds[round].slashed.map(validator => ({ validator: eth(validator), slashAmount: 10n }));
  const proposer = {
    getRound: async round => ({ isExecuted: item.rounds[round].isExecuted, voteCount: BigInt(item.rounds[round].votes) }),
    isRoundReadyToExecute: async round => item.rounds[round].isReady,
    getTally: async round => ({ actions: actionsOf(round), committees: item.rounds[round].committees.map(c => c.map(eth)) }),
    getPayload: async round => ({ actions: actionsOf(round), address: eth('0x' + (Number(round) + 1).toString(16).padStart(2, '0').repeat(20)) }),
  };
  const slasher = { isSlashingEnabled: async () => item.isEnabled, isPayloadVetoed: async address => item.rounds[address.toBuffer()[0] - 1].isVetoed };
  const cache = { getCommitteeForEpoch: async epoch => ({ committee: item.committees[epoch]?.map(eth) }) };
  const clock = { nowInSeconds: () => item.slot * SLOT_S };
  const store = new SlasherOffensesStore(kv, { ...settings, slashOffenseExpirationRounds: config.slashOffenseExpirationRounds });
  const client = new TallySlasherClient(config, settings, proposer, slasher, {}, [], cache, clock, store, quiet);
  await collect(client, item, config);
  return (await client.getProposerActions(item.slot)).map(action => {
    if (action.type === 'execute-slash') return ['execute', Number(action.round), action.committees.map(c => c.map(String))];
    const padded = [...action.votes, ...Array((4 - action.votes.length % 4) % 4).fill(0)];
    return ['vote', Number(action.round), action.votes, encodeSlashConsensusVotes(padded).toString('hex')];
  });
}

const slashesOf = payload => payload.slashes.map(([validator, amount, offenses]) => ({ validator: eth(validator), amount: BigInt(amount),
  offenses: offenses.map(([offenseType, at]) => ({ offenseType, epochOrSlot: BigInt(at) })) }));

async function empire(item, config, kv) {
  const settings = { slashingRoundSize: item.roundSlots, slashingRoundSizeInEpochs: item.roundSlots / item.epochSlots, epochDuration: item.epochSlots,
    slashingExecutionDelayInRounds: item.delay, slashingPayloadLifetimeInRounds: item.lifetime, slashingQuorumSize: item.quorum, l1GenesisTime: 0n,
    slotDuration: SLOT_S, proofSubmissionEpochs: item.proofEpochs, slashingOffsetInRounds: 0, rollupRegisteredAtL2Slot: 0 };
  const round = BigInt(Math.floor(item.slot / item.roundSlots));
  const made = [];
  const factory = { getAddressAndIsDeployed: async slashes => { made.push(slashes); return { address: EthAddress.ZERO, isDeployed: false }; } };
  const proposer = { getRoundInfo: async (_, number) => ({ executed: item.elected.find(one => BigInt(one.round) === number).isExecuted }) };
  const slasher = { isSlashingEnabled: async () => item.isEnabled, isPayloadVetoed: async address => item.elected.find(one => one.address === address.toString()).isVetoed };
  const clock = { nowInSeconds: () => item.slot * SLOT_S };
  const store = new SlasherOffensesStore(kv, { ...settings, slashOffenseExpirationRounds: config.slashOffenseExpirationRounds });
  const payloads = new SlasherPayloadsStore(kv, settings);
  if (item.override) config.slashOverridePayload = eth(item.override);
  const client = new EmpireSlasherClient(config, settings, factory, proposer, slasher, { address: EthAddress.ZERO }, [], clock, store, payloads, quiet);
  await collect(client, item, config);
  for (const payload of item.payloads)
    await payloads.addPayload({ address: eth(payload.address), slashes: slashesOf(payload), timestamp: 0n, votes: BigInt(payload.signals), round });
  for (const one of item.elected) {
    await payloads.addPayload({ address: eth(one.address), slashes: slashesOf(one), timestamp: 0n, votes: 0n, round: BigInt(one.round) });
    await client.handleProposalExecutable(eth(one.address), BigInt(one.round));
  }
  return (await client.getProposerActions(item.slot)).map(action => {
    if (action.type === 'execute-empire-payload') return ['execute', Number(action.round)];
    if (action.type === 'create-empire-payload')
      return ['create', action.data.map(slash => [slash.validator.toString(), Number(slash.amount), slash.offenses.map(one => [one.offenseType, Number(one.epochOrSlot)])])];
    return ['back', action.payload.toString()];
  });
}

const [cases, answers] = process.argv.slice(2);
const lines = [];
for (const item of JSON.parse(fs.readFileSync(cases, 'utf8'))) {
  const kv = await openTmpStore('votes', true, 16 * 1024);
  const config = configOf(item.config);
  lines.push(JSON.stringify(await (item.payloads ? empire : tally)(item, config, kv)));
  await kv.delete();
}
fs.writeFileSync(answers, lines.join('\n') + '\n');
process.exit(0);
