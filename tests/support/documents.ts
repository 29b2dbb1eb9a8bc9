// The Markdown documents of the repository, read by section: their code blocks and tables are what tests run and compare.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dir, '../..');

/** Not the project's own: packages, data and what .gitignore names. */
const SKIPPED: readonly string[] = ['.git', 'node_modules', 'data', 'coverage', 'dist'];

/** The paths of all documents, from the root of the repository. */
export const DOCUMENTS: readonly string[] = documentsIn('').sort();

function documentsIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.includes(entry.name) ? [] : documentsIn(path);
    return entry.name.endsWith('.md') ? [path] : [];
  });
}

export function readDocument(path: string) {
  const text = readFileSync(join(ROOT, path), 'utf8');

  /** The text of a section (`## title`), up to the next one. */
  function section(title: string): string {
    const start = text.indexOf(`\n## ${title}\n`);
    if (start === -1) throw new Error(`${path} has no section "${title}"`);
    const end = text.indexOf('\n## ', start + 1);
    return text.slice(start, end === -1 ? undefined : end);
  }

  /** The code blocks of a kind in a section. */
  const codeBlocks = (title: string, language: string) =>
    [...section(title).matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm)]
      .filter(([, , named]) => named === language)
      .map(([, , , block = '']) => block);

  return {
    text,
    section,
    codeBlocks,
    /** The first code block of its kind in a section, unless another is asked for. */
    codeBlock(title: string, language: string, index = 0) {
      const block = codeBlocks(title, language)[index];
      if (block === undefined) throw new Error(`section "${title}" of ${path} has no \`\`\`${language} block ${index}`);
      return block;
    },
    /** The cells of a section's first table, without its head. */
    table: (title: string): string[][] =>
      (/(?:^\|.*\n?)+/m.exec(section(title))?.[0] ?? '')
        .trim()
        .split('\n')
        .slice(2)
        .map((line) =>
          line
            .slice(1, -1)
            .split('|')
            .map((cell) => cell.trim()),
        ),
  };
}

/** A file that the documents have their readers copy to `tools/`. */
export const exampleTool = (name: string): string => readFileSync(join(ROOT, 'tests/recipes/tools', name), 'utf8');

/** A cell without its code marks. */
export const unquoted = (cell = '') => cell.replaceAll('`', '');

/** The files that a document tells its reader to write: they are not there yet. */
export const filesToWrite = (text: string): string[] =>
  [...text.matchAll(/\bWrite (?:this one|it) to\s+`((?:src|tools)\/[\w./-]+)`/g)].map(([, file = '']) => file);
