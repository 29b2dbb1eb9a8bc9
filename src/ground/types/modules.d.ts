// Declares files imported as text (`with { type: 'text' }`), which Bun and Deno both load as a string.
declare module '*.sql' {
  const text: string;
  export default text;
}

declare module '*.css' {
  const text: string;
  export default text;
}

// The dot limits these to our own relative imports: bun-types declares `*.html` as a page to bundle, and untyped `*.js`
// packages must not become text.
declare module '.*.html' {
  const text: string;
  export default text;
}

declare module '.*.js' {
  const text: string;
  export default text;
}

// Only for the declarations of the package: elsewhere the compiler reads the file itself.
declare module '.*/package.json' {
  const manifest: { readonly version: string };
  export default manifest;
}
