// Loaded before a server: it then takes this machine for one that is not Linux.

Object.defineProperty(process, 'platform', { value: 'darwin' });
