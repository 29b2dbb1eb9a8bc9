// What a trusted proxy says about the request it passes on. Of a list only the last entry is the proxy's own word;
// those before it came with the request.

export const forwardedProto = (headers: Headers): string | null =>
  lastOf(headers.get('x-forwarded-proto'))?.toLowerCase() ?? null;

/** The address of whoever spoke to the proxy. */
export const forwardedFor = (headers: Headers): string | null => lastOf(headers.get('x-forwarded-for'));

const lastOf = (list: string | null): string | null => list?.split(',').at(-1)?.trim() || null;
