// Times as RFC 3339 has them, in UTC with milliseconds.

const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** A time beyond what RFC 3339 can name, typed into the database by hand, is the first or the last that it can. */
export const rfc3339 = (ms: number): string => new Date(Math.min(Math.max(ms, FIRST_MS), LAST_MS)).toISOString();
