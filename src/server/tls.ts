// The server's own TLS while it runs: warns of a certificate that clients refuse, or soon will; reads the files anew on
// SIGHUP.

import type { Config } from '../config/config.ts';
import type { Tls } from '../config/tls.ts';
import type { Clock } from '../lib/runtime.ts';
import { reasonOf } from '../lib/text.ts';
import type { Log } from '../log/log.ts';
import type { Listener } from './listener.ts';

const load = () => import('../config/tls.ts'); // loads node:crypto: 7 ms

export async function warnOfCertificate(tls: Tls, clock: Clock, log: Log): Promise<void> {
  const { CERTIFICATE_MS_MIN, certificateEnd } = await load();
  const end = certificateEnd(tls);
  const leftMs = end.getTime() - clock.nowMs();
  if (leftMs <= 0) log.warn('certificate has expired', { end: end.toISOString() });
  else if (leftMs < CERTIFICATE_MS_MIN) log.warn('certificate ends soon', { end: end.toISOString() });
}

/** If the files are unusable, the old ones stay in use. The returned function rejects if nothing listens any more. */
export function tlsRenewal(
  files: NonNullable<Config['tls']>,
  listener: Listener,
  noticeMs: number,
  log: Log,
): () => Promise<void> {
  const kept = (reason: string) => log.warn('TLS files not read anew: those before stay in use', { reason });
  let last = Promise.resolve();
  async function renew(): Promise<void> {
    let tls: Tls;
    try {
      tls = (await load()).readTls(files);
    } catch (error) {
      return kept(reasonOf(error));
    }
    const renewed = await listener.renew(tls, noticeMs);
    if (renewed.ok) log.info('TLS files read anew');
    else kept(renewed.error);
  }
  // One after the other: each needs the port.
  return () => (last = last.then(renew));
}
