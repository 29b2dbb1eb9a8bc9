// A model of told-not-asked: processes on one database, a client that keeps the rules of src/api/README.md, and time that a
// test moves. Random delays, lost responses, slow polls, units and costs, two services that tell late. `without`: a part of
// the rules that is left out, which the model has to find.

export const PARTS = [
  'a lease only if the process has seen all of the cursor',
  'the age of what a response knows',
  'forgetting what is told',
  'known from when the request was sent',
  'the cursor is still the one sent',
  'a late yes says nothing',
  'less what is not told yet',
  'less what another request told meanwhile',
  'answer and age of one read',
] as const;
export type Part = (typeof PARTS)[number];

const LAG_MS = 1000;
const BOUND_MS = LAG_MS - 25;
const KEYS = 12;
const END_MS = 20_000;
/** One key has a limit, and its holder is itself. */
const LIMIT = 320;
const LENT = LIMIT / 32;

export interface Outcome {
  /** Let in later than the bound after an acknowledged end. */
  readonly late: number;
  /** Let in beyond the limit and what services may have untold. */
  readonly over: number;
  readonly fromMemory: number;
  readonly asked: number;
}

function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Runs what is due, in the order of its time. */
class Timeline {
  now = 0;
  #due: { readonly atMs: number; readonly order: number; readonly run: () => void }[] = [];
  #order = 0;

  at(atMs: number, run: () => void): void {
    this.#order += 1;
    const due = { atMs, order: this.#order, run };
    let place = this.#due.length;
    while (place > 0 && (this.#due[place - 1]?.atMs ?? 0) > atMs) place -= 1;
    this.#due.splice(place, 0, due);
  }

  after(ms: number, run: () => void): void {
    this.at(this.now + ms, run);
  }

  run(untilMs: number): void {
    for (let next = this.#due.shift(); next !== undefined && next.atMs <= untilMs; next = this.#due.shift()) {
      this.now = next.atMs;
      next.run();
    }
  }
}

interface Told {
  readonly cursor: number;
  readonly all: boolean;
  readonly changed: readonly number[];
  readonly freshMs: number;
}

interface Yes {
  readonly active: boolean;
  readonly leased: boolean;
  readonly freshMs: number;
  readonly units: number;
}

interface World {
  readonly time: Timeline;
  readonly between: (least: number, most: number) => number;
  readonly without: Part | null;
  /** The feed: keys that have ended, in order. */
  readonly changes: number[];
  readonly endedAtMs: Map<number, number>;
  /** Units of the limited key that the server has counted. */
  counted: number;
}

class Process {
  seq = 0;
  polledAtMs = Number.NEGATIVE_INFINITY;
  #polling: ((isComplete: boolean) => void)[] | null = null;

  constructor(readonly world: World) {
    const { time, between } = world;
    const tick = () => {
      this.poll(() => {});
      time.after(LAG_MS / 4, tick);
    };
    time.at(between(0, 250), tick);
  }

  poll(done: (isComplete: boolean) => void): void {
    if (this.#polling !== null) return void this.#polling.push(done);
    this.#polling = [done];
    const { time, between, changes } = this.world;
    const begunAtMs = time.now;
    const takesMs = between(0, 1) < 0.1 ? between(200, 900) : between(1, 40);
    const fails = between(0, 1) < 0.05;
    let seen = 0;
    time.after(takesMs * between(0, 1), () => {
      seen = changes.length;
    });
    time.after(takesMs, () => {
      const callers = this.#polling ?? [];
      this.#polling = null;
      const isComplete = !fails && takesMs < 0.9 * LAG_MS;
      if (isComplete) {
        this.seq = seen;
        this.polledAtMs = begunAtMs;
      }
      for (const caller of callers) caller(isComplete);
    });
  }

  /** A poll that begins now, not one that is under way. */
  pollNow(done: (isComplete: boolean) => void): void {
    if (this.#polling === null) this.poll(done);
    else this.poll(() => this.poll(done));
  }

  introspect(key: number, cost: number, cursor: number | null, told: number, answer: (yes: Yes | null) => void): void {
    const { time, changes, without } = this.world;
    const arrivedAtMs = time.now;
    if (key === 0) this.tell(told);
    let tries = 0;
    const decide = () => {
      if (time.now - this.polledAtMs > BOUND_MS) {
        tries += 1;
        return tries > 3 ? answer(null) : this.poll(decide);
      }
      const { seq, polledAtMs } = this;
      const active = !changes.slice(0, seq).includes(key);
      const hasSeen =
        cursor !== null && (without === 'a lease only if the process has seen all of the cursor' || seq >= cursor);
      if (key === 0 && this.world.counted + cost > LIMIT)
        return answer({ active: false, leased: false, freshMs: 0, units: 0 });
      if (key === 0) this.world.counted += cost;
      const units = key === 0 ? Math.min(LENT, LIMIT - this.world.counted) : Number.POSITIVE_INFINITY;
      const leased = active && hasSeen && units > 0;
      if (without !== 'answer and age of one read')
        return answer({ active, leased, freshMs: polledAtMs - arrivedAtMs, units });
      // The answer of one read goes out with the age of another.
      this.poll(() =>
        answer({
          active,
          leased: active && cursor !== null && this.seq >= cursor,
          freshMs: this.polledAtMs - arrivedAtMs,
          units,
        }),
      );
    };
    decide();
  }

  /** Counts what was let in, as far as there is room. */
  tell(units: number): void {
    this.world.counted = Math.max(this.world.counted, Math.min(LIMIT, this.world.counted + units));
  }

  listen(cursor: number | null, told: number, answer: (told: Told | null) => void): void {
    const { time, changes, without } = this.world;
    const arrivedAtMs = time.now;
    this.tell(told);
    const respond = () => {
      const freshMs =
        without === 'the age of what a response knows' ? time.now - arrivedAtMs : this.polledAtMs - arrivedAtMs;
      const all = cursor === null || cursor > this.seq;
      answer({ cursor: this.seq, all, changed: changes.slice(cursor ?? this.seq, this.seq), freshMs });
    };
    const isCurrent = time.now - this.polledAtMs <= BOUND_MS;
    if (isCurrent && (cursor === null || cursor <= this.seq)) respond();
    else this.pollNow((isComplete) => (isComplete ? respond() : answer(null)));
  }
}

interface Remembered {
  readonly endMs: number;
}

class Service {
  #cursor: number | null = null;
  #knownAtMs = Number.NEGATIVE_INFINITY;
  readonly #remembered = new Map<number, Remembered>();
  #left = 0;
  #leftAskedMs = Number.NEGATIVE_INFINITY;
  #untold = 0;
  #inFlight = 0;
  readonly #settled: { readonly atMs: number; readonly units: number }[] = [];
  fromMemory = 0;
  asked = 0;

  constructor(
    readonly world: World,
    readonly processes: readonly Process[],
    readonly onLetIn: (key: number, cost: number) => void,
  ) {
    world.time.after(5, () => this.#listen());
  }

  #netMs(): number {
    const { between } = this.world;
    return between(0, 1) < 0.03 ? between(100, 700) : between(0.2, 20);
  }

  #any(): Process {
    return this.processes[Math.floor(this.world.between(0, this.processes.length))] as Process;
  }

  #take(): number {
    const told = this.#untold;
    this.#untold = 0;
    this.#inFlight += told;
    return told;
  }

  #settle(units: number): void {
    this.#inFlight -= units;
    this.#settled.push({ atMs: this.world.time.now, units });
  }

  /** What was told since then by requests that were answered since. */
  #settledSince(atMs: number): number {
    return this.#settled.filter((one) => one.atMs > atMs).reduce((sum, { units }) => sum + units, 0);
  }

  #listen(): void {
    const { time, between, without } = this.world;
    const sentAtMs = time.now;
    const cursor = this.#cursor;
    const told = between(0, 1) < 0.3 ? 0 : this.#take(); // it tells late
    let isOver = false;
    const end = () => {
      isOver = true;
      this.#settle(told);
    };
    const heard = (response: Told | null) => {
      if (isOver) return;
      end();
      if (response !== null && between(0, 1) > 0.02) {
        if (response.all) this.#remembered.clear();
        if (without !== 'forgetting what is told') for (const key of response.changed) this.#remembered.delete(key);
        this.#cursor = response.cursor;
        this.#knownAtMs = without === 'known from when the request was sent' ? time.now : sentAtMs + response.freshMs;
      }
      const atMs = response === null ? time.now + 250 : Math.max(time.now, sentAtMs + BOUND_MS / 4);
      time.at(atMs, () => this.#listen());
    };
    const process = this.#any();
    time.after(this.#netMs(), () =>
      process.listen(cursor, told, (response) => time.after(this.#netMs(), () => heard(response))),
    );
    time.after(2 * BOUND_MS, () => {
      if (isOver) return;
      end();
      this.#listen();
    });
  }

  check(key: number, cost: number): void {
    const { time } = this.world;
    const found = this.#remembered.get(key);
    const isCurrent = found !== undefined && time.now <= this.#knownAtMs + BOUND_MS && time.now < found.endMs;
    if (isCurrent && (key !== 0 || this.#left >= cost)) {
      if (key === 0) {
        this.#left -= cost;
        this.#untold += cost;
      }
      this.fromMemory += 1;
      this.onLetIn(key, cost);
      return;
    }
    this.#ask(key, cost);
  }

  #ask(key: number, cost: number): void {
    const { time, without } = this.world;
    const sentAtMs = time.now;
    const cursor = this.#cursor;
    const told = key === 0 ? this.#take() : 0;
    const process = this.#any();
    this.asked += 1;
    const answered = (yes: Yes | null) => {
      const elsewhere = without === 'less what another request told meanwhile' ? 0 : this.#settledSince(sentAtMs);
      this.#settle(told);
      if (yes === null || !yes.active) return;
      if (without !== 'a late yes says nothing' && time.now > sentAtMs + yes.freshMs + BOUND_MS) return;
      this.onLetIn(key, cost);
      if (!yes.leased || (without !== 'the cursor is still the one sent' && this.#cursor !== cursor)) return;
      this.#remembered.set(key, { endMs: sentAtMs + 300_000 });
      if (key !== 0 || sentAtMs < this.#leftAskedMs) return;
      this.#leftAskedMs = sentAtMs;
      this.#left =
        yes.units - (without === 'less what is not told yet' ? 0 : this.#untold + this.#inFlight + elsewhere);
    };
    time.after(this.#netMs(), () =>
      process.introspect(key, cost, cursor, told, (yes) => time.after(this.#netMs(), () => answered(yes))),
    );
  }
}

/** Twenty seconds of three processes and two services. */
export function simulate(seed: number, without: Part | null): Outcome {
  const random = randomFrom(seed);
  const between = (least: number, most: number) => least + (most - least) * random();
  const time = new Timeline();
  const world: World = { time, between, without, changes: [], endedAtMs: new Map(), counted: 0 };
  const processes = [new Process(world), new Process(world), new Process(world)];
  let late = 0;
  let letIn = 0;
  const onLetIn = (key: number, cost: number) => {
    if (time.now > (world.endedAtMs.get(key) ?? Number.POSITIVE_INFINITY) + LAG_MS) late += 1;
    if (key === 0) letIn += cost;
  };
  const services = [new Service(world, processes, onLetIn), new Service(world, processes, onLetIn)];
  for (const service of services) {
    const user = () => {
      const key = between(0, 1) < 0.4 ? 0 : Math.floor(between(1, KEYS));
      service.check(key, key === 0 && between(0, 1) < 0.2 ? 3 : 1);
      time.after(between(1, 20), user);
    };
    time.after(50, user);
  }
  const living = Array.from({ length: KEYS - 1 }, (_, at) => at + 1); // the limited key stays
  const end = () => {
    const [key] = living.splice(Math.floor(between(0, living.length)), 1);
    if (key !== undefined) {
      world.changes.push(key);
      world.endedAtMs.set(key, time.now);
    }
    time.after(between(100, 1500), end);
  };
  time.at(1500, end);
  time.run(END_MS);
  const over = Math.max(0, letIn - (LIMIT + services.length * LENT));
  return { late, over, fromMemory: sum(services, 'fromMemory'), asked: sum(services, 'asked') };
}

const sum = (services: readonly Service[], what: 'fromMemory' | 'asked'): number =>
  services.reduce((total, service) => total + service[what], 0);
