// `mcp-key-server/verifier`: verifies keys from memory in a service on Bun, Deno or Node 20. One file without
// dependencies, which may be copied instead of installed. It follows the protocol of src/api/README.md: asks about a key,
// remembers the answer, listens for changes, and later reports the calls that it admitted.

import * as crypto from 'node:crypto';
import { setTimeout as setTimer } from 'node:timers'; // the global one of an older Deno returns a number

export interface VerifierOptions {
  /** The URL of the server, with its BASE_PATH. */
  readonly url: string;
  /** The id of a key with the scope `introspect`. */
  readonly id: string;
  readonly key: string;
  /** The URL of the service, if keys may be bound to it; without it, keys that are good for the server are accepted. */
  readonly resource?: string;
  /**
   * Takes each reason why nobody is let in: the server can't be asked, or a demand is wrong; again only after a minute
   * without that reason. The message has no secret. Defaults to `console.warn`.
   */
  readonly onError?: (error: Error) => void;
}

export interface Demand {
  /** All of these, by exact string. Anything but a list of strings refuses everybody (503). */
  readonly scopes?: readonly string[];
  /** Units of each limit that the call spends, 1 to 1,000; by default 1. Anything else refuses everybody (503). */
  readonly cost?: number;
}

/** Who is behind a key. Frozen, because all checks of the key get the same object. */
export interface Verified {
  readonly ok: true;
  readonly keyId: string;
  readonly owner: string;
  readonly name: string;
  readonly scopes: readonly string[];
  /** Seconds since 1970; null: never. */
  readonly expiresAtS: number | null;
  /** The operator's data on owner and key. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The parent key; null: none. */
  readonly parent: string | null;
}

/** A problem like those of the server (RFC 9457). */
export interface VerifierProblem {
  readonly type: 'about:blank';
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  /** Only the owner's limits refuse, for all keys together. */
  readonly of?: 'owner';
  /** Seconds after which a retry may succeed. */
  readonly retryAfterS?: number;
  readonly requiredScopes?: readonly string[];
}

/** The key is refused. 503 means that no decision is possible now, and says nothing about the key. */
export interface Refused {
  readonly ok: false;
  readonly status: 401 | 403 | 429 | 503;
  readonly problem: VerifierProblem;
}

export interface RefusedRequest {
  readonly ok: false;
  readonly status: Refused['status'];
  readonly response: Response;
}

export interface Verifier {
  /** Decides on a key; from memory if it was asked about before. Never rejects. A wrong demand refuses everybody (503). */
  verify(key: string, demand?: Demand): Promise<Verified | Refused>;
  /** Verifies the key in `X-API-Key`, or else in `Authorization: Bearer`, like `verify`. */
  guard(request: Request, demand?: Demand): Promise<Verified | RefusedRequest>;
  /** Returns the age of what it knows in milliseconds; Infinity before the first response. */
  knownForMs(): number;
  /** Reports admitted calls, within 2 s. Then nothing runs on, and everybody is refused. */
  close(): Promise<void>;
}

const KEYS_MAX = 100_000;
const HOLDERS_MIN = 1000;
/** Longer texts are neither keys nor tokens that a server takes. */
const KEY_CHARS_MAX = 16 * 1024;
const TOLD_AT_ONCE_MAX = 1000;
const REPORTED_UNITS_MAX = 1_000_000;
const COST_MAX = 1000;
/** How long a check waits for an answer: twice the bound within these, and the longest before the first response. */
const QUESTION_MS_MIN = 1000;
const QUESTION_MS_MAX = 5000;
/** Questions at once. A runtime opens some 256 connections, of which the loop always needs one. */
const QUESTIONS_MAX = 64;
/** Questions that wait for their turn. More would wait too long for it. */
const WAITING_MAX = 500;
/** A key over its limit is refused from memory for this long at most. */
const LIMITED_MS_MAX = 1000;
const CLOSE_MS_MAX = 2000;
const PAUSE_MS_MIN = 250;
const PAUSE_MS_MAX = 5000;
/** A reason not seen for this long is reported again. */
const REASON_OVER_MS = 60_000;
const REASONS_MAX = 100;
/** How often a check waits for another's question about the same key before it asks by itself. */
const JOINS_MAX = 100;
/** Below this part of the lent units it asks for more, ahead of need. */
const AHEAD_PART = 1 / 4;

/** A moment on two clocks, because either may stand still while a machine sleeps. */
interface Moment {
  readonly awakeMs: number;
  readonly wallMs: number;
}

const now = (): Moment => ({ awakeMs: performance.now(), wallMs: Date.now() });
const later = ({ awakeMs, wallMs }: Moment, ms: number): Moment => ({ awakeMs: awakeMs + ms, wallMs: wallMs + ms });
/** Returns the milliseconds since a moment, by whichever clock says more. */
const sinceMs = (then: Moment, at = now()): number => Math.max(at.awakeMs - then.awakeMs, at.wallMs - then.wallMs);

/** Hashes a text. One call of crypto.hash takes half the time, but Node has it only from 20.12. */
const sha256: (text: string) => string = crypto.hash
  ? (text) => crypto.hash('sha256', text)
  : (text) => crypto.createHash('sha256').update(text).digest('hex');

/** Returns whether the server would count a cost. It refuses all that is reported together with another. */
const isCost = (cost: number): boolean => Number.isInteger(cost) && cost >= 1 && cost <= COST_MAX;

/** Returns whether a demand is valid, since JavaScript may pass anything. A mistyped name would demand nothing. */
const isDemand = (demand: Demand | null): demand is Demand =>
  typeof demand === 'object' &&
  demand !== null &&
  Object.keys(demand).every((name) => name === 'scopes' || name === 'cost') &&
  (demand.scopes === undefined || isScopes(demand.scopes)) &&
  (demand.cost === undefined || isCost(demand.cost));

const isScopes = (scopes: readonly string[]): boolean =>
  Array.isArray(scopes) && scopes.every((scope) => typeof scope === 'string');

/** A key, or its owner: a holder of limits. */
class Holder {
  /** Units that may still be admitted from memory. */
  left = 0;
  /** What the server lent last, and when that was requested. */
  leased = 0;
  askedMs = Number.NEGATIVE_INFINITY;
  /** Units admitted, and not known to be reported. */
  unreported = 0;
  /** Units that were reported, when their request was over, and the request. */
  #settled: { readonly atMs: number; readonly units: number; readonly by: readonly Report[] }[] = [];

  /** Notes that a request has reported units, or has lost them. */
  settle(units: number, by: readonly Report[]): void {
    const atMs = performance.now();
    this.unreported -= units;
    this.#settled = this.#settled.filter((one) => atMs - one.atMs < SETTLED_KEPT_MS);
    this.#settled.push({ atMs, units, by });
  }

  /** Returns whether it can be forgotten, with what it was lent: all of that is settled, and no question may lend more. */
  isOver(): boolean {
    const lastMs = this.#settled.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
    return this.unreported <= 0 && performance.now() - Math.max(lastMs, this.askedMs) >= SETTLED_KEPT_MS;
  }

  /** Takes over the units lent by an answer, less those admitted that its question did not report. */
  addLease(
    units: number,
    { askedMs, reports }: { readonly askedMs: number; readonly reports: readonly Report[] },
  ): void {
    if (askedMs < this.askedMs) return;
    const elsewhere = this.#settled.filter(({ atMs, by }) => atMs >= askedMs && by !== reports);
    this.left = elsewhere.reduce((left, one) => left - one.units, units - this.unreported);
    this.leased = units;
    this.askedMs = askedMs;
  }
}

/** No question is on its way for longer. */
const SETTLED_KEPT_MS = 3 * QUESTION_MS_MAX;

interface CachedAnswer {
  readonly hash: string;
  readonly identity: Verified;
  readonly marks: readonly string[];
  readonly holders: readonly Holder[];
  readonly tell: string;
  readonly end: Moment;
}

/** A key over its limit, for checks that cost as much or more. */
interface Limited {
  readonly refused: Refused;
  readonly cost: number;
  readonly end: Moment;
}

/** Admitted units of a key, and the text that names it. */
interface Report {
  readonly tell: string;
  units: number;
  readonly holders: readonly Holder[];
}

/** The server's answer. One that is `once` isn't cached, and admits only the check that asked. */
type Answer =
  | { readonly is: 'remembered' | 'once'; readonly identity: Verified }
  | { readonly is: 'refused'; readonly refused: Refused };

/** Throws an Error for an empty id or key, a URL that can't be a server's, and a resource that is no URL. */
export function createVerifier(options: VerifierOptions): Verifier {
  const verifier = new KeyVerifier(options);
  return {
    verify: (key, demand) => verifier.verify(key, demand),
    guard: (request, demand) => verifier.guard(request, demand),
    knownForMs: () => verifier.knownForMs(),
    close: () => verifier.close(),
  };
}

class KeyVerifier implements Verifier {
  readonly #server: Server;
  readonly #cached = new Map<string, CachedAnswer>();
  readonly #byMark = new Map<string, Set<string>>();
  readonly #holders = new Map<string, Holder>();
  /** At so many, those that nothing refers to are dropped. */
  #holdersMax = HOLDERS_MIN;
  readonly #limited = new Map<string, Limited>();
  readonly #questions = new Map<string, Promise<Answer>>();
  readonly #turns = new Turns();
  /** True after a question without an answer, until the server responds to the loop: nobody waits for it meanwhile. */
  #isAway = false;
  #unreported = new Map<string, Report>();
  #cursor = '';
  #known: Moment | undefined;
  #boundMs = 0;
  readonly #closing = new AbortController();
  /** Requests, and checks that ask ahead, that report units: closing waits for them. */
  readonly #reporting = new Set<Promise<unknown>>();
  readonly #first: Promise<Next>;
  readonly #listening: Promise<void>;
  #closed: Promise<void> | undefined;

  constructor(options: VerifierOptions) {
    this.#server = new Server(options);
    this.#first = this.#askForChanges();
    this.#listening = this.#listen();
  }

  async verify(key: string, demand: Demand = {}): Promise<Verified | Refused> {
    if (!key) return refusal('missing_api_key');
    if (typeof key !== 'string' || key.length > KEY_CHARS_MAX) return refusal('invalid_api_key');
    if (!isDemand(demand)) {
      this.#server.warn(WRONG_DEMAND);
      return refusal('store_unavailable');
    }
    const { scopes = [], cost = 1 } = demand;
    const hash = sha256(key);
    const known = this.#recall(hash, scopes, cost, key);
    return known ?? this.#askInTurn(key, hash, scopes, cost);
  }

  async guard(request: Request, demand?: Demand): Promise<Verified | RefusedRequest> {
    const headers: Headers | undefined = request?.headers; // JavaScript may pass anything
    if (typeof headers?.get !== 'function') {
      this.#server.warn(WRONG_REQUEST);
      return refusedRequest(refusal('store_unavailable'));
    }
    const bearer = /^Bearer +(.+)$/i.exec(headers.get('authorization') ?? '')?.[1];
    const verified = await this.verify(headers.get('x-api-key') || bearer || '', demand);
    return verified.ok ? verified : refusedRequest(verified);
  }

  knownForMs(at?: Moment): number {
    return this.#known === undefined ? Number.POSITIVE_INFINITY : sinceMs(this.#known, at);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const untilMs = performance.now() + CLOSE_MS_MAX;
    this.#closing.abort();
    this.#turns.turnAway();
    const giveUp = setTimeout(() => this.#server.hangUp(), CLOSE_MS_MAX / 2);
    await Promise.all(this.#reporting);
    clearTimeout(giveUp);
    for (let pauseMs = PAUSE_MS_MIN; this.#unreported.size > 0 && performance.now() < untilMs; ) {
      const reports = this.#take();
      const fields = { cursor: this.#cursor, used: textOf(reports) };
      const leftMs = Math.max(1, untilMs - performance.now());
      const { status } = await this.#server.post('/changes', fields, leftMs);
      if (!isRefused(status)) continue;
      this.#reportLater(reports);
      const waitMs = Math.min(pauseMs, Math.max(0, untilMs - performance.now()));
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      pauseMs *= 2;
    }
    this.#server.close();
    await this.#listening;
    this.#forgetAll();
  }

  /** Decides from memory; undefined: the server has to be asked. */
  #recall(hash: string, scopes: readonly string[], cost: number, key: string): Verified | Refused | undefined {
    if (this.#known === undefined || this.#closing.signal.aborted) return undefined;
    return this.#recallAnswer(hash, scopes, cost, key) ?? this.#recallLimited(hash, cost);
  }

  #recallAnswer(hash: string, scopes: readonly string[], cost: number, key: string): Verified | Refused | undefined {
    const found = this.#cached.get(hash);
    if (found === undefined) return undefined;
    const at = now();
    if (this.knownForMs(at) > this.#boundMs || sinceMs(found.end, at) >= 0) return undefined;
    const lacking = lacksScope(found.identity, scopes);
    if (lacking !== undefined) return lacking;
    if (found.holders.some(({ left }) => left < cost)) return undefined;
    const isScarce = found.holders.some(({ left, leased }) => left - cost < leased * AHEAD_PART);
    if (isScarce && !this.#isAway && !this.#questions.has(hash)) this.#askAhead(key, found, cost);
    else this.#admit(found, cost);
    return found.identity;
  }

  #recallLimited(hash: string, cost: number): Refused | undefined {
    const limited = this.#limited.get(hash);
    if (limited === undefined || cost < limited.cost) return undefined;
    if (sinceMs(limited.end) < 0) return limited.refused;
    this.#limited.delete(hash);
    return undefined;
  }

  /** Remembers for a moment that a key is over its limit, so that not each of its checks is a question. */
  #limit(hash: string, cost: number, refused: Refused, asked: Moment): Answer {
    const { retryAfterS = 0 } = refused.problem;
    if (this.#limited.size >= KEYS_MAX) this.#limited.clear();
    this.#limited.set(hash, { refused, cost, end: later(asked, Math.min(retryAfterS * 1000, LIMITED_MS_MAX)) });
    return { is: 'refused', refused };
  }

  /** Asks for more units. That question reports the admitted call, unless it is refused or fails. */
  #askAhead(key: string, { hash, tell, holders }: CachedAnswer, units: number): void {
    this.#spend(holders, units); // at once: another question may be answered first, or this one refused
    this.#noteReporting(this.#ask(key, hash, units, [{ tell, units, holders }]));
  }

  #admit({ tell, holders }: CachedAnswer, units: number): void {
    this.#spend(holders, units);
    this.#reportLater([{ tell, units, holders }]);
  }

  #spend(holders: readonly Holder[], units: number): void {
    for (const holder of holders) {
      holder.left -= units;
      holder.unreported += units;
    }
  }

  #noteReporting(reporting: Promise<unknown>): void {
    this.#reporting.add(reporting);
    void reporting.then(() => this.#reporting.delete(reporting));
  }

  /** Queues units for a later report, added to those of the same key. */
  #reportLater(reports: readonly Report[]): void {
    for (const one of reports) {
      const queued = this.#unreported.get(one.tell);
      if (queued === undefined) this.#unreported.set(one.tell, { ...one });
      else queued.units += one.units;
    }
  }

  /** Asks the server, or waits for another check's question about the same key and decides by its cached answer. */
  async #askInTurn(key: string, hash: string, scopes: readonly string[], cost: number): Promise<Verified | Refused> {
    for (let joins = 0; joins < JOINS_MAX; joins += 1) {
      const question = this.#questions.get(hash);
      if (question === undefined) break;
      const answer = await question;
      if (answer.is === 'refused') return answer.refused;
      const known = this.#recall(hash, scopes, cost, key);
      if (known !== undefined) return known;
      if (answer.is === 'once') break;
    }
    const answer = await this.#ask(key, hash, cost);
    if (answer.is === 'refused') return answer.refused;
    return lacksScope(answer.identity, scopes) ?? answer.identity;
  }

  /** Asks, and lets others of the same key wait for it. `ahead`: units admitted already, which this question counts. */
  #ask(key: string, hash: string, cost: number, ahead: readonly Report[] = []): Promise<Answer> {
    const question = this.#askInTime(key, hash, cost, ahead)
      .catch(() => UNAVAILABLE)
      .finally(() => {
        if (this.#questions.get(hash) === question) this.#questions.delete(hash);
      });
    if (!this.#questions.has(hash)) this.#questions.set(hash, question);
    return question;
  }

  /** Asks when its turn comes, and once more if the answer is too late to be used. */
  async #askInTime(key: string, hash: string, cost: number, ahead: readonly Report[]): Promise<Answer> {
    const began = now();
    const isKnown = this.#cached.has(hash) && !this.#questions.has(hash);
    if (this.#isAway || !(await this.#turns.take(isKnown))) {
      this.#reportLater(ahead);
      if (this.#turns.isFull) this.#server.warn(`more than ${QUESTIONS_MAX + WAITING_MAX} questions at once`);
      return UNAVAILABLE;
    }
    try {
      if (this.#known === undefined) await this.#first;
      const question = { key, hash, cost, began };
      return (await this.#question(question, ahead)) ?? (await this.#question(question, [])) ?? UNAVAILABLE;
    } finally {
      this.#turns.giveBack();
    }
  }

  /** Asks once. Returns undefined if the response came too late. */
  async #question({ key, hash, cost, began }: Question, ahead: readonly Report[]): Promise<Answer | undefined> {
    if (this.#closing.signal.aborted || this.#isAway) {
      this.#reportLater(ahead);
      return UNAVAILABLE;
    }
    const asked = now();
    const cursor = this.#cursor;
    // Only of its own holders: units that this question reports, another can't.
    const holders = this.#cached.get(hash)?.holders ?? [];
    const reports = this.#take((one) => one.holders.some((holder) => holders.includes(holder)));
    const fields = { token: key, lease: cursor, used: textOf(reports), ...(cost !== 1 && { cost: String(cost) }) };
    const withinMs = Math.max(QUESTION_MS_MIN, this.#questionMs - sinceMs(began));
    const asking = this.#server.ask(fields, withinMs);
    if (reports.length > 0) this.#noteReporting(asking);
    const { status, retryAfterS, body } = await asking;
    if (status === NO_RESPONSE.status) this.#refuseWaiting();
    if (status === 200)
      return this.#answered({ hash, body, asked, cursor, reports: this.#settle([...reports, ...ahead]) });
    this.#reportLater(ahead);
    if (isRefused(status) && status !== 429) this.#reportLater(reports);
    else this.#settle(reports);
    if (status !== 429 || (body.error !== 'rate_limited' && body.error !== 'quota_exceeded')) return UNAVAILABLE;
    this.#forget(hash);
    return this.#limit(hash, cost, refusal(body.error, { retryAfterS, ...limitOf(body) }), asked);
  }

  /** Returns how long a check waits for an answer. */
  get #questionMs(): number {
    if (this.#known === undefined) return QUESTION_MS_MAX;
    return Math.min(QUESTION_MS_MAX, Math.max(QUESTION_MS_MIN, 2 * this.#boundMs));
  }

  /** Refuses those who wait, and who would: each would wait in vain. */
  #refuseWaiting(): void {
    this.#isAway = true;
    this.#turns.turnAway();
  }

  /** Decides by a successful response (isAnswer). */
  #answered({ hash, body, asked, cursor, reports }: Answered): Answer | undefined {
    this.#forget(hash);
    if (body.active !== true) return { is: 'refused', refused: refusal('invalid_api_key') };
    if (sinceMs(asked) > Number(body.fresh_ms) + Number(body.bound_ms)) return this.#server.warn(LATE);
    const identity = identityOf(body);
    if (!isLease(body) || cursor !== this.#cursor || cursor === '') return { is: 'once', identity };
    const question = { askedMs: asked.awakeMs, reports };
    const holders = body.lease_uses.map((leased) => this.#addLease(leased, question));
    const marks = body.marks.map(String);
    this.#cache({ hash, identity, marks, holders, tell: body.tell, end: later(asked, body.lease_ms) });
    return { is: 'remembered', identity };
  }

  #addLease(leased: unknown, question: Parameters<Holder['addLease']>[1]): Holder {
    const { holder: id, units } = leased as { readonly holder: string; readonly units: number };
    const holder = this.#holders.get(id) ?? new Holder();
    this.#holders.set(id, holder);
    holder.addLease(units, question);
    return holder;
  }

  #cache(answer: CachedAnswer): void {
    this.#makeRoom();
    this.#cached.set(answer.hash, answer);
    for (const mark of answer.marks) {
      const hashes = this.#byMark.get(mark);
      if (hashes === undefined) this.#byMark.set(mark, new Set([answer.hash]));
      else hashes.add(answer.hash);
    }
  }

  #forget(hash: string): void {
    const found = this.#cached.get(hash);
    if (found === undefined) return;
    this.#cached.delete(hash);
    for (const mark of found.marks) {
      const hashes = this.#byMark.get(mark);
      hashes?.delete(hash);
      if (hashes?.size === 0) this.#byMark.delete(mark);
    }
  }

  /** Drops the oldest answers, if they have ended (a workload's token that has run out never comes again) or are too many. */
  #makeRoom(): void {
    const at = now();
    for (const [hash, { end }] of this.#cached) {
      if (sinceMs(end, at) < 0 && this.#cached.size < KEYS_MAX) break;
      this.#forget(hash);
    }
    if (this.#holders.size < this.#holdersMax) return;
    const needed = new Set([...this.#cached.values()].flatMap(({ holders }) => holders));
    for (const [id, holder] of this.#holders) if (!needed.has(holder) && holder.isOver()) this.#holders.delete(id);
    this.#holdersMax = Math.max(HOLDERS_MIN, 2 * this.#holders.size);
  }

  #forgetAll(): void {
    for (const hash of [...this.#cached.keys()]) this.#forget(hash);
  }

  /** Takes what one request may report: of some, or of all. */
  #take(isMeant: (report: Report) => boolean = () => true): readonly Report[] {
    const taken: Report[] = [];
    for (const report of this.#unreported.values()) {
      if (!isMeant(report)) continue;
      if (taken.length >= TOLD_AT_ONCE_MAX) break;
      const units = Math.min(report.units, REPORTED_UNITS_MAX);
      taken.push({ ...report, units });
      report.units -= units;
      if (report.units === 0) this.#unreported.delete(report.tell);
    }
    return taken;
  }

  /** Drops reported units: they were counted, or are lost. */
  #settle(reports: readonly Report[]): readonly Report[] {
    for (const { holders, units } of reports) {
      for (const holder of holders) holder.settle(units, reports);
    }
    return reports;
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    let pauseMs = PAUSE_MS_MIN;
    for (let asking = this.#first; ; asking = this.#askForChanges()) {
      const next = await asking;
      if (next.is === 'again') {
        pauseMs = PAUSE_MS_MIN;
        await pause(next.atMs - performance.now(), signal);
      } else {
        await pause(Math.min(pauseMs, next.retryAfterMs), signal);
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
      }
      if (signal.aborted) return;
    }
  }

  async #askForChanges(): Promise<Next> {
    const asked = now();
    const reports = this.#take();
    const isAllReported = this.#unreported.size === 0;
    const withinMs = this.#known === undefined ? QUESTION_MS_MAX : 2 * this.#boundMs;
    const asking = this.#server.post('/changes', { cursor: this.#cursor, used: textOf(reports) }, withinMs);
    if (reports.length > 0) this.#noteReporting(asking);
    const { status, retryAfterS, body } = await asking;
    if (isRefused(status)) this.#reportLater(reports);
    else this.#settle(reports);
    if (status === 200) {
      this.#applyChanges(body, asked);
      return { is: 'again', atMs: isAllReported ? asked.awakeMs + this.#boundMs / 4 : 0 };
    }
    if (status === NO_RESPONSE.status && sinceMs(asked) >= withinMs) return { is: 'again', atMs: 0 };
    return { is: 'failed', retryAfterMs: (retryAfterS ?? Number.POSITIVE_INFINITY) * 1000 };
  }

  /** Drops what may have changed, by a successful response (isAnswer). */
  #applyChanges(body: Body, asked: Moment): void {
    if (body.all === true) this.#forgetAll();
    for (const mark of body.changed as readonly string[]) {
      for (const hash of [...(this.#byMark.get(mark) ?? [])]) this.#forget(hash);
    }
    this.#isAway = false;
    this.#cursor = String(body.cursor);
    this.#boundMs = Number(body.bound_ms);
    this.#known = later(asked, Number(body.fresh_ms));
    if (this.knownForMs() > this.#boundMs) this.#server.warn(LATE);
  }
}

/** What follows a request of the loop. `again`: the next is due at this time of the awake clock, 0: at once. */
type Next = { readonly is: 'again'; readonly atMs: number } | { readonly is: 'failed'; readonly retryAfterMs: number };

interface Question {
  readonly key: string;
  readonly hash: string;
  readonly cost: number;
  /** When the check began to wait. */
  readonly began: Moment;
}

/** A response to a question, and what the question said. */
interface Answered {
  readonly hash: string;
  readonly body: Body;
  readonly asked: Moment;
  readonly cursor: string;
  readonly reports: readonly Report[];
}

const WRONG_DEMAND = `verify: expected only scopes, a list, and cost, a whole number from 1 to ${COST_MAX}`;
const WRONG_REQUEST = 'guard: expected a Request; verify takes a key, and nothing else';
const LATE = 'responses come later than the bound allows';

/** Returns whether the server refused a request, with the units that it reported. */
const isRefused = (status: number): boolean => status >= 400 && status < 500;

/** Admits so many at once; others take turns. Keys that are known go first: strangers must not use up what they are lent. */
class Turns {
  #taken = 0;
  readonly #known: Waiting[] = [];
  readonly #strangers: Waiting[] = [];

  get isFull(): boolean {
    return this.#known.length + this.#strangers.length >= WAITING_MAX;
  }

  /**
   * Resolves with true when it is the caller's turn, and with false if too many wait, or all are turned away. Where too many
   * wait, a known key takes the place of the last stranger.
   */
  async take(isKnown: boolean): Promise<boolean> {
    if (this.#taken < QUESTIONS_MAX) {
      this.#taken += 1;
      return true;
    }
    if (this.isFull && isKnown) this.#strangers.pop()?.(false);
    const waiting = isKnown ? this.#known : this.#strangers;
    return !this.isFull && new Promise((resolve) => waiting.push(resolve));
  }

  giveBack(): void {
    const next = this.#known.shift() ?? this.#strangers.shift();
    if (next === undefined) this.#taken -= 1;
    else next(true);
  }

  turnAway(): void {
    for (const resolve of [...this.#known.splice(0), ...this.#strangers.splice(0)]) resolve(false);
  }
}

type Waiting = (isTurn: boolean) => void;

type Body = Readonly<Record<string, unknown>>;

interface ServerResponse {
  readonly status: number;
  readonly retryAfterS: number | undefined;
  readonly body: Body;
}

/** Stands for a request without a response. */
const NO_RESPONSE: ServerResponse = { status: 0, retryAfterS: undefined, body: {} };

/** What to do about an error of the server. */
const HINTS: Readonly<Record<string, string>> = {
  invalid_client: ': id or key is wrong, or the key has ended',
  insufficient_scope: ': the key needs the scope introspect',
};

/** Returns why a response is no answer; undefined: it is one, even if a limit of the key is used up. */
function reasonIn(path: string, { status, body }: ServerResponse): string | undefined {
  const named = body.error ?? body.code;
  if (status === 200 || (status === 429 && (named === 'rate_limited' || named === 'quota_exceeded'))) return undefined;
  if (status === 404) return `404: no POST ${path} there`;
  const isName = typeof named === 'string' && /^\w{1,40}$/.test(named);
  return isName ? `${status} ${named}${HINTS[named] ?? ''}` : String(status);
}

/** Returns why there is no response. On Node the reason is in the cause, whose message may be empty. */
function reasonOf(thrown: unknown): string {
  const { cause = thrown } = thrown as Error;
  const { code = '', message = '' } = cause as { readonly code?: unknown; readonly message?: unknown };
  const parts = String(message).startsWith(String(code)) ? [message] : [code, message]; // Bun begins with the code
  return parts.filter((part) => typeof part === 'string' && part !== '').join(': ') || String(thrown);
}

/** Returns the base URL of the routes. Throws an Error without possible secrets if it is invalid. */
function baseUrlOf({ url, id, key, resource }: VerifierOptions): string {
  if (typeof id !== 'string' || id === '') throw new Error('createVerifier: id: expected the id of a key, got none');
  if (typeof key !== 'string' || key === '') throw new Error('createVerifier: key: expected a key, got none');
  if (resource != null && !URL.canParse(resource))
    throw new Error('createVerifier: resource: expected the URL of the service, or none');
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isHttp = parsed !== undefined && /^https?:$/.test(parsed.protocol);
  if (!isHttp || parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new Error('createVerifier: url: expected one like https://keys.example or http://127.0.0.1:3000/base');
  }
  return parsed.origin + parsed.pathname.replace(/\/$/, '');
}

interface HttpClient {
  close(): void;
}

/**
 * Creates the connections of `fetch` on Deno. Over HTTP/2, which it speaks by default, all questions would share one, and if
 * it died silently, have no response until TCP gives it up, a quarter of an hour.
 */
const createHttpClient = (): HttpClient | undefined =>
  Reflect.get(globalThis, 'Deno')?.createHttpClient({ http2: false });

class Server {
  readonly #url: string;
  readonly #onError: (error: Error) => void;
  /** When each reason was last met. */
  readonly #metAtMs = new Map<string, number>();
  readonly #authorization: string;
  readonly #resource: Readonly<Record<string, string>>;
  readonly #open = new Set<AbortController>();
  readonly #client = createHttpClient();

  constructor(options: VerifierOptions) {
    const { id, key, resource, onError = ({ message }) => console.warn(message) } = options;
    this.#url = baseUrlOf(options);
    this.#onError = onError;
    this.#authorization = `Basic ${btoa(`${encodeURIComponent(id)}:${encodeURIComponent(key)}`)}`;
    this.#resource = resource == null ? {} : { resource };
  }

  ask(fields: Readonly<Record<string, string>>, withinMs: number): Promise<ServerResponse> {
    return this.post('/introspect', { ...fields, ...this.#resource }, withinMs);
  }

  /** Resolves with NO_RESPONSE if there is none in time, or a successful one of something else. */
  async post(path: string, fields: Readonly<Record<string, string>>, withinMs: number): Promise<ServerResponse> {
    // No combined signal, because on Node 20 each leaves something behind in a signal that lives on.
    const hangUp = new AbortController();
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      hangUp.abort();
    }, withinMs);
    this.#open.add(hangUp);
    try {
      const response = await fetch(this.#url + path, {
        method: 'POST',
        headers: { authorization: this.#authorization },
        body: new URLSearchParams(fields),
        redirect: 'error', // credentials are only for this server
        signal: hangUp.signal,
        ...(this.#client && { client: this.#client }),
      });
      const read = await readResponse(response, path);
      const reason = reasonIn(path, read);
      if (reason !== undefined) this.warn(reason);
      return read;
    } catch (thrown) {
      if (isOver) this.warn('no response in time');
      else if (!hangUp.signal.aborted) this.warn(reasonOf(thrown));
      return NO_RESPONSE;
    } finally {
      clearTimeout(timer);
      this.#open.delete(hangUp);
    }
  }

  /** Ends the requests under way. */
  hangUp(): void {
    for (const hangUp of this.#open) hangUp.abort();
  }

  close(): void {
    this.hangUp();
    this.#client?.close();
  }

  /** Reports why the server can't be asked, each reason once while it lasts. */
  warn(reason: string): undefined {
    const atMs = performance.now();
    const lastMs = this.#metAtMs.get(reason) ?? Number.NEGATIVE_INFINITY;
    if (this.#metAtMs.size >= REASONS_MAX) this.#metAtMs.clear();
    this.#metAtMs.set(reason, atMs);
    if (atMs - lastMs < REASON_OVER_MS) return;
    try {
      this.#onError(new Error(`mcp-key-server/verifier: ${this.#url}: ${reason}`));
    } catch {
      // an error in the service's handler changes no decision
    }
  }
}

async function readResponse(response: Response, path: string): Promise<ServerResponse> {
  const retryAfterS = Number(response.headers.get('retry-after'));
  const parsed: unknown = await response.json().catch(() => null);
  const body: Body = typeof parsed === 'object' && parsed !== null ? (parsed as Body) : {};
  if (response.ok && !isAnswer(body, path)) throw new Error('expected an answer of an mcp-key-server');
  // The server says whole seconds; with 0, or less, of something before it the loop would never pause.
  return { status: response.status, retryAfterS: retryAfterS >= 1 ? retryAfterS : undefined, body };
}

/** Returns whether a successful response is the server's, not that of something in front of it. */
function isAnswer({ active, cursor, changed, fresh_ms: freshMs, bound_ms: boundMs }: Body, path: string): boolean {
  const isQuestion = path === '/introspect';
  if (isQuestion && active === false) return true;
  const isNews = typeof cursor === 'string' && Array.isArray(changed);
  return typeof freshMs === 'number' && typeof boundMs === 'number' && (isQuestion || isNews);
}

/** What an answer has that may be remembered. */
interface Lease {
  readonly lease_ms: number;
  readonly lease_uses: readonly unknown[];
  readonly marks: readonly unknown[];
  readonly tell: string;
}

/** Returns whether an answer may be remembered: without a limit or a mark nothing would end it. */
const isLease = (body: Body): body is Body & Lease =>
  typeof body.lease_ms === 'number' &&
  Array.isArray(body.lease_uses) &&
  Array.isArray(body.marks) &&
  typeof body.tell === 'string';

const textOf = (reports: readonly Report[]): string => reports.map(({ tell, units }) => `${tell}:${units}`).join(' ');

function identityOf(body: Body): Verified {
  const scopes = String(body.scope ?? '')
    .split(' ')
    .filter((scope) => scope !== '');
  return Object.freeze({
    ok: true,
    keyId: String(body.client_id),
    owner: String(body.sub),
    name: String(body.key_name ?? ''),
    scopes: Object.freeze(scopes),
    expiresAtS: typeof body.exp === 'number' ? body.exp : null,
    metadata: Object.freeze((body.metadata ?? {}) as Verified['metadata']),
    parent: typeof body.parent === 'string' ? body.parent : null,
  });
}

/** Returns what the server says about a used-up limit: whose it is, and the sentence. */
const limitOf = ({ error_description: detail, of }: Body): More => ({
  ...(typeof detail === 'string' && { detail }),
  ...(of === 'owner' && { of }),
});

function lacksScope({ scopes }: Verified, required: readonly string[]): Refused | undefined {
  if (required.every((scope) => scopes.includes(scope))) return undefined;
  return refusal('insufficient_scope', { requiredScopes: required });
}

const PROBLEMS = {
  missing_api_key: [401, 'Unauthorized', 'No API key provided'],
  invalid_api_key: [401, 'Unauthorized', 'Invalid or expired API key'],
  insufficient_scope: [403, 'Forbidden', 'Insufficient permissions'],
  rate_limited: [429, 'Too Many Requests', 'Rate limit exceeded; try again later'],
  quota_exceeded: [429, 'Too Many Requests', 'The quota of this API key is used up; try again when its period is over'],
  store_unavailable: [503, 'Service Unavailable', 'The key store is out of reach; try again'],
} as const;

type More = Pick<VerifierProblem, 'of' | 'requiredScopes'> & {
  readonly detail?: string;
  readonly retryAfterS?: number | undefined;
};

function refusal(code: keyof typeof PROBLEMS, more: More = {}): Refused {
  const [status, title, usualDetail] = PROBLEMS[code];
  const { detail = usualDetail, of, retryAfterS, requiredScopes } = more;
  const problem: VerifierProblem = {
    type: 'about:blank',
    title,
    status,
    detail,
    code,
    ...(of !== undefined && { of }),
    ...(retryAfterS !== undefined && { retryAfterS }),
    ...(requiredScopes !== undefined && { requiredScopes: Object.freeze([...requiredScopes]) }),
  };
  return Object.freeze({ ok: false, status, problem: Object.freeze(problem) });
}

const UNAVAILABLE: Answer = { is: 'refused', refused: refusal('store_unavailable', { retryAfterS: 1 }) };

const refusedRequest = ({ status, problem }: Refused): RefusedRequest =>
  Object.freeze({ ok: false, status, response: responseTo(problem) });

function responseTo(problem: VerifierProblem): Response {
  const { retryAfterS, ...body } = problem;
  const headers = new Headers({ 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' });
  if (retryAfterS !== undefined) headers.set('Retry-After', String(retryAfterS));
  const challenge = challengeFor(problem);
  if (challenge !== undefined) headers.set('WWW-Authenticate', challenge);
  return new Response(JSON.stringify(body), { status: problem.status, headers });
}

/** Returns the challenge, with at least one parameter (RFC 6750 §3). */
function challengeFor({ code, detail, requiredScopes = [] }: VerifierProblem): string | undefined {
  if (code === 'missing_api_key') return 'Bearer realm="mcp-key-server"';
  if (code === 'invalid_api_key') return `Bearer error="invalid_token", error_description="${detail}"`;
  if (code !== 'insufficient_scope') return undefined;
  const scopes = requiredScopes.filter((scope) => SCOPE.test(scope)).join(' ');
  return `Bearer error="insufficient_scope", error_description="${detail}"${scopes && `, scope="${scopes}"`}`;
}

/** What a key can have. A service may demand what its client has typed, which no header may carry. */
const SCOPE = /^[\x21\x23-\x5B\x5D-\x7E]{1,100}$/;

/** Waits for `ms`, or until the verifier is closed. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimer(done, ms);
    timer.unref(); // a program ends although it listens
    signal.addEventListener('abort', done);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
