// Which host names mean this machine.

/**
 * True for names and literals of the loopback interface; `host` as in `URL.hostname`, IPv6 with or without brackets.
 */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  host === '[::1]' ||
  host === '::1' ||
  /^127(\.\d{1,3}){3}$/.test(host);
