// Loaded before the tests, for what is to happen after the last of them. (The test runner ends without an `exit`
// event.)

import { afterAll } from 'bun:test';
import { removeTemporaryFolders } from './folder.ts';

afterAll(removeTemporaryFolders);
