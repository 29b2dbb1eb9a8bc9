// Which server a key is good for (RFC 8707; MCP: tokens are for the server that takes them). A bound key is good for
// one, any other key for all. Each server has one name, whichever of its addresses is given.

export type Audience = ReturnType<typeof createAudience>;

/** Paths below PUBLIC_URL by which this server is also called: its MCP transports. */
const OWN_PATHS = ['', '/mcp', '/sse'];

/** `others`: URLs without a slash at the end. */
export function createAudience(publicUrl: () => string, others: readonly string[]) {
  function nameOf(resource: string): string {
    const url = resource.replace(/\/$/, '');
    return OWN_PATHS.some((path) => url === publicUrl() + path) ? publicUrl() : url;
  }
  return {
    /** The name of this server. */
    own: publicUrl,
    /** The names of servers that keys may be bound to, this one first. */
    names: (): readonly string[] => [publicUrl(), ...others],
    nameOf,
    /** Whether a key that is bound to `name` (null: to none) is good for all of these servers; undefined: for this one. */
    admits: (name: string | null, resources: readonly string[] | undefined) =>
      name === null || (resources ?? [publicUrl()]).every((resource) => nameOf(resource) === name),
  };
}
