// Who a user is: the `sub` of their tokens, which becomes the owner of their keys.

import { hasLength, isStorable } from './text.ts';

export const SUBJECT_CHARS_MAX = 255; // the limit of OpenID Connect Core §2

/** True for text that can own keys. */
export const isSubject = (sub: string): boolean => hasLength(sub, 1, SUBJECT_CHARS_MAX) && isStorable(sub);
