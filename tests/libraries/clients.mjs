// Calls through JSON-RPC libraries of npm; run by test_libraries.py where the libraries are found.  Input and output are
// those of clients.py.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(import.meta.url);
const { url, calls, size } = JSON.parse(readFileSync(0, 'utf8'));
const PATIENCE_MS = 60_000;

/** The code of the node's error, wherever a library keeps it; undefined for an error of the library's own. */
function codeOf(error) {
  const places = [error?.info?.error, error?.error, error?.innerError, error?.cause?.cause, error?.cause, error?.data, error];
  for (const place of places.flat()) {
    if (Number.isInteger(place?.code) && place.code <= -32000) return place.code;
  }
  return undefined;
}

async function outcomeOf(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not settled in ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  try {
    const value = await Promise.race([promise, late]);
    return ['result', value === undefined ? '(undefined)' : value];
  } catch (error) {
    const code = codeOf(error);
    return code === undefined ? ['failed', String(error).slice(0, 300)] : ['error', code];
  } finally {
    clearTimeout(timer);
  }
}

const post = async body => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return answer.status === 204 ? undefined : answer.json();
};

async function web3() {
  const { Web3 } = require('web3');
  const client = new Web3(url);
  return {
    call: (method, params) => client.requestManager.send({ method, params }),
    batch: async several => {
      const batch = new client.BatchRequest();
      const answers = several.map(([method, params]) => outcomeOf(batch.add({ method, params })));
      await batch.execute({ timeout: PATIENCE_MS });
      return Promise.all(answers);
    },
  };
}

async function jsonRpc20() {
  const { JSONRPCClient } = require('json-rpc-2.0');
  const client = new JSONRPCClient(async body => {
    const answer = await post(body);
    if (answer !== undefined) client.receive(answer);
  });
  let id = 1_000_000;
  return {
    call: (method, params) => client.request(method, params),
    batch: async several => {
      const answers = await client.requestAdvanced(
        several.map(([method, params]) => ({ jsonrpc: '2.0', id: ++id, method, params })),
      );
      return Promise.all(
        answers.map(each => outcomeOf('error' in each ? Promise.reject(each.error) : Promise.resolve(each.result))),
      );
    },
    notify: async (method, params) => client.notify(method, params),
  };
}

async function openRpc() {
  const { Client, HTTPTransport, RequestManager } = await import('@open-rpc/client-js');
  const client = new Client(new RequestManager([new HTTPTransport(url)]));
  return {
    call: (method, params) => client.request({ method, params }, PATIENCE_MS),
    batch: async several => {
      client.startBatch();
      const answers = several.map(([method, params]) => outcomeOf(client.request({ method, params }, PATIENCE_MS)));
      client.stopBatch();
      return Promise.all(answers);
    },
    notify: (method, params) => client.notify({ method, params }, PATIENCE_MS),
  };
}

async function jayson() {
  const jayson = require('jayson/promise');
  const { hostname, port } = new URL(url);
  const client = jayson.Client.http({ hostname, port });
  const valueOf = answer => (answer.error ? Promise.reject(answer.error) : Promise.resolve(answer.result));
  return {
    call: async (method, params) => valueOf(await client.request(method, params)),
    batch: async several => {
      const asked = several.map(([method, params]) => client.request(method, params, undefined, false));
      const answers = await client.request(asked);
      const byId = new Map(answers.map(each => [each.id, each]));
      return Promise.all(asked.map(each => outcomeOf(valueOf(byId.get(each.id)))));
    },
    notify: (method, params) => client.request(method, params, null),
  };
}

async function ethers() {
  const { JsonRpcProvider, Network } = require('ethers');
  const network = Network.from(1);
  const single = new JsonRpcProvider(url, network, { staticNetwork: network, batchMaxCount: 1 });
  const several = new JsonRpcProvider(url, network, { staticNetwork: network, batchMaxCount: size, batchStallTime: 20 });
  return {
    call: (method, params) => single.send(method, params),
    batch: calls => Promise.all(calls.map(([method, params]) => outcomeOf(several.send(method, params)))),
  };
}

async function viem() {
  const { createClient, http } = require('viem');
  const of = options => createClient({ transport: http(url, { retryCount: 0, timeout: PATIENCE_MS, ...options }) });
  const single = of({});
  const several = of({ batch: { batchSize: size, wait: 20 } });
  return {
    call: (method, params) => single.request({ method, params }),
    batch: calls => Promise.all(calls.map(([method, params]) => outcomeOf(several.request({ method, params })))),
  };
}

const libraries = {
  'web3.js': web3,
  'json-rpc-2.0': jsonRpc20,
  '@open-rpc/client-js': openRpc,
  jayson,
  ethers,
  viem,
};
const told = {};
for (const [name, make] of Object.entries(libraries)) {
  const client = await make();
  const single = [];
  for (const [method, params] of calls) single.push(await outcomeOf(client.call(method, params)));
  const batch = [];
  for (let start = 0; start < calls.length; start += size) {
    batch.push(...(await client.batch(calls.slice(start, start + size))));
  }
  let notified = null;
  if (client.notify) {
    const [kind, text] = await outcomeOf(client.notify(...calls[0]));
    notified = kind === 'result' ? true : text;
  }
  told[name] = { single, batch, notified };
}
process.stdout.write(JSON.stringify(told), () => process.exit(0));
