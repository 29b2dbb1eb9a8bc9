// An output with one long list, checked and encoded page by page: it is never there as objects, nor as one text. What is
// encoded counts against the send budget while the list grows; when it is complete, its sender counts it.

import type { CompleteOutput } from '../calls/operation.ts';
import type { Utf8 } from '../http/sending/parts.ts';
import type { SendBudget } from '../http/sending/send-budget.ts';
import { ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

const utf8 = new TextEncoder();
/** How an object ends whose one field is a list. */
const END = ']}';
const COMMA = 0x2c;

/**
 * The output that `run` hands out in pages, each of them an output of its own, made JSON by `encode`. `add` is false, and
 * `run` then fails, when there is no room for a page. One page is left as it is.
 */
export async function encodePages<Page>(
  run: (add: (page: Page) => boolean) => Promise<Result<void, Problem>>,
  encode: (page: Page) => string,
  budget: SendBudget,
): Promise<Result<CompleteOutput, Problem>> {
  let first = '';
  const parts: Utf8[] = [];
  let bytes = 0;
  const room = budget.open(() => {}); // a list that is cut off looks for room again with its next page

  function put(part: Utf8): boolean {
    parts.push(part);
    bytes += part.length;
    return room.set(bytes);
  }

  function add(page: Page): boolean {
    const json = encode(page);
    if (first === '' || first.endsWith(`[${END}`)) {
      first = json;
      return true;
    }
    if (json.endsWith(`[${END}`)) return true;
    if (parts.length === 0 && !put(utf8.encode(first.slice(0, -END.length)))) return false;
    const items = utf8.encode(json.slice(json.indexOf('['), -END.length));
    items[0] = COMMA;
    return put(items);
  }

  try {
    const ran = await run(add);
    if (!ran.ok) return ran;
    return ok(parts.length === 0 ? { json: first } : { parts: [...parts, utf8.encode(END)] });
  } finally {
    room.release();
  }
}
