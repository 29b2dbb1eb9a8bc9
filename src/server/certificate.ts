// Warns of a certificate that clients refuse, or soon will.

import { CERTIFICATE_MS_MIN, certificateEnd, type Tls } from '../config/tls.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';

export function warnOfCertificate(tls: Tls, clock: Clock, log: Log): void {
  const end = certificateEnd(tls);
  const leftMs = end.getTime() - clock.nowMs();
  if (leftMs <= 0) log.warn('certificate has expired', { end: end.toISOString() });
  else if (leftMs < CERTIFICATE_MS_MIN) log.warn('certificate ends soon', { end: end.toISOString() });
}
