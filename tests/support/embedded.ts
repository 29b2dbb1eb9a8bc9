// A store on a file, opened, without an app.

import { embeddedStore } from '../../src/store/embedded/open.ts';

export async function openEmbedded(path: string) {
  const store = embeddedStore(path, (db) => db);
  await store.open();
  return store;
}
