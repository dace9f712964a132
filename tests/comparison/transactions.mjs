// The published node's side of compare_transactions.py: its own classes for transactions, validators, pool, records,
// checkpoint blobs and signed messages.  Each line is a question, {"op": ...}, and is answered by one line:
// {"refused": text} where a class of its cannot read what it is given.
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { Barretenberg } from '@aztec/bb.js';

// What hashes is a process of its own, which has five seconds to start.  On a busy machine reading all that is below
// takes longer, and nothing is heard meanwhile.
await Barretenberg.initSingleton();
await new Promise(done => setTimeout(done, 2_000));
const { decodeCheckpointBlobDataFromBuffer } = await import('@aztec/blob-lib/encoding');
const { Fr } = await import('@aztec/foundation/curves/bn254');
const { BufferReader } = await import('@aztec/foundation/serialize');
const { EthAddress } = await import('@aztec/foundation/eth-address');
const { openTmpStore } = await import('@aztec/kv-store/lmdb-v2');
const { getVKTreeRoot } = await import('@aztec/noir-protocol-circuits-types/vk-tree');
const { ProtocolContractAddress, protocolContractsHash } = await import('@aztec/protocol-contracts');
const { computeFeePayerBalanceStorageSlot } = await import('@aztec/protocol-contracts/fee-juice');
const { FunctionSelector } = await import('@aztec/stdlib/abi');
const { AztecAddress } = await import('@aztec/stdlib/aztec-address');
const { CommitteeAttestation, L2Block } = await import('@aztec/stdlib/block');
const { PublishedCheckpoint } = await import('@aztec/stdlib/checkpoint');
const { GasFees } = await import('@aztec/stdlib/gas');
const { computePublicDataTreeLeafSlot } = await import('@aztec/stdlib/hash');
const { BlockProposal, CheckpointAttestation, CheckpointProposal, P2PMessage } = await import('@aztec/stdlib/p2p');
const { CheckpointHeader } = await import('@aztec/stdlib/rollup');
const { MerkleTreeId } = await import('@aztec/stdlib/trees');
const { BlockHeader, Tx, TxEffect, TxHash } = await import('@aztec/stdlib/tx');

const inside = (name, path) => import(`../node_modules/@aztec/${name}/dest/${path}`);
const validators = await inside('p2p', 'msg_validators/tx_validator/factory.js');
const { getDefaultAllowedSetupFunctions } = await inside('p2p', 'msg_validators/tx_validator/allowed_public_setup.js');
const { buildTxMetaData } = await inside('p2p', 'mem_pools/tx_pool_v2/tx_metadata.js');
const { AztecKVTxPoolV2 } = await inside('p2p', 'mem_pools/tx_pool_v2/tx_pool_v2.js');
const { BlockProposalValidator } = await inside('p2p', 'msg_validators/proposal_validator/block_proposal_validator.js');
const { CheckpointProposalValidator } = await inside('p2p', 'msg_validators/proposal_validator/checkpoint_proposal_validator.js');
const { CheckpointAttestationValidator } = await inside('p2p', 'msg_validators/attestation_validator/attestation_validator.js');
const { retrievedToPublishedCheckpoint } = await inside('archiver', 'l1/data_retrieval.js');
const { validateCheckpointAttestations } = await inside('archiver', 'modules/validation.js');

// ---- what is computed once -----------------------------------------------------------------------
// Fields never change: equal bytes are read as one field, which keeps the bytes.
const FIELDS_KEPT = 200_000, fields = new Map(), kept = Symbol('bytes'), toBuffer = Fr.prototype.toBuffer;
Fr.prototype.toBuffer = function () { return Buffer.from(this[kept] ??= toBuffer.call(this)); };
Fr.fromBuffer = source => {
  const read = BufferReader.asReader(source).readBytes(Fr.SIZE_IN_BYTES), key = read.latin1Slice();
  let field = read.length === Fr.SIZE_IN_BYTES ? fields.get(key) : new Fr(read);
  if (!field) {
    if (fields.size >= FIELDS_KEPT) fields.clear();
    fields.set(key, field = new Fr(read));
  }
  return field;
};
// Hashes by what is hashed, some of which a question brings with it: one in CHECKED of these is computed here too.
const CHECKED = 50, HASHES_KEPT = 20_000, known = new Map();
let given = {}, looked = 0;
const hasher = Barretenberg.getSingleton(), poseidon2Hash = hasher.poseidon2Hash.bind(hasher);
hasher.poseidon2Hash = async command => {
  const key = createHash('sha256').update(Buffer.concat(command.inputs)).digest('hex');
  const found = known.get(key), told = found ? undefined : given[key];
  if (found) return { hash: found };
  if (told && looked++ % CHECKED) return { hash: Buffer.from(told, 'hex') };
  const hash = Buffer.from((await poseidon2Hash(command)).hash);
  if (told && hash.toString('hex') !== told) throw new Error(`the hash ${told} is wrong`);
  if (known.size >= HASHES_KEPT) known.delete(known.keys().next().value);
  known.set(key, hash);
  return { hash };
};
// Blobs that begin alike take the same steps up to where they differ.
const STEPS_KEPT = 300_000, steps_taken = new Map(), permute = hasher.poseidon2Permutation.bind(hasher);
hasher.poseidon2Permutation = async command => {
  const key = 'p' + createHash('sha256').update(Buffer.concat(command.inputs)).digest('hex');
  let found = steps_taken.get(key);
  if (found) return found;
  const told = given[key] && Buffer.from(given[key], 'hex');
  if (told && looked++ % CHECKED) found = { outputs: [0, 32, 64, 96].map(place => told.subarray(place, place + 32)) };
  else {
    found = await permute(command);
    if (told && !told.equals(Buffer.concat(found.outputs))) throw new Error(`the step ${key} is wrong`);
  }
  if (steps_taken.size >= STEPS_KEPT) steps_taken.clear();
  steps_taken.set(key, found);
  return found;
};
const computed = new WeakMap(), computeTxHash = Tx.computeTxHash;
Tx.computeTxHash = tx => {
  if (!computed.has(tx.data)) computed.set(tx.data, computeTxHash.call(Tx, tx));
  return computed.get(tx.data);
};

const short = bytes => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const bytes = text => Buffer.from(text, 'base64');
const words = error => String(error?.message ?? error).split('\n')[0].slice(0, 200);

// ---- a chain that both sides make up ------------------------------------------------------------
let world;
async function take(made) {
  const balances = new Map();
  for (const [payer, amount] of Object.entries(made.balances)) {
    const slot = await computeFeePayerBalanceStorageSlot(AztecAddress.fromString(payer));
    balances.set((await computePublicDataTreeLeafSlot(ProtocolContractAddress.FeeJuice, slot)).toBigInt(), BigInt(amount));
  }
  world = {
    ...made, balances, anchors: new Set(made.anchors), nullifiers: new Set(made.nullifiers), mined: new Map(Object.entries(made.mined ?? {})),
    fees: new GasFees(0n, BigInt(made.fee)), allowed: world?.allowed ?? [
      ...await getDefaultAllowedSetupFunctions(),
      ...(made.allowed ?? []).map(({ classId, selector, ...rest }) => ({ classId: Fr.fromHexString(classId), selector: FunctionSelector.fromString(selector), ...rest })),
    ],
  };
}
const trees = {
  findLeafIndices: async (tree, leaves) => leaves.map(leaf => {
    const known = tree === MerkleTreeId.ARCHIVE ? world.anchors : world.nullifiers;
    return known.has(Buffer.isBuffer(leaf) ? '0x' + leaf.toString('hex') : leaf.toString()) ? 1n : undefined;
  }),
  getPreviousValueIndex: async (_, slot) => ({ index: slot, alreadyPresent: world.balances.has(slot) }),
  getLeafPreimage: async (_, index) => ({ leaf: { value: new Fr(world.balances.get(index) ?? 0n) } }),
};
const state = { syncImmediate: async () => {}, getCommitted: () => trees, getSnapshot: () => trees };
const contracts = {
  getContract: async address => {
    const id = world.classes[address.toString()];
    return id && { address, currentContractClassId: Fr.fromHexString(id), originalContractClassId: Fr.fromHexString(id) };
  },
  getContractClass: async () => undefined,
};

// ---- transactions ---------------------------------------------------------------------------------
const asked = async (validator, tx) => {
  try {
    const { result, reason } = await validator.validateTx(tx);
    return [result, ...(reason ?? [])];
  } catch (error) { return ['invalid', `thrown: ${words(error)}`]; }
};
async function gossiped(tx) {
  const { timestamp, blockNumber, l1ChainId, rollupVersion, fees, allowed, manaLimit } = world;
  const stage = validators.createFirstStageTxValidationsForGossipedTransactions(
    BigInt(timestamp), blockNumber, state, fees, l1ChainId, rollupVersion, protocolContractsHash, contracts, true, allowed, undefined, { rollupManaLimit: manaLimit });
  const failed = {};
  for (const [name, { validator, severity }] of Object.entries(stage)) {
    const [result] = await asked(validator, tx);
    if (result === 'invalid') failed[name] = severity;
  }
  return failed;
}
async function described(tx) {
  const written = tx.toBuffer();
  tx.sizeCache = written.length; // that getSize() would write it again for
  const { timestamp, blockNumber, l1ChainId, rollupVersion, fees, allowed, manaLimit } = world;
  const rpc = validators.createTxValidatorForAcceptingTxsOverRPC(trees, contracts, undefined, {
    l1ChainId, rollupVersion, setupAllowList: allowed, gasFees: fees, skipFeeEnforcement: false, timestamp: BigInt(timestamp), blockNumber, txsPermitted: true, rollupManaLimit: manaLimit,
  });
  const build = validators.createTxValidatorForBlockBuilding(trees, contracts, { timestamp: BigInt(timestamp), blockNumber, gasFees: fees }, allowed);
  const proposal = validators.createTxValidatorForBlockProposalReceivedTxs({ verifyProof: async () => ({ valid: true }) }, { l1ChainId, rollupVersion });
  let pool;
  try {
    const meta = await buildTxMetaData(tx);
    pool = {
      priority: `${meta.priorityFee}`, limit: `${meta.feeLimit}`, claim: `${meta.claimAmount}`, payer: meta.feePayer, nullifiers: meta.nullifiers,
      anchor: meta.anchorBlockHeaderHash, expiration: `${meta.expirationTimestamp}`, public: meta.data.forPublic,
    };
  } catch (error) { pool = words(error); }
  return {
    claimed: tx.txHash.toString(), hash: (await Tx.computeTxHash(tx)).toString(), written: short(written), size: tx.getSize(),
    rpc: await asked(rpc, tx), gossip: await gossiped(tx), build: await asked(build.preprocessValidator, tx), proposal: await asked(proposal, tx), pool,
  };
}

// ---- records ----------------------------------------------------------------------------------------
const hashed = async record => ({ written: short(record.toBuffer()), hash: (await record.hash()).toString() });
const plain = record => ({ written: short(record.toBuffer()) });
const signed = message => ({ written: short(message.toBuffer()), signer: message.getSender()?.toString() ?? null });
const records = {
  BlockHeader: [BlockHeader, hashed], CheckpointHeader: [CheckpointHeader, hashed], L2Block: [L2Block, hashed], TxEffect: [TxEffect, plain],
  BlockProposal: [BlockProposal, signed], CheckpointProposal: [CheckpointProposal, signed],
  CheckpointAttestation: [CheckpointAttestation, message => ({ ...signed(message), proposer: message.getProposer()?.toString() ?? null })],
  PublishedCheckpoint: [PublishedCheckpoint, ({ checkpoint, attestations }) => ({
    written: short(Buffer.concat(checkpoint.blocks.map(block => block.toBuffer()))), signatures: short(Buffer.concat(attestations.map(one => one.signature.toBuffer()))),
  })],
};
async function blocksOf({ header, fields, number, archive, chainId, version }) {
  const published = await retrievedToPublishedCheckpoint({
    checkpointNumber: number, archiveRoot: Fr.fromHexString(archive), feeAssetPriceModifier: 0n, header: CheckpointHeader.fromBuffer(bytes(header)),
    checkpointBlobData: decodeCheckpointBlobDataFromBuffer(bytes(fields)), l1: undefined, chainId: new Fr(chainId), version: new Fr(version), attestations: [],
  });
  const blocks = [];
  for (const block of published.checkpoint.blocks) blocks.push([block.number, (await block.hash()).toString(), short(block.toBuffer())]);
  return { blocks };
}

// ---- signed messages -------------------------------------------------------------------------------
const messages = {
  block_proposal: [BlockProposal, cache => new BlockProposalValidator(cache, { txsPermitted: true })],
  checkpoint_proposal: [CheckpointProposal, cache => new CheckpointProposalValidator(cache, { txsPermitted: true })],
  checkpoint_attestation: [CheckpointAttestation, cache => new CheckpointAttestationValidator(cache)],
};
async function judged({ topic, data, slot, proposer }) {
  const { payload } = P2PMessage.fromMessageData(bytes(data));
  if (topic === 'tx') return `read ${short(Tx.fromBuffer(payload).toBuffer()).slice(0, 8)}`;
  const [kind, validator] = messages[topic];
  const { result, severity } = await validator({
    getCurrentAndNextSlot: () => ({ currentSlot: slot, nextSlot: slot + 1 }), getEpochAndSlotNow: () => ({ ts: 0n, nowMs: 5000n, slot }),
    getProposerAttesterAddressInSlot: async () => EthAddress.fromString(proposer), isInCommittee: async (_, address) => address.toString() === proposer,
  }).validate(kind.fromBuffer(payload));
  return severity === undefined ? result : `${result} ${severity[0]}`;
}
async function attested({ header, archive, modifier, indices, data, committee }) {
  const checkpoint = {
    header: CheckpointHeader.fromBuffer(bytes(header)), archive: { root: Fr.fromHexString(archive) }, feeAssetPriceModifier: BigInt(modifier), number: 7, blocks: [],
    toCheckpointInfo: () => ({}),
  };
  checkpoint.slot = checkpoint.header.slotNumber;
  const attestations = CommitteeAttestation.fromPacked({ signatureIndices: indices, signaturesOrAddresses: data }, committee.length);
  const { valid } = await validateCheckpointAttestations({ checkpoint, attestations }, {
    getCommitteeForEpoch: async () => ({ committee: committee.map(EthAddress.fromString), seed: 0n }), isEscapeHatchOpen: async () => false,
  }, { epochDuration: 4 }, undefined);
  return { valid };
}

// ---- a pool -----------------------------------------------------------------------------------------
let pool;
const steps = {
  async add({ tx, isClient }) {
    const read = Tx.fromBuffer(bytes(tx)), hash = read.getTxHash().toString();
    const { accepted, errors } = await pool.addPendingTxs([read], isClient ? { feeComparisonOnly: true } : {});
    const error = errors?.get(hash);
    return accepted.length ? ['accepted'] : ['ignored', error?.code ?? null, error?.message ?? null];
  },
  async block({ number, timestamp, effects }) {
    const header = { getBlockNumber: () => number, globalVariables: { blockNumber: number, timestamp: BigInt(timestamp), slotNumber: number }, hash: async () => Fr.ZERO };
    const txEffects = effects.map(([hash, ...nullifiers]) => ({ txHash: TxHash.fromString(hash), nullifiers: nullifiers.map(item => Fr.fromHexString(item)) }));
    await pool.handleMinedBlock({ header, body: { txEffects } });
  },
  undo: ({ number, deleteAll }) => pool.handlePrunedBlocks({ number, hash: Fr.ZERO.toString() }, deleteAll ? { deleteAllTxs: true } : undefined),
  final: ({ number }) => pool.handleFinalizedBlock({ globalVariables: { blockNumber: number } }),
  drop: ({ hashes }) => pool.handleFailedExecution(hashes.map(TxHash.fromString)),
  time: async () => undefined,
};

const answers = {
  async world({ made }) {
    await take(made);
    return { vkTreeRoot: getVKTreeRoot().toString(), protocolContractsHash: protocolContractsHash.toString() };
  },
  tx: async ({ data }) => described(Tx.fromBuffer(bytes(data))),
  txJson: async ({ json }) => described(await Tx.schema.parseAsync(json)),
  record: async ({ kind, data }) => records[kind][1](records[kind][0].fromBuffer(bytes(data))),
  recordJson: async ({ kind, json }) => records[kind][1](await records[kind][0].schema.parseAsync(json)),
  blobs: blocksOf,
  message: async question => ({ verdict: await judged(question).catch(() => 'reject L') }),
  attested,
  async pool({ made, limit, bump }) {
    await pool?.stop();
    await take(made);
    const mined = { getTxEffect: async hash => world.mined.has(hash.toString()) ? { l2BlockNumber: world.mined.get(hash.toString()), l2BlockHash: Fr.ZERO, data: {} } : undefined };
    const checks = () => validators.createTxValidatorForTransactionsEnteringPendingTxPool(state, BigInt(world.timestamp), world.blockNumber, {});
    const parts = { l2BlockSource: mined, worldStateSynchronizer: state, createTxValidator: checks };
    const settings = { maxPendingTxCount: limit, priceBumpPercentage: BigInt(bump), minTxPoolAgeMs: 0 };
    pool = new AztecKVTxPoolV2(await openTmpStore('p2p'), await openTmpStore('archive'), parts, undefined, settings);
    await pool.start();
    return {};
  },
  async step(question) {
    if (question.made) await take(question.made);
    const answer = await steps[question.do](question) ?? null;
    const status = [];
    for (const hash of question.all) status.push(await pool.getTxStatus(TxHash.fromString(hash)) ?? null);
    return { answer, pending: (await pool.getPendingTxHashes()).map(hash => hash.toString()), status };
  },
};

process.on('unhandledRejection', () => {}); // its own, for a transaction of which two parts cannot be read
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const question = JSON.parse(line);
  given = question.hashes ?? given;
  let answer;
  try { answer = await answers[question.op](question); } catch (error) { answer = { refused: words(error) }; }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
process.exit(0);
