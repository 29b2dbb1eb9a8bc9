// Checks the version of Bun before packages are installed: one that is too old fails over the lock file, or later, with
// no helpful message.

import manifest from '../../package.json';

const needed = manifest.packageManager.replace('bun@', '');
const found = process.versions.bun;
if (needed.localeCompare(found, 'en', { numeric: true }) > 0) {
  process.stderr.write(`${manifest.name}: expected Bun ${needed} or newer, but this is ${found}. With Node.js:
  npx -y bun@${needed} run ${process.env.npm_lifecycle_event || 'start'}
Without, install that version:
  curl -fsSL https://bun.sh/install | bash -s bun-v${needed}
`);
  process.exit(1);
}
