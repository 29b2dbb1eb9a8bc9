// Sends the same requests to two servers, one after the other, and says where their responses differ.

import fc from 'fast-check';
import { waitFor } from '../../support/wait-for.ts';
import { type Input, inputs } from '../fuzz/inputs.ts';
import { DOOMED_OF, type PlantedSecrets, plantSecrets } from '../fuzz/planted-secrets.ts';
import type { Target } from '../fuzz/settings.ts';
import { openStreams } from '../fuzz/streams.ts';
import { createWire, type Outcome } from '../fuzz/wire.ts';
import { type Difference, differencesOf } from './differences.ts';
import { type NamedResponse, named, namedResponse } from './names.ts';

/** Differences of one kind: at one route, in one place. */
export interface Kind {
  readonly kind: string;
  count: number;
  readonly example: Difference & { readonly request: string };
}

export interface Compared {
  requests: number;
  /** How many there were of each status of this server. */
  readonly statuses: Map<number, number>;
  readonly kinds: Map<string, Kind>;
}

/** After so many, keys and codes are made anew: those that inputs end, and those that a minute does. */
const ROUND = 2000;
/** Few, so that those who own the keys that may end are often the ones who ask. */
const PEOPLE = 4;

export interface Plan {
  readonly seed: number;
  readonly requests: number;
  readonly sameRuntime: boolean;
}

/** `ours` is the server that is judged. Both are new. */
export async function compare(theirs: Target, ours: Target, plan: Plan): Promise<Compared> {
  const { seed, requests, sameRuntime } = plan;
  const compared: Compared = { requests: 0, statuses: new Map(), kinds: new Map() };
  for (let round = 0; compared.requests < requests; round += 1) {
    const count = Math.min(ROUND, requests - compared.requests);
    const sides = await Promise.all(
      [theirs, ours].map((target) => sideOf(target, { seed: seed + round, requests: count, sameRuntime })),
    );
    const [before, now] = sides as [Side, Side];
    for (const [index, input] of now.inputs.entries()) {
      const outcomes = await Promise.all([before.put(index), now.put(index)]);
      note(compared, input, outcomes, sameRuntime);
    }
    const events = await Promise.all(
      sides.map(async (side) => namedResponse({ ...NO_RESPONSE, body: await side.events() }, false)),
    );
    for (const found of differencesOf(...(events as [NamedResponse, NamedResponse]), false)) {
      add(compared, 'events of /sse', '', found);
    }
    for (const side of sides) side.close();
  }
  return compared;
}

const NO_RESPONSE = { status: 0, headers: new Map(), head: [] };

/** Id of the message that is posted last. */
const LAST = 'the last of all';

type Side = Awaited<ReturnType<typeof sideOf>>;

/** A server with new keys in it, and the inputs of a seed with these keys in them. */
async function sideOf(target: Target, { seed, requests, sameRuntime }: Plan) {
  const planted = await plantSecrets(target);
  const streams = await openStreams(target, planted.tokens.slice(0, 1));
  const wire = createWire(target);
  const sampled = fc.sample(
    inputs(peopleOf(planted), streams.paths).filter((input) => isAnswered(input) && (sameRuntime || isReadable(input))),
    { seed, numRuns: requests },
  );
  return {
    inputs: sampled,
    put: (index: number) => wire.put(sampled[index] as Input),
    /** All events of the open stream, sorted: a message may overtake another that takes longer. */
    async events() {
      const headers = { authorization: `Bearer ${planted.tokens[0]}`, 'content-type': 'application/json' };
      const body = JSON.stringify({ jsonrpc: '2.0', id: LAST, method: 'ping' });
      await target.fetch(streams.paths[0] ?? '', { method: 'POST', headers, body });
      const come: string[] = [];
      await waitFor(() => {
        const events = streams.received().split('\n');
        come.push(...events.filter((line) => line.startsWith('data:')));
        return come.some((line) => line.includes(LAST));
      });
      return come.sort().join('\n');
    },
    close() {
      streams.close();
      wire.close();
    },
  };
}

/** Deno answers 400 to a header with DEL in it, before the server sees the request. */
const isReadable = ({ chunks }: Input) => !chunks.join('').includes('\x7f');
const isAnswered = ({ expect }: Input) => expect === 'response';

const peopleOf = (planted: PlantedSecrets): PlantedSecrets => ({
  ...planted,
  tokens: [...planted.tokens.slice(0, PEOPLE), ...planted.tokens.slice(DOOMED_OF, DOOMED_OF + PEOPLE)],
});

function note(compared: Compared, input: Input, outcomes: readonly Outcome[], sameRuntime: boolean): void {
  compared.requests += 1;
  const request = input.chunks.join('');
  const where = routeOf(request);
  const [before, now] = outcomes.map(({ responses: [response] }) => response && namedResponse(response, input.isHead));
  if (before === undefined || now === undefined) {
    if (before !== now) {
      const [one = '', other = ''] = outcomes.map(({ ended, rest }) => `${ended} ${rest}`);
      add(compared, where, request, { where: 'whether there is a response', before: one, now: other });
    }
    return;
  }
  compared.statuses.set(now.status, (compared.statuses.get(now.status) ?? 0) + 1);
  const statuses = before.status === now.status ? before.status : `${before.status} → ${now.status}`;
  for (const found of differencesOf(before, now, sameRuntime)) add(compared, `${where}, ${statuses}`, request, found);
}

function add({ kinds }: Compared, route: string, request: string, found: Difference): void {
  const kind = `${route}: ${found.where}`;
  const known = kinds.get(kind);
  if (known !== undefined) known.count += 1;
  else kinds.set(kind, { kind, count: 1, example: { ...found, request: named(request) } });
}

/** Method and path; over MCP also what is called. */
function routeOf(request: string): string {
  const [, method = '', path = ''] = /^(\S+) ([^ ?]*)/.exec(request) ?? [];
  if (path !== '/mcp' && path !== '/messages') return `${method} ${path}`;
  const [, called = 'something'] = /"method":"(\w+(?:\/\w+)*)"/.exec(request) ?? [];
  const [, tool = ''] = /"name":"(\w+)","arguments"/.exec(request) ?? [];
  return `${method} ${path} ${called} ${tool}`.trim();
}
