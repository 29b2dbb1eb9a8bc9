// Puts an input on a socket and gives back what came. Well-formed requests share a connection, as clients do; anything
// else has one of its own, because nobody knows what it leaves behind.

import type { Socket } from 'node:net';
import { type ParsedResponse, parseResponses } from '../../support/http-responses.ts';
import type { Input } from './inputs.ts';
import type { Target } from './settings.ts';

/** Longer than anything here may take on a busy machine; past it the server hangs. */
const RESPONSE_MS_MAX = 30_000;
/** An input that deserves no response may still get something for this long. */
const QUIET_MS = 15;

export interface Outcome {
  readonly responses: readonly ParsedResponse[];
  /** What came beside whole responses. */
  readonly rest: string;
  /** `broken`: no connection, or no HTTP came; `rest` says more. */
  readonly ended: 'answered' | 'closed' | 'quiet' | 'hangs' | 'broken';
}

export interface Wire {
  put(input: Input): Promise<Outcome>;
  close(): void;
}

interface Line {
  readonly socket: Socket;
  received: string;
  open: boolean;
  onNews: () => void;
}

/** Also true for what is no HTTP: reading it again says what is wrong with it. */
function hasResponse(received: string, isHead: boolean): boolean {
  try {
    return parseResponses(received, isHead).responses.length > 0;
  } catch {
    return true;
  }
}

export function createWire({ connect }: Pick<Target, 'connect'>): Wire {
  let kept: Line | null = null;

  async function open(): Promise<Line> {
    const socket = await connect();
    const line: Line = { socket, received: '', open: true, onNews: () => {} };
    socket.setEncoding('latin1');
    socket.on('data', (text) => {
      line.received += text;
      line.onNews();
    });
    socket.on('close', () => {
      line.open = false;
      line.onNews();
    });
    return line;
  }

  async function write({ socket }: Line, { chunks, pauseMs }: Input): Promise<void> {
    for (const [index, chunk] of chunks.entries()) {
      if (index > 0) await Bun.sleep(pauseMs);
      if (chunk !== '' && socket.writable) socket.write(chunk, 'latin1');
    }
  }

  /** Waits for a response, the end of the connection, or until it has been quiet for `quietMs`. */
  function settle(line: Line, { isHead }: Input, quietMs: number): Promise<Outcome['ended']> {
    return new Promise((resolve) => {
      const finish = (ended: Outcome['ended']) => {
        clearTimeout(timer);
        line.onNews = () => {};
        resolve(ended);
      };
      const timer = setTimeout(() => finish(quietMs === RESPONSE_MS_MAX ? 'hangs' : 'quiet'), quietMs);
      line.onNews = () => {
        if (hasResponse(line.received, isHead)) finish('answered');
        else if (!line.open) finish('closed');
      };
      line.onNews();
    });
  }

  async function putAlone(input: Input): Promise<Outcome> {
    const line = await open();
    await write(line, input);
    let ended: Outcome['ended'] = 'quiet';
    if (input.expect === 'any') ended = await settle(line, input, QUIET_MS);
    if (ended === 'answered') await Bun.sleep(1); // a second response, to what was smuggled in
    line.socket.destroy();
    return { ...parseResponses(line.received, input.isHead), ended };
  }

  async function putKept(input: Input): Promise<Outcome> {
    const line = kept?.open === true ? kept : await open();
    kept = line;
    line.received = '';
    await write(line, input);
    const ended = await settle(line, input, RESPONSE_MS_MAX);
    const outcome = { ...parseResponses(line.received, input.isHead), ended };
    if (ended !== 'answered' || outcome.responses.at(-1)?.headers.get('connection') === 'close') {
      line.socket.destroy();
      kept = null;
    }
    return outcome;
  }

  return {
    put: (input) =>
      (input.expect === 'response' ? putKept(input) : putAlone(input)).catch((error) => ({
        responses: [],
        rest: String(error),
        ended: 'broken',
      })),
    close: () => kept?.socket.destroy(),
  };
}
