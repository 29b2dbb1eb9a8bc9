// What differs between two servers that do the same, each replaced by its name: what is random, what the time is, and how
// long something took.

import type { ParsedResponse } from '../../support/http-responses.ts';

/** Numbers become numbers, so that what was JSON stays so. `quotaShare` is as of the last exchange of counts. */
const TEXTS: readonly (readonly [RegExp, string])[] = [
  [/[a-z0-9]{2,12}_(?:live|test)_[0-9a-f]{64}/g, '<key>'],
  [/[a-z0-9]{2,12}_(?:live|test)_[0-9a-f]{1,63}\\ud[89a-f][0-9a-f]{2}[0-9a-f]{1,63}/g, '<key with half a character>'],
  [/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<token>'],
  [/[0-9a-f]{64}/g, '<hash>'],
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>'],
  [/(?<=requestId\\*":\s?\\*")[\w-]+/g, '<request>'],
  [/(?<=ingerprint\\*":\s?\\*")[0-9a-f]{12}/g, '<fingerprint>'],
  [/(?<=\bcode=)[\w-]{43}/g, '<code>'],
  [/(?<="(?:device_code|tell|instance)":")[^"]+/g, '<opaque>'],
  [/(?<=(?:nextC|"c)ursor\\*":\s?\\*")[^"\\]+/g, '<opaque>'],
  [/(?<="holder":")[^"]+|(?<=")[0-9a-f]{16}(?=")/g, '<mark>'],
  [/\b[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}\b/g, '<user code>'],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<date>'],
  [/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, '<date>'],
  [/\b\d{13}\b/g, '1000000000000'],
  [/(?<="(?:iat|exp)":)\d{10}/g, '1000000000'],
  [
    /(?<=;t=|\breset(?:Seconds)?\\*":\s?|"(?:uptimeSeconds|quotaShare|(?:lag|fresh|lease)(?:Ms|_ms)|expires_in)":)-?\d+(?:\.\d+)?/g,
    '0',
  ],
  [/(?<=127\.0\.0\.1:)\d{5}/g, '<port>'],
];

/** The same text for the same response of another server. Ids are numbered as they appear. */
export function named(text: string): string {
  const ids = new Map<string, string>();
  const named = TEXTS.reduce((so, [pattern, name]) => so.replace(pattern, name), text);
  return named.replace(/\b[0-9a-f]{32}\b/g, (id) => {
    const name = ids.get(id) ?? `<id ${ids.size}>`;
    ids.set(id, name);
    return name;
  });
}

/** A widget, by whose length a server decides whether to send a response in pieces. */
const WIDGET = '<style>';

/** A response with names in it; its length is that of the body with names, if it was right. */
export function namedResponse({ status, head, body: bytes }: ParsedResponse, isHead: boolean) {
  const body = named(Buffer.from(bytes, 'latin1').toString());
  const lines = head.slice(1).map((line) => {
    const [, name = '', value = ''] = /^([^:]*): ?(.*)$/.exec(line) ?? [];
    const isLength = name.toLowerCase() === 'content-length';
    const isOfPieces = name.toLowerCase() === 'transfer-encoding' || (isLength && value === String(bytes.length));
    if (isOfPieces && body.includes(WIDGET)) return ['content-length', '<right length>'] as const;
    if (isLength && isHead) return [name, '<length>'] as const;
    return [name, isLength && value === String(bytes.length) ? '<right length>' : named(value)] as const;
  });
  return { status, statusLine: head[0] ?? '', headers: lines, body };
}

export type NamedResponse = ReturnType<typeof namedResponse>;
