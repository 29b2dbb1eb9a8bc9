// Loaded before a server: its wall clock is DAYS_AGO days behind.

const now = Date.now;
const behindMs = Number(process.env.DAYS_AGO) * 86_400_000;
Date.now = () => now() - behindMs;
