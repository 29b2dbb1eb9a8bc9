// Files imported as text (`with { type: 'text' }`), which Bun and Deno both load as a string.
declare module '*.sql' {
  const text: string;
  export default text;
}

declare module '*.css' {
  const text: string;
  export default text;
}

// Named in full: bun-types declares `*.html` as a page to bundle, and untyped `*.js` packages must not become text.
declare module '*/api-key-created.html' {
  const text: string;
  export default text;
}
declare module '*/api-keys-list.html' {
  const text: string;
  export default text;
}
declare module '*/preview.html' {
  const text: string;
  export default text;
}
declare module '*/bridge.js' {
  const text: string;
  export default text;
}
declare module '*/words.js' {
  const text: string;
  export default text;
}
declare module '*/preview-host.js' {
  const text: string;
  export default text;
}
