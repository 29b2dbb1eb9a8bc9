// The thread of an embedded replica. The driver's native code blocks its thread, for round trips while it opens and for
// as long as a primary hangs; here that blocks no request. Handles one message from replica.ts at a time.

import { makePrivate } from '../../lib/private-files.ts';
import { errorReason, isSchemaMissing, type Statement } from '../database.ts';
import { type NativeConnection, openNative } from '../native.ts';
import { keepOrRemove, noteClosed, ownerFile, removeReplica } from './files.ts';

export interface ReplicaSource {
  readonly file: string;
  readonly url: string;
  readonly authToken: string | null;
}

export type ReplicaRequest =
  | { readonly open: ReplicaSource; readonly rebuild: boolean }
  | Statement
  /** What is here belongs to this primary: from now on its changes may follow. */
  | { readonly follow: true }
  | { readonly close: true };

export type ReplicaReply = { readonly rows: readonly object[] } | { readonly failure: ReplicaFailure };

export interface ReplicaFailure {
  readonly reason: string;
  /** The file can't be used: the next one is made from nothing. */
  readonly damaged: boolean;
}

/** Between two pulls. While the replica lags, unknown keys are read from the primary: a lag costs a few reads. */
const PULL_EVERY_MS = 1000;

interface Port {
  onmessage: (event: MessageEvent<{ id: number; request: ReplicaRequest }>) => void;
  postMessage(message: { id: number; reply: ReplicaReply }): void;
  close(): void;
}

const port = self as unknown as Port;
let owner: NativeConnection | undefined;
let replica: NativeConnection | undefined;
let kept = false;
let file = '';
let turn: Promise<void> = Promise.resolve();
let timer: ReturnType<typeof setTimeout> | undefined;

port.onmessage = ({ data: { id, request } }) => {
  turn = turn.then(async () => {
    port.postMessage({ id, reply: await handle(request) });
    if ('close' in request) port.close();
  });
};

async function handle(request: ReplicaRequest): Promise<ReplicaReply> {
  try {
    if ('open' in request) return { rows: [{ kept: await open(request.open, request.rebuild) }] };
    if ('close' in request) {
      close();
      return { rows: [] };
    }
    if (replica === undefined) return { failure: { reason: 'not open', damaged: true } };
    if ('follow' in request) {
      pullAfter(0);
      return { rows: [] };
    }
    return { rows: replica.all(request) };
  } catch (error) {
    const reason = errorReason(error);
    const isOwned = owner === undefined && /SQLITE_BUSY/.test(reason);
    const isEmpty = isSchemaMissing(error); // nothing has arrived yet
    return { failure: { reason, damaged: !isOwned && !isEmpty } };
  }
}

/** True when the file of an earlier run is used again. Pulls nothing yet. */
async function open(source: ReplicaSource, rebuild: boolean): Promise<boolean> {
  file = source.file;
  owner ??= own(file);
  if (replica !== undefined && !rebuild) return kept; // the primary was away; nothing was pulled meanwhile
  end();
  if (rebuild) removeReplica(file);
  kept = keepOrRemove(file);
  replica = openNative(file, { primary: source });
  return kept;
}

/**
 * Keeps pulling until the client is closed. The driver's own interval is not used: it goes on pulling after a close,
 * and writes that into the file that is opened next, which breaks.
 */
function pullAfter(ms: number): void {
  timer = setTimeout(() => {
    turn = turn
      .then(() => replica?.pull())
      .catch(() => {}) // the primary is away; the next statement reports it
      .then(() => replica && pullAfter(PULL_EVERY_MS));
  }, ms);
}

/** Becomes the only user of the file, until the result is closed. Throws SQLITE_BUSY while another process uses it. */
function own(file: string): NativeConnection {
  makePrivate(ownerFile(file));
  const client = openNative(ownerFile(file));
  try {
    client.execute('BEGIN IMMEDIATE');
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

function end(): void {
  clearTimeout(timer);
  replica?.close();
  replica = undefined;
}

function close(): void {
  if (replica !== undefined) {
    end();
    noteClosed(file);
  }
  owner?.close();
  owner = undefined;
}
