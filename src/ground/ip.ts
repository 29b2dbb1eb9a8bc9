// Recognizes IP addresses and loopback names, and returns the network that an address's rate limits count for.

// `URL.hostname` has already normalized every spelling of an address.
export const isAddress = (name: string) => name.startsWith('[') || /^\d{1,3}(\.\d{1,3}){3}$/.test(name);

/**
 * Returns the network that a budget belongs to: the IPv4 address, even if embedded in an IPv6 address; otherwise the
 * /64, since one host may own all of it; the whole address where a local NAT64 prefix hides the IPv4 address.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const groups = groupsOf(address);
  if (groups === null) return address;
  const beginsWith = (prefix: readonly number[]) => prefix.every((group, index) => groups[index] === group);
  if (beginsWith(MAPPED) || beginsWith(NAT64)) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  }
  const spelled = groups.map((group) => group.toString(16));
  return beginsWith(NAT64_LOCAL) ? spelled.join(':') : `${spelled.slice(0, 4).join(':')}::/64`;
}

/** ::ffff:0:0/96, IPv4-mapped addresses (RFC 4291 §2.5.5.2). */
const MAPPED = [0, 0, 0, 0, 0, 0xffff];

/** 64:ff9b::/96: IPv4 addresses behind a translator (RFC 6052 §2.1). */
const NAT64 = [0x64, 0xff9b, 0, 0, 0, 0];

/** 64:ff9b:1::/48: the same, but each network chooses which bits hold the IPv4 address (RFC 8215). */
const NAT64_LOCAL = [0x64, 0xff9b, 1];

/** Returns the groups of an IPv6 address in any spelling (RFC 4291 §2.2); null if it isn't one. */
function groupsOf(address: string): readonly number[] | null {
  const [spelled = ''] = address.split('%', 1);
  const url = /^[\da-f:.]+$/i.test(spelled) ? URL.parse(`http://[${spelled}]`) : null; // which has one spelling, without dots
  if (url === null) return null;
  const [before = [], after = []] = url.hostname
    .slice(1, -1)
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

/** Returns whether a host is a loopback name or address: as in `URL.hostname`, or IPv6 without brackets. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  host === '[::1]' ||
  host === '::1' ||
  /^127(\.\d{1,3}){3}$/.test(host);
