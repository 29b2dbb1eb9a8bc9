// What held, as lines of a table.

/** Of what was found: hundreds of calls may fail in the same way. */
const TEXT_MAX = 1000;

export type Report = ReturnType<typeof report>;

export function report() {
  let failed = 0;
  /** `found`: what was seen, said if it held too. */
  function say(what: string, held: boolean, found: unknown = ''): void {
    if (!held) failed += 1;
    const text = typeof found === 'string' ? found : JSON.stringify(found);
    console.log(`| ${what} | ${held ? 'yes' : 'NO'} | ${text.slice(0, TEXT_MAX)} |`);
  }
  return {
    say,
    /** Holds if both are alike as JSON; says what differs. */
    same(what: string, found: unknown, expected: unknown): void {
      const [is, ought] = [JSON.stringify(found), JSON.stringify(expected)];
      if (is === ought) say(what, true);
      else say(what, false, `${is} instead of ${ought}`);
    },
    failed: () => failed,
  };
}
