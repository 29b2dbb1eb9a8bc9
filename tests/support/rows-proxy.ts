// A proxy in front of a libSQL server that counts the rows that statements read and write there, for which hosted
// databases send a bill.

export type RowsProxy = ReturnType<typeof startRowsProxy>;

interface Sent {
  readonly sql?: string;
  readonly sql_id?: number;
}

/** What a request of the protocol (hrana over HTTP) and its response have, as far as it counts here. */
interface Request {
  readonly type: string;
  readonly sql?: string;
  readonly sql_id?: number;
  readonly stmt?: Sent;
  readonly batch?: { readonly steps: readonly { readonly stmt: Sent }[] };
}
interface Counted {
  readonly rows_read?: number;
  readonly rows_written?: number;
}
interface Response {
  readonly response?: { readonly result?: Counted & { readonly step_results?: readonly (Counted | null)[] } };
}

/** Returns each statement of a request, with what it has read and written. */
function countedIn(requests: readonly Request[], responses: readonly Response[]): [string, Counted][] {
  const texts = new Map(requests.map(({ sql_id, sql }) => [sql_id, sql]));
  const textOf = ({ sql, sql_id }: Sent) => sql ?? texts.get(sql_id) ?? '';
  return requests.flatMap(({ stmt, batch }, at) => {
    const result = responses[at]?.response?.result ?? {};
    if (stmt !== undefined) return [[textOf(stmt), result] satisfies [string, Counted]];
    const steps = batch?.steps ?? [];
    return steps.map((step, nth): [string, Counted] => [textOf(step.stmt), result.step_results?.[nth] ?? {}]);
  });
}

export function startRowsProxy(target: string) {
  let counted: [string, Counted][] = [];
  /** Requests of which no try has its response yet. */
  const open: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.text();
      const headers = new Headers(request.headers);
      headers.delete('host');
      // A further try has a connection of its own, for which Bun sends no keep-alive; Deno never sends any.
      const isAgain = headers.get('user-agent')?.startsWith('Bun/') && headers.get('connection') !== 'keep-alive';
      if (!isAgain) open.push(body);
      headers.set('accept-encoding', 'identity');
      const { pathname } = new URL(request.url);
      const response = await fetch(target + pathname, { method: request.method, headers, ...(body && { body }) });
      const text = await response.text();
      const at = open.indexOf(body);
      if (pathname.endsWith('/pipeline') && response.ok && at >= 0) {
        open.splice(at, 1);
        counted.push(...countedIn(JSON.parse(body).requests, JSON.parse(text).results));
      }
      return new globalThis.Response(text, {
        status: response.status,
        headers: { 'content-type': 'application/json' },
      });
    },
  });
  return {
    url: server.url.origin,
    /**
     * Of statements so far that have this text; of all without it. One that is sent again, since its response was late,
     * counts once.
     */
    rows(text = '') {
      const all = counted.filter(([sql]) => sql.includes(text)).map(([, one]) => one);
      return {
        statements: all.length,
        read: all.reduce((sum, { rows_read = 0 }) => sum + rows_read, 0),
        written: all.reduce((sum, { rows_written = 0 }) => sum + rows_written, 0),
      };
    },
    /** Counts from zero again. */
    forget() {
      counted = [];
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}
