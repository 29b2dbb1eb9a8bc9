// Loaded before the tests.

import { afterAll } from 'bun:test';
import { end } from './at-end.ts';

afterAll(end);
