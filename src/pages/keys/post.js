// One request to the server, with the person's token.

import { failed, succeeded } from '../widgets/results.js';

const CALL_MS = 75_000; // a tool has 60 s

/** What became of it (results.js), with the status of the response if one came. */
export async function post(url, token, body) {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(CALL_MS),
    });
    const { status, ok, headers } = response;
    const told = await response.json();
    if (ok) return { status, ...succeeded(told) };
    const { detail, issues = [] } = told;
    const more = issues
      .filter(({ message }) => !detail.includes(message))
      .map(({ path, message }) => `${path}: ${message}`);
    if (headers.has('Retry-After')) more.push(`Try again in ${headers.get('Retry-After')} s`);
    return { status, ...failed([detail, ...more].join('. '), told) };
  } catch {
    return failed('No answer came. It may have worked all the same: refresh the list to see.');
  }
}
