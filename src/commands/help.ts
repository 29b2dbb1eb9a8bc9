// Help for all commands: --help or -h prints it to stdout, with exit code 0.

export const asksForHelp = (args: readonly string[]): boolean => args.includes('--help') || args.includes('-h');
