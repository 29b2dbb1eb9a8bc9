// What a trusted proxy says about the request it passes on. Only the last entry of a list is the proxy's own; those
// before it came with the request.

export const forwardedProto = (headers: Headers): string | null =>
  lastOf(headers.get('x-forwarded-proto'))?.toLowerCase() ?? null;

/** The address of whoever spoke to the proxy, without the port that some proxies add. */
export function forwardedFor(headers: Headers): string | null {
  const address = lastOf(headers.get('x-forwarded-for'));
  const [, ipv4, ipv6] = WITH_PORT.exec(address ?? '') ?? [];
  return ipv4 ?? ipv6 ?? address;
}

/** `192.0.2.7:50123`, `[2001:db8::7]:50123`, and the brackets alone. */
const WITH_PORT = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/;

const lastOf = (list: string | null): string | null => list?.split(',').at(-1)?.trim() || null;
