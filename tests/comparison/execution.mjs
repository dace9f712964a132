// The published node's side of compare_execution.py: its native simulator and its block building.
// The first line is {"base": ...}, what every case starts from; then each line is a case, answered by one line.
// execution_outcomes.py says what cases are.
import { createInterface } from 'readline';
import { NativeWorldStateService } from '@aztec/world-state';
import { PublicContractsDB, PublicProcessor, CppPublicTxSimulator } from '@aztec/simulator/server';
import { CollectionLimitsConfig, PublicSimulatorConfig } from '@aztec/stdlib/avm';
import { Fr } from '@aztec/foundation/curves/bn254';
import { EthAddress } from '@aztec/foundation/eth-address';
import { AztecAddress } from '@aztec/stdlib/aztec-address';
import { Gas, GasFees, GasSettings } from '@aztec/stdlib/gas';
import { PublicKeys } from '@aztec/stdlib/keys';
import {
  LogHash, PartialPrivateTailPublicInputsForPublic, PartialPrivateTailPublicInputsForRollup,
  PrivateKernelTailCircuitPublicInputs, PublicCallRequest, ScopedLogHash,
} from '@aztec/stdlib/kernel';
import { ContractClassLogFields, PrivateLog } from '@aztec/stdlib/logs';
import { L2ToL1Message, ScopedL2ToL1Message } from '@aztec/stdlib/messaging';
import { ChonkProof } from '@aztec/stdlib/proofs';
import { MerkleTreeId, PublicDataTreeLeaf, NullifierLeaf } from '@aztec/stdlib/trees';
import { BlockHeader, GlobalVariables, HashedValues, Tx, TxConstantData, TxContext, TxHash } from '@aztec/stdlib/tx';
import { protocolContractNames } from '@aztec/protocol-contracts';
import { BundledProtocolContractsProvider } from '@aztec/protocol-contracts/providers/bundle';
import { createLogger } from '@aztec/foundation/log';
import { DateProvider } from '@aztec/foundation/timer';
import { getTelemetryClient } from '@aztec/telemetry-client';

const fr = v => new Fr(BigInt(v));
const address = v => new AztecAddress(fr(v));
const hex = f => '0x' + f.toBigInt().toString(16);
const gas = ([da, l2]) => new Gas(da, l2);
const gasJson = g => ({ daGas: g.daGas, l2Gas: g.l2Gas });

// ---- contracts ------------------------------------------------------------------------------------
const protocol = { classes: new Map(), instances: new Map() };
for (const name of protocolContractNames) {
  const c = await new BundledProtocolContractsProvider().getProtocolContractArtifact(name);
  protocol.classes.set(c.contractClass.id.toString(), { ...c.contractClass, privateFunctions: [], utilityFunctions: [] });
  protocol.instances.set(c.address.toString(), { ...c.instance, address: c.address });
}
class Source {
  constructor(base, item) {
    this.classes = new Map(protocol.classes); this.instances = new Map(protocol.instances);
    for (const part of [base, item]) {
      for (const [id, code] of Object.entries(part.classes ?? {}))
        this.classes.set(fr(id).toString(), {
          id: fr(id), version: 1, artifactHash: Fr.ZERO, privateFunctionsRoot: Fr.ZERO,
          packedBytecode: Buffer.from(code, 'hex'), privateFunctions: [], utilityFunctions: [],
        });
      for (const c of part.contracts ?? [])
        this.instances.set(address(c.address).toString(), {
          address: address(c.address), version: 1, salt: Fr.ZERO, deployer: address(c.deployer),
          currentContractClassId: fr(c.currentClassId ?? c.classId), originalContractClassId: fr(c.classId),
          initializationHash: fr(c.initHash), publicKeys: PublicKeys.default(),
        });
    }
  }
  getContractClass(id) { return Promise.resolve(this.classes.get(id.toString())); }
  getContract(a) { return Promise.resolve(this.instances.get(a.toString())); }
  getBytecodeCommitment() { return Promise.resolve(undefined); }
  getDebugFunctionName() { return Promise.resolve(undefined); }
}

// ---- transactions ---------------------------------------------------------------------------------
function globalsOf(g) {
  const v = GlobalVariables.empty();
  v.chainId = fr(g.chainId); v.version = fr(g.version); v.blockNumber = g.blockNumber; v.timestamp = BigInt(g.timestamp);
  v.gasFees = new GasFees(BigInt(g.feePerDaGas), BigInt(g.feePerL2Gas));
  return v;
}
function fill(target, values) { values.forEach((v, i) => { target[i] = v; }); }
function accumulate(data, part, logs) {
  fill(data.noteHashes, (part.notes ?? []).map(fr));
  fill(data.nullifiers, (part.nullifiers ?? []).map(fr));
  fill(data.l2ToL1Msgs, (part.messages ?? []).map(([c, r, v]) =>
    new ScopedL2ToL1Message(new L2ToL1Message(EthAddress.fromField(fr(r)), fr(v)), address(c))));
  fill(data.privateLogs, (part.privateLogs ?? []).map(([fields, length]) =>
    new PrivateLog(fields.map(fr).concat(Array(16 - fields.length).fill(Fr.ZERO)), length)));
  fill(data.contractClassLogsHashes, (part.classLogs ?? []).map(([a, fields]) => {
    logs.push(ContractClassLogFields.fromEmittedFields(fields.map(fr)));
    return new ScopedLogHash(new LogHash(fr(1), fields.length), address(a));
  }));
}
function txOf(t) {
  const calldata = [], logs = [];
  const call = c => {
    const hash = fr(calldata.length + 1);
    calldata.push(new HashedValues(c.calldata.map(fr), hash));
    return new PublicCallRequest(address(c.sender), address(c.address), !!c.static, hash);
  };
  const settings = new GasSettings(gas(t.gasLimits), gas(t.teardownGasLimits),
    new GasFees(...t.maxFees.map(BigInt)), new GasFees(...t.priority.map(BigInt)));
  const constants = new TxConstantData(BlockHeader.empty(), new TxContext(Fr.ZERO, Fr.ZERO, settings), Fr.ZERO, Fr.ZERO);
  const { setup = [], app = [], teardown } = t.calls;
  const nr = { ...(t.nr ?? {}), nullifiers: [t.first, ...(t.nr?.nullifiers ?? [])] };
  let forPublic, forRollup;
  if (t.privateOnly) {
    forRollup = PartialPrivateTailPublicInputsForRollup.empty();
    accumulate(forRollup.end, nr, logs);
  } else {
    forPublic = PartialPrivateTailPublicInputsForPublic.empty();
    accumulate(forPublic.nonRevertibleAccumulatedData, nr, logs);
    accumulate(forPublic.revertibleAccumulatedData, t.rv ?? {}, logs);
    fill(forPublic.nonRevertibleAccumulatedData.publicCallRequests, setup.map(call));
    fill(forPublic.revertibleAccumulatedData.publicCallRequests, app.map(call));
    if (teardown) forPublic.publicTeardownCallRequest = call(teardown);
  }
  const data = new PrivateKernelTailCircuitPublicInputs(constants, gas(t.gasUsed), address(t.feePayer), 0n, forPublic, forRollup);
  return new Tx(new TxHash(fr(t.hash ?? 7)), data, ChonkProof.empty(), logs, calldata);
}

// ---- outcomes -------------------------------------------------------------------------------------
const callJson = c => ({
  phase: c.phase, address: hex(c.contractAddress), calldata: c.calldata.map(hex), output: c.output.map(hex),
  pcs: c.internalCallStackAtExit, message: c.haltingMessage ?? '', reverted: c.reverted,
  nested: c.nested.map(callJson),
});
const reasonJson = r => r === undefined ? null : {
  originalMessage: r.originalMessage ?? r.message,
  functionErrorStack: r.functionErrorStack?.map(e => ({ contractAddress: e.contractAddress.toString(),
    ...(e.functionSelector ? { functionSelector: e.functionSelector.toString() } : {}) })),
  noirErrorStack: r.noirErrorStack ?? null, revertData: (r.revertData ?? []).map(x => x.toString()),
};
const debugJson = l => ({ contractAddress: l.contractAddress?.toString(), level: l.level, message: l.message, fields: l.fields.map(f => f.toString()) });
const gasUsedJson = g => Object.fromEntries(Object.entries(g).map(([k, v]) => [k, gasJson(v)]));
function simulated(r) {
  const e = r.publicTxEffect;
  return {
    revertCode: r.revertCode.getCode(), gas: gasUsedJson(r.gasUsed), fee: hex(e.transactionFee), notes: e.noteHashes.map(hex),
    nullifiers: e.nullifiers.map(hex),
    messages: e.l2ToL1Msgs.filter(m => !m.contractAddress.isZero()).map(m => [hex(m.contractAddress), hex(m.message.recipient.toField()), hex(m.message.content)]),
    logs: e.publicLogs.map(l => [hex(l.contractAddress), l.fields.map(hex)]),
    writes: e.publicDataWrites.map(w => [hex(w.leafSlot), hex(w.value)]),
    returns: r.getAppLogicReturnValues().map(v => (v.values ?? []).map(hex)), debugLogs: (r.logs ?? []).map(debugJson),
    revertReason: reasonJson(r.findRevertReason()),
    calls: r.callStackMetadata.map(callJson),
  };
}
async function rootsOf(fork) {
  const s = await fork.getStateReference();
  const t = x => [hex(x.root), Number(x.nextAvailableLeafIndex)];
  return { messages: t(s.l1ToL2MessageTree), notes: t(s.partial.noteHashTree), nullifiers: t(s.partial.nullifierTree), publicData: t(s.partial.publicDataTree) };
}
async function setUp(fork, state) {
  for (const [slot, value] of state.leaves ?? [])
    await fork.sequentialInsert(MerkleTreeId.PUBLIC_DATA_TREE, [new PublicDataTreeLeaf(fr(slot), fr(value)).toBuffer()]);
  if (state.nullifiers?.length)
    await fork.batchInsert(MerkleTreeId.NULLIFIER_TREE, state.nullifiers.concat(Array(64 - state.nullifiers.length).fill(0)).map(n => new NullifierLeaf(fr(n)).toBuffer()), 6);
  if (state.notes?.length) await fork.appendLeaves(MerkleTreeId.NOTE_HASH_TREE, state.notes.map(fr));
  if (state.messages?.length) await fork.appendLeaves(MerkleTreeId.L1_TO_L2_MESSAGE_TREE, state.messages.map(fr));
}

const log = createLogger('comparison');
async function run(fork, base, item) {
  const globals = globalsOf(item.globals);
  const source = new Source(base, item);
  const config = PublicSimulatorConfig.from({
    skipFeeEnforcement: !!item.skipFeeEnforcement, collectDebugLogs: item.collectDebugLogs !== false,
    collectCallMetadata: true, collectHints: false, collectStatistics: false,
    collectionLimits: CollectionLimitsConfig.from({ maxDebugLogMemoryReads: 125_000 }),
  });
  const db = new PublicContractsDB(source);
  const simulator = new CppPublicTxSimulator(fork, db, globals, config);
  if (item.block) {
    const results = [];
    const keep = new Map();
    const simulate = simulator.simulate.bind(simulator);
    simulator.simulate = async tx => { const r = await simulate(tx); keep.set(tx, r); return r; };
    const processor = new PublicProcessor(globals, guard(fork), db, simulator, new DateProvider(), getTelemetryClient(), log);
    for (const t of item.txs) {
      const tx = txOf(t);
      const [done, failed] = await processor.process([tx]);
      if (failed.length) { results.push({ error: failed[0].error.message }); continue; }
      const [p] = done; const e = p.txEffect;
      results.push({
        revertCode: e.revertCode.getCode(), gas: gasUsedJson(p.gasUsed), fee: hex(e.transactionFee), notes: e.noteHashes.map(hex),
        nullifiers: e.nullifiers.map(hex), messages: e.l2ToL1Msgs.map(hex), logs: e.publicLogs.map(l => [hex(l.contractAddress), l.fields.map(hex)]),
        writes: e.publicDataWrites.map(w => [hex(w.leafSlot), hex(w.value)]),
        privateLogs: e.privateLogs.map(l => [l.emittedLength, hex(l.fields[0])]),
        classLogs: e.contractClassLogs.map(l => [hex(l.contractAddress), l.emittedLength]),
        returns: keep.has(tx) ? keep.get(tx).getAppLogicReturnValues().map(v => (v.values ?? []).map(hex)) : [],
        debugLogs: keep.has(tx) ? (keep.get(tx).logs ?? []).map(debugJson) : [],
        revertReason: reasonJson(p.revertReason),
      });
    }
    return { results, roots: await rootsOf(fork) };
  }
  try { return simulated(await simulator.simulate(txOf(item.txs[0]))); }
  catch (e) { return { error: e.originalMessage ?? e.message }; }
}
function guard(fork) { return Object.assign(Object.create(fork), { getUnderlyingFork: () => fork, stop: async () => {} }); }

const service = await NativeWorldStateService.tmp();
let fork, base;
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (!line) continue;
  const item = JSON.parse(line);
  if (item.base) {
    base = item.base; fork = await service.fork(); await setUp(fork, base);
    process.stdout.write(JSON.stringify({ ok: true }) + '\n');
    continue;
  }
  const depth = await fork.createCheckpoint();
  let answer;
  try { await setUp(fork, item.state ?? {}); if (item.newMessages) await setUp(fork, { messages: item.newMessages }); answer = await run(fork, base, item); }
  catch (e) { answer = { unable: String(e?.stack ?? e) }; }
  await fork.revertAllCheckpointsTo(depth - 1);
  answer.id = item.id;
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await service.close();
process.exit(0);
