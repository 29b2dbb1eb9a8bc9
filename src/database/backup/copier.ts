// The thread that copies a database into a file. The driver blocks the thread that it works in, and the command meanwhile
// says how far it is, and obeys signals. Handles one message.

import { reasonOf } from '../../lib/text.ts';
import { type Copying, copyAll } from './backup.ts';

interface Port {
  onmessage: (event: MessageEvent<Copying>) => void;
  /** What went wrong, or null. */
  postMessage(failure: string | null): void;
  close(): void;
}

const port = self as unknown as Port;

port.onmessage = async ({ data }) => {
  const failure = await copyAll(data).then(() => null, reasonOf);
  port.postMessage(failure);
  port.close();
};
