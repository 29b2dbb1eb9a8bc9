// One call of a tool over REST. Its response becomes what widgets take.

import { FOR_WIDGET, failed } from '../widgets/results.js';

const CALL_MS = 75_000; // a tool has 60 s

/** The status, and the result as MCP has it. No status: no response came. */
export async function postTool(url, token, tool, args) {
  try {
    const response = await fetch(`${url}/tools/${encodeURIComponent(tool)}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(args),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(CALL_MS),
    });
    const { status, ok, headers } = response;
    const body = await response.json();
    if (ok) return { status, result: { structuredContent: body } };
    const { detail, code, issues = [], previousUntil } = body;
    const more = issues.map(({ path, message }) => `${path}: ${message}`);
    if (headers.has('Retry-After')) more.push(`Try again in ${headers.get('Retry-After')} s`);
    return { status, result: { ...failed(detail, ...more), _meta: { [FOR_WIDGET]: { code, previousUntil } } } };
  } catch {
    return { result: failed('No answer came. It may have worked all the same: refresh the list to see.') };
  }
}
