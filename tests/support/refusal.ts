// What an OAuth client reads when it is refused: the error's name and a sentence, in the characters that RFC 6749 §5.2 allows.

import { expect } from 'bun:test';

export const refusal = (error: string) => ({ error, error_description: expect.stringMatching(/^[ !#-[\]-~]{10,}$/) });
