// A store on a file, opened, without an app.

import { embeddedStore } from '../../src/database/embedded/open.ts';
import { createKeyStore } from '../../src/store/key-store.ts';

export async function openEmbedded(path: string) {
  const { db, usesPerWrite, open, close } = embeddedStore(path, (database) => database);
  await open();
  return { db, store: createKeyStore({ primary: db, usesPerWrite }), close };
}
