// Copies of the database: backups and their way back, which commands make (src/start/README.md, Backups), and replicas of a
// remote database near its servers, with DATABASE_REPLICA_FILE (src/store/README.md). A door: loaded by these commands and
// with that variable, and the server works without it.

export { backUp } from './backup.ts';
export { type Backup, withBackup } from './backup-file.ts';
export { compare } from './compare.ts';
export { type FileAlone, holdAlone, isHeld } from './exclusive-file.ts';
export { createReplica } from './replica.ts';
export { DatabaseInUse, hasKeys, isNew, restoreFile, restoreRemote } from './restore.ts';
