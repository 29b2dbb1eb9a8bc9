// `keys doctor`: checks the configuration, database, clock and running server, and reports to a person.

import type { Config } from '../../config/config.ts';
import type { Env } from '../../config/env.ts';
import { contradictions, keepingOut, misspelt, withoutEffect } from '../../config/settings-report.ts';
import { readTls } from '../../config/tls.ts';
import { loadForOperators } from '../../doors/rules/index.ts';
import { fetchEncoded } from '../../ground/fetching.ts';
import { isLoopback } from '../../ground/ip.ts';
import { outageIn, StoreOutage } from '../../ground/result.ts';
import { createServerAddress } from '../../ground/server-address.ts';
import { isObject, type JsonObject, reasonOf } from '../../ground/text.ts';
import type { Store } from '../../store/open.ts';
import { command } from '../command.ts';
import { getDirectly } from '../health.ts';
import { CommandError, configOf, type Io, localTime } from '../io.ts';
import { rulesIn, withStore } from './database.ts';
import { objectIn, textOf } from './device-client.ts';

const CLOCK_OFF_MS_MAX = 1000;
const RESPONSE_MS_MAX = 5000;

type Finding = readonly [state: 'ok' | 'note' | 'bad', about: string, text: string];

export const verb = command({
  name: 'keys doctor',
  summary:
    'Checks the configuration, the database, the clock, and the server that should be running. Exits 1 if something is wrong, 3 if no server answers.',
  async run({ io }) {
    const findings: Finding[] = [];
    try {
      const config = configOf(io, { verifiesUsers: true });
      findings.push(['ok', 'configuration', 'it is valid'], ...warningsOf(io.env, config));
      if (config.tls !== null) findings.push(certificateFinding(config.tls, Date.now()));
      findings.push(...(await databaseFindings(io, config)), ...(await serverFindings(config)));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      for (const line of error.message.split('\n')) findings.push(['bad', 'configuration', line]);
    }
    await io.writeTable(findings);
    if (findings.some(([state]) => state === 'bad')) throw new CommandError('something is wrong');
    if (findings.includes(NO_SERVER)) throw new CommandError('no server answers', 3);
  },
});

/** Returns the warnings that a start would log. */
function warningsOf(env: Env, config: Config): Finding[] {
  const slips = misspelt(env).map(({ variable, meant }) => ({ variable, reason: `perhaps ${meant} is meant` }));
  const doubts = [...withoutEffect(env, config), ...contradictions(env, config), ...keepingOut(config), ...slips];
  return doubts.map(({ variable, reason }) => ['note', 'configuration', `${variable}: ${reason}`]);
}

async function databaseFindings(io: Io, config: Config): Promise<Finding[]> {
  const startedMs = performance.now();
  const found = withStore(
    io,
    async (store) => {
      const unwritten = await store.probeWrite().then(() => null, outageIn);
      const { databaseId } = await store.changesAfter(0, RESPONSE_MS_MAX);
      const tookMs = Math.round(performance.now() - startedMs);
      const askedAtMs = Date.now();
      const databaseMs = await store.nowMs();
      const does = unwritten === null ? 'readable and writable' : `readable, but not writable: ${unwritten.reason}`;
      const database = `${store.mode}, ${does}, opened in ${tookMs} ms; id ${databaseId}`;
      return [
        [unwritten === null ? 'ok' : 'bad', 'database', database] as const,
        clockFinding(databaseMs, askedAtMs, Date.now()),
        ...(await ruleFindings(store, config, io)),
      ];
    },
    config,
  );
  return found.catch((error) => {
    if (!(error instanceof CommandError || error instanceof StoreOutage)) throw error;
    return [['bad', 'database', error.message]];
  });
}

/** Finds the rules that let nobody in, and says why. */
async function ruleFindings(store: Store, config: Config, io: Io): Promise<Finding[]> {
  const { warningsOf } = await loadForOperators();
  const warnings = await warningsOf(rulesIn(store, config, io));
  return warnings.map(({ rule, keyId, reason }) => ['bad', 'rule', `${rule} of key ${keyId}: ${reason}`]);
}

/** Compares the clocks. However slow they were, the database read its own between request and response. */
export function clockFinding(databaseMs: number, askedAtMs: number, respondedAtMs: number): Finding {
  const offMs = databaseMs - Math.min(Math.max(databaseMs, askedAtMs), respondedAtMs);
  return Math.abs(offMs) <= CLOCK_OFF_MS_MAX
    ? ['ok', 'clock', 'this machine and the database agree']
    : ['bad', 'clock', `the clock of the database is ${Math.round(offMs / 1000)} s from that of this machine`];
}

/** Checks the certificate in the files. The running server uses the previous one until it is restarted. */
function certificateFinding(files: NonNullable<Config['tls']>, nowMs: number): Finding {
  try {
    const { endsAtMs, endsSoonFromMs } = readTls(files);
    const hasEnded = nowMs >= endsAtMs;
    const state = hasEnded ? 'bad' : nowMs > endsSoonFromMs ? 'note' : 'ok';
    return [state, 'certificate', `it ${hasEnded ? 'ended' : 'ends'} at ${localTime(endsAtMs)}`];
  } catch (error) {
    return ['bad', 'certificate', reasonOf(error)];
  }
}

const NO_SERVER: Finding = [
  'note',
  'server',
  'not found; if it runs elsewhere, set its HOST, PORT or PUBLIC_URL here too',
];
const NOT_WRITABLE: Finding = ['bad', 'server', 'it could not write: no space, or no rights; its log says which'];
const OTHER_DATABASE: Finding = ['bad', 'server', 'its database is another: set DATABASE_URL here as it is there'];

/** Returns what the running server reports about itself: at PUBLIC_URL, or else at its own address. */
async function serverFindings(config: Config): Promise<Finding[]> {
  const { publicUrl, port } = config;
  const own = port === 0 ? [] : [createServerAddress({ ...config, publicUrl: null }).url];
  const findings: Finding[] = [];
  for (const url of new Set([...(publicUrl === null ? [] : [publicUrl]), ...own])) {
    const health = await healthAt(url, config);
    if (isObject(health)) return [...findings, ...(await findingsAt(url, health, config))];
    findings.push(health);
  }
  return [...findings, NO_SERVER];
}

async function healthAt(url: string, config: Config): Promise<JsonObject | Finding> {
  const response = await get(`${url}/mcp/health`, config);
  if (typeof response === 'string') return ['note', 'server', `not reached at ${url}: ${response}`];
  const body = await objectIn(response);
  return isObject(body.store) ? body : ['bad', 'server', `what responds at ${url} is not this server`];
}

async function findingsAt(url: string, health: JsonObject, config: Config): Promise<Finding[]> {
  const { status, version, instance } = health;
  const store = health.store as JsonObject;
  const lagMs = typeof store.lagMs === 'number' ? store.lagMs : Number.POSITIVE_INFINITY;
  const lag = Number.isFinite(lagMs) ? `last read ${lagMs} ms ago` : 'not read yet';
  const isInFile = store.mode === 'embedded'; // the server doesn't say which file
  return [
    ...(store.writable === false ? [NOT_WRITABLE] : []),
    ...(isInFile === (config.database.mode === 'embedded') ? [] : [OTHER_DATABASE]),
    [status === 'ok' ? 'ok' : 'bad', 'server', `${status} at ${url}, version ${version}, instance ${instance}`],
    [
      lagMs <= config.revocationLagMaxMs ? 'ok' : 'bad',
      'change feed',
      `${lag}; keys are refused above ${config.revocationLagMaxMs} ms of use`,
    ],
    ...(config.publicUrl === null || config.publicUrl === url ? [await addressFinding(url, config)] : []),
  ];
}

/**
 * Checks whether the server sees client addresses. Behind a proxy that TRUST_PROXY doesn't count, all clients share one
 * address's budget.
 */
async function addressFinding(url: string, config: Config): Promise<Finding> {
  const { trustProxy, publicUrl } = config;
  const about = await get(`${url}/`, config);
  const page = typeof about === 'string' ? '' : await textOf(about).catch(() => '');
  const seen = /^Your address[^:]*: (\S+)$/m.exec(page)?.[1];
  if (seen == null) return ['note', 'client address', 'the server did not say where this came from'];
  const text = `this request came from ${seen}, with TRUST_PROXY=${trustProxy}`;
  const isPublic = publicUrl !== null && !isLoopback(new URL(publicUrl).hostname);
  return isPublic && isLoopback(seen)
    ? ['bad', 'client address', `${text}: a proxy is not counted, so all clients share one budget`]
    : ['ok', 'client address', `${text}. If that is a proxy's address, TRUST_PROXY is too low`];
}

/** Sends a GET without secrets. Returns why there is no response. PUBLIC_URL is reached as clients reach it. */
function get(url: string, { publicUrl }: Config): Promise<Response | string> {
  const isPublic = publicUrl !== null && url.startsWith(publicUrl);
  const responding = isPublic
    ? fetchEncoded(url, { signal: AbortSignal.timeout(RESPONSE_MS_MAX) })
    : getDirectly(url, RESPONSE_MS_MAX);
  return responding.catch(reasonOf);
}
