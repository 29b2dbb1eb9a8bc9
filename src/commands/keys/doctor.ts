// `keys doctor`: checks a server of this configuration, and reports to a person.

import type { Config } from '../../config/config.ts';
import { readTls } from '../../config/tls.ts';
import { isLoopback } from '../../ground/ip.ts';
import { StoreOutage } from '../../ground/outage.ts';
import { isObject, reasonOf } from '../../ground/text.ts';
import { addressOf } from '../../start/banner.ts';
import { CERTIFICATE_MS_MIN } from '../../start/listener.ts';
import type { Store } from '../../store/open.ts';
import { command } from '../command.ts';
import { CommandError, localTime } from '../io.ts';
import { configOf, withStore } from './database.ts';

const CLOCK_OFF_MS_MAX = 1000;
const RESPONSE_MS_MAX = 5000;

type Finding = readonly [state: 'ok' | 'note' | 'bad', about: string, text: string];

export const verb = command({
  name: 'keys doctor',
  summary: 'Checks the configuration, the database, the clock, and the server that should be running.',
  async run({ io }) {
    const findings: Finding[] = [];
    const startedMs = performance.now();
    const check = async (store: Store, config: Config) => {
      await store.admin.probeWrite();
      const page = await store.changesAfter({ databaseId: '', seq: 0, mark: null }, RESPONSE_MS_MAX);
      const tookMs = Math.round(performance.now() - startedMs);
      findings.push([
        'ok',
        'database',
        `${store.mode}, readable and writable, opened in ${tookMs} ms; id ${page.databaseId}`,
      ]);
      const askedAtMs = Date.now();
      const databaseMs = await store.admin.nowMs();
      findings.push(clockFinding(databaseMs, askedAtMs, Date.now()));
      findings.push(...(await serverFindings(config)));
    };
    try {
      const config = configOf(io.env, { verifiesUsers: true });
      findings.push(['ok', 'configuration', 'it is valid']);
      if (config.tls !== null) findings.push(certificateFinding(config.tls, Date.now()));
      await withStore(io, check, config);
    } catch (error) {
      if (!(error instanceof CommandError || error instanceof StoreOutage)) throw error;
      findings.push(['bad', findings.length === 0 ? 'configuration' : 'database', error.message]);
    }
    await io.writeTable(findings);
    if (findings.some(([state]) => state === 'bad')) throw new CommandError('something is wrong');
  },
});

/** The database read its clock at some time between question and response, however slow. */
export function clockFinding(databaseMs: number, askedAtMs: number, respondedAtMs: number): Finding {
  const offMs = databaseMs - Math.min(Math.max(databaseMs, askedAtMs), respondedAtMs);
  return Math.abs(offMs) <= CLOCK_OFF_MS_MAX
    ? ['ok', 'clock', 'this machine and the database agree']
    : ['bad', 'clock', `the clock of the database is ${Math.round(offMs / 1000)} s from that of this machine`];
}

/** Of the files: the running server may use the certificate before, until it is started anew. */
function certificateFinding(files: NonNullable<Config['tls']>, nowMs: number): Finding {
  try {
    const { endsAtMs } = readTls(files);
    const leftMs = endsAtMs - nowMs;
    const state = leftMs <= 0 ? 'bad' : leftMs < CERTIFICATE_MS_MIN ? 'note' : 'ok';
    return [state, 'certificate', `it ${leftMs <= 0 ? 'ended' : 'ends'} at ${localTime(endsAtMs)}`];
  } catch (error) {
    return ['bad', 'certificate', reasonOf(error)];
  }
}

const NOT_WRITABLE: Finding = ['bad', 'server', 'it could not write: no space, or no rights; its log says which'];

/** What the running server says of itself. None running is no fault. */
async function serverFindings(config: Config): Promise<Finding[]> {
  const url = config.publicUrl ?? `${addressOf(config, config.port)}${config.basePath}`;
  const health = await get(`${url}/mcp/health`);
  if (typeof health === 'string') return [['note', 'server', `not reached at ${url}: ${health}`]];
  const body: unknown = await health.json().catch(() => null);
  if (!isObject(body) || !isObject(body.store))
    return [['bad', 'server', `what responds at ${url} is not this server`]];
  const { status, version, instance, store } = body;
  const lagMs = typeof store.lagMs === 'number' ? store.lagMs : Number.POSITIVE_INFINITY;
  const lag = Number.isFinite(lagMs) ? `last read ${lagMs} ms ago` : 'not read yet';
  return [
    ...(store.writable === false ? [NOT_WRITABLE] : []),
    [status === 'ok' ? 'ok' : 'bad', 'server', `${status} at ${url}, version ${version}, instance ${instance}`],
    [
      lagMs <= config.revocationLagMaxMs ? 'ok' : 'bad',
      'change feed',
      `${lag}; keys are refused above ${config.revocationLagMaxMs} ms of use`,
    ],
    await addressFinding(url, config),
  ];
}

/** Behind a proxy that TRUST_PROXY doesn't count, all clients share the budget of one address. */
async function addressFinding(url: string, { trustProxy, publicUrl }: Config): Promise<Finding> {
  const about = await get(`${url}/`);
  const seen = typeof about === 'string' ? null : /^Your address[^:]*: (\S+)$/m.exec(await about.text())?.[1];
  if (seen == null) return ['note', 'client address', 'the server did not say where this came from'];
  const text = `this request came from ${seen}, with TRUST_PROXY=${trustProxy}`;
  const isPublic = publicUrl !== null && !isLoopback(new URL(publicUrl).hostname);
  return isPublic && isLoopback(seen)
    ? ['bad', 'client address', `${text}: a proxy is not counted, so all clients share one budget`]
    : ['ok', 'client address', `${text}. If that is a proxy's address, TRUST_PROXY is too low`];
}

const get = (url: string): Promise<Response | string> =>
  fetch(url, { signal: AbortSignal.timeout(RESPONSE_MS_MAX) }).catch(reasonOf);
