// The identity headers of /verify. Whatever a proxy is told to pass on, or to remove, has to name them all.

export const IDENTITY = [
  'x-key-id',
  'x-key-owner',
  'x-key-name',
  'x-key-scopes',
  'x-key-expires',
  'x-key-metadata',
  'x-key-parent',
] as const;

/** What a client may send to be taken for somebody: these names, also as a service reads them from CGI variables. */
export const FORGED: Readonly<Record<string, string>> = Object.fromEntries(
  IDENTITY.flatMap((name) => [
    name,
    ...['_', '.'].flatMap((sign) => [
      name.replaceAll('-', sign),
      name.replace(/-(?=\w+$)/, sign),
      name.replace('-', sign),
    ]),
  ]).map((name) => [name, 'forged']),
);
