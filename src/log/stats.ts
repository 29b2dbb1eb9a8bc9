// Logs what the service counts, at debug level: every few seconds and at the end, whenever a count has changed.

import type { Log } from './log.ts';

const REPORT_EVERY_MS = 5000;

/** Starts reporting; returns a function that reports a last time and stops. */
export function reportCounts(log: Log, counts: () => Readonly<Record<string, number>>): () => void {
  if (!log.enabled('debug')) return () => {};
  let last = '';
  function report(): void {
    const now = counts();
    const text = JSON.stringify(now);
    if (text !== last) log.debug('counts', now);
    last = text;
  }
  const timer = setInterval(report, REPORT_EVERY_MS);
  return () => {
    clearInterval(timer);
    report();
  };
}
