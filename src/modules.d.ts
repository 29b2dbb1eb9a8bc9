// Files imported as text (`with { type: 'text' }`), which Bun and Deno both load as a string.
declare module '*.sql' {
  const text: string;
  export default text;
}
