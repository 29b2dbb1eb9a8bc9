// SIGHUP where the server has its own TLS: reads the files anew, and has the listener serve with them.

import type { Config } from '../config/config.ts';
import type { Tls } from '../config/tls.ts';
import { reasonOf } from '../lib/text.ts';
import type { Log } from '../log/log.ts';
import type { Listener } from './listener.ts';

/** If the files can't be used, those before stay in use. What is returned rejects if nothing listens any more. */
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
      tls = (await import('../config/tls.ts')).readTls(files);
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
