// What the commands share about help: it is asked for with --help or -h, and goes to stdout, with the exit code 0.

export const asksForHelp = (args: readonly string[]): boolean => args.includes('--help') || args.includes('-h');
