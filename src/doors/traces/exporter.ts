// Sends spans in batches: OTLP 1.x over HTTP, as JSON. One request at a time, in bounded memory; what can't be sent is
// dropped and counted. No call waits for it.

import { bodyOf, fetchEncoded, fetchFault, inTime } from '../../ground/fetching.ts';
import { type Cancel, type Clock, withTimeout } from '../../ground/runtime.ts';
import { SERVER_NAME, SERVER_VERSION } from '../../ground/server-info.ts';
import { isObject } from '../../ground/text.ts';
import type { Log } from '../../watch/log.ts';
import { type Attributes, type Batch, type Span, SpanWriter } from './encoding.ts';
import type { TraceSettings } from './settings.ts';
import type { TracesOptions } from './tracer.ts';

const BATCH_MAX = 512;
const BATCH_EVERY_MS = 5000;
/** Spans that wait or are being sent. */
const WAITING_MAX = 2048;
/** Enough for all of those, unless many have long texts of others. */
const WAITING_BYTES_MAX = 2 * 1024 * 1024;
const RESPONSE_BYTES_MAX = 64 * 1024;
const RETRIES_MAX = 5;
const RETRY_MS_MIN = 1000;
/** The time from a batch's first attempt to the end of its last retry. */
const RETRY_MS_MAX = 60_000;
const STOP_MS_MAX = 3000;
const LOG_EVERY_MS = 60_000;

/** The statuses after which a batch is sent again (OTLP, "OTLP/HTTP Response"), and 500 is none. */
const RETRIED: readonly number[] = [429, 502, 503, 504];

/** What came of sending a batch once. `mayRetry`: sending it again may help. */
type Outcome =
  | { readonly rejected: number }
  | { readonly fault: string; readonly mayRetry: boolean; readonly retryAfterMs?: number | undefined };

export function createExporter(settings: TraceSettings, { instance, clock, random, log }: TracesOptions) {
  const drops = createDrops(settings, clock, log);
  const ending = new AbortController();
  const post = createPost(settings, clock, ending.signal);
  const writer = new SpanWriter(resourceOf(settings, instance), { name: SERVER_NAME, version: SERVER_VERSION });
  /** What is being sent, and what waits for that. */
  const batches: Batch[] = [];
  let isStopping = false;
  let sending: Promise<void> | undefined;
  let cancelTimer: Cancel | undefined;
  let wake: (() => void) | undefined;

  const waiting = (): number => batches.reduce((sum, { count }) => sum + count, writer.count);

  function isFull(): boolean {
    const bytes = batches.reduce((sum, { body }) => sum + body.length, writer.bytes);
    return waiting() >= WAITING_MAX || bytes >= WAITING_BYTES_MAX;
  }

  function schedule(): void {
    if (writer.count === BATCH_MAX) batches.push(writer.take());
    if (sending !== undefined) return;
    if (batches.length > 0 || (isStopping && writer.count > 0)) begin();
    else if (writer.count > 0) cancelTimer ??= clock.after(BATCH_EVERY_MS, begin);
  }

  function begin(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (batches.length === 0) batches.push(writer.take());
    const [first] = batches as [Batch];
    sending = send(first).then(() => {
      sending = undefined;
      batches.shift();
      schedule();
    });
  }

  /** Sends a batch, again if that may help. Never rejects. */
  async function send({ body, count }: Batch): Promise<void> {
    const startedMs = clock.monotonicMs();
    for (let retries = 0; ; retries += 1) {
      const leftMs = RETRY_MS_MAX - (clock.monotonicMs() - startedMs);
      const outcome = await post(body, retries === 0 ? settings.timeoutMs : Math.min(settings.timeoutMs, leftMs));
      if ('rejected' in outcome) return drops.add(Math.min(outcome.rejected, count), 'the receiver refused some');
      const pauseMs = outcome.retryAfterMs ?? pauseAfter(retries);
      const isLate = clock.monotonicMs() - startedMs + pauseMs > RETRY_MS_MAX;
      if (!outcome.mayRetry || retries === RETRIES_MAX || isLate || isStopping) return drops.add(count, outcome.fault);
      await pause(pauseMs);
    }
  }

  /** Returns how long to wait: doubled each time, and up to half as long, so that many servers don't come at once. */
  const pauseAfter = (retries: number): number => RETRY_MS_MIN * 2 ** retries * (1 - (random(1)[0] ?? 0) / 512);

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(ms, resolve);
      wake = () => {
        cancel();
        resolve();
      };
    });
  }

  return {
    add(span: Span): void {
      if (isFull()) drops.add(1, 'too many wait');
      else writer.add(span);
      schedule();
    },

    dropped: drops.count,

    /** Sends what waits, for STOP_MS_MAX at most. */
    async stop(): Promise<void> {
      isStopping = true;
      wake?.();
      const sendAll = async () => {
        for (schedule(); sending !== undefined; ) await sending;
      };
      await withTimeout(sendAll(), STOP_MS_MAX, undefined);
      ending.abort();
      drops.add(waiting(), 'the server stopped'); // with what is being sent, which may have arrived
      drops.stop();
    },
  };
}

/** Creates the function that sends a batch once. It never rejects. */
function createPost({ url, headers: given }: TraceSettings, clock: Clock, ending: AbortSignal) {
  const headers = new Headers(given);
  headers.set('content-type', 'application/json');
  return async function post(body: Uint8Array<ArrayBuffer>, withinMs: number): Promise<Outcome> {
    try {
      return await inTime(clock, withinMs, async (late): Promise<Outcome> => {
        const signal = AbortSignal.any([late, ending]);
        const response = await fetchEncoded(url, { method: 'POST', body, headers, redirect: 'manual', signal });
        if (response.ok) return { rejected: await rejectedIn(response) };
        void response.body?.cancel().catch(() => {});
        const { status } = response;
        const retryAfterMs = retryAfterIn(response.headers, clock.nowMs());
        return { fault: `the receiver responded ${status}`, mayRetry: RETRIED.includes(status), retryAfterMs };
      });
    } catch (error) {
      return { fault: fetchFault(error), mayRetry: true };
    }
  };
}

const resourceOf = ({ serviceName, attributes }: TraceSettings, instance: string): Attributes => ({
  ...Object.fromEntries(attributes),
  'service.name': serviceName,
  'service.version': SERVER_VERSION,
  'service.instance.id': instance,
});

/** Returns how many spans the receiver refused (`partialSuccess`); 0 if it doesn't say, or can't be understood. */
async function rejectedIn(response: Response): Promise<number> {
  try {
    const body = await bodyOf(response, RESPONSE_BYTES_MAX);
    const said: unknown = body.ok ? JSON.parse(new TextDecoder().decode(body.value)) : null;
    const partial = isObject(said) ? said.partialSuccess : null;
    const rejected = isObject(partial) ? String(partial.rejectedSpans) : '';
    return /^\d+$/.test(rejected) ? Number(rejected) : 0;
  } catch {
    return 0; // the status says that it has taken them
  }
}

/** What an HTTP-date begins with (RFC 9110 §5.6.7): Date.parse takes other text, such as -3600, for some time, too. */
const WEEKDAY = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

/** Returns Retry-After (RFC 9110 §10.2.3) in milliseconds; undefined if it names no later time. */
function retryAfterIn(headers: Headers, nowMs: number): number | undefined {
  const value = headers.get('retry-after')?.trim() ?? '';
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000 || undefined;
  if (!WEEKDAY.test(value)) return undefined;
  const leftMs = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`) - nowMs; // asctime's form has no zone
  return leftMs > 0 ? leftMs : undefined; // nor has NaN
}

/** Counts dropped spans, and logs them at most once a minute. */
function createDrops({ origin }: TraceSettings, clock: Clock, log: Log) {
  let total = 0;
  let unsaid = 0;
  let last = '';
  let cancel: Cancel | undefined;
  let isStopped = false;
  function say(): void {
    cancel = undefined;
    if (unsaid === 0) return;
    log.warn('spans dropped', { count: unsaid, reason: last, endpoint: origin });
    unsaid = 0;
    if (!isStopped) cancel = clock.after(LOG_EVERY_MS, say);
  }
  return {
    add(count: number, reason: string): void {
      if (count === 0 || isStopped) return;
      total += count;
      unsaid += count;
      last = reason;
      if (cancel === undefined) say();
    },
    count: () => total,
    stop(): void {
      isStopped = true;
      cancel?.();
      say();
    },
  };
}
