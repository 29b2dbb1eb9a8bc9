// Clients that send a request and never read what comes, with a receive window of a few KB and segments as small as on
// Ethernet: so that what they leave unread waits in the server, and not in the kernel's buffers, which take megabytes on
// loopback. Sockets by system call, because no runtime's API sets SO_RCVBUF or TCP_MAXSEG.

import { dlopen, FFIType, ptr } from 'bun:ffi';

const AF_INET = 2;
const SOCK_STREAM = 1;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const WINDOW_BYTES = 2048;
const IPPROTO_TCP = 6;
const TCP_MAXSEG = 2;
/** The server's kernel sizes its send buffer by segments, and those of loopback have 64 KB. */
const SEGMENT_BYTES = 1460;

const { i32, ptr: pointer, u64, i64 } = FFIType;
const libc = dlopen('libc.so.6', {
  socket: { args: [i32, i32, i32], returns: i32 },
  setsockopt: { args: [i32, i32, i32, pointer, i32], returns: i32 },
  connect: { args: [i32, pointer, i32], returns: i32 },
  send: { args: [i32, pointer, u64, i32], returns: i64 },
  recv: { args: [i32, pointer, u64, i32], returns: i64 },
  close: { args: [i32], returns: i32 },
}).symbols;

export type DeafClient = ReturnType<typeof deafClient>;

/** Connects to the server at `url` (an IPv4 literal), sends `request` as it is, and reads nothing. Linux only. */
export function deafClient(url: string, request: string) {
  const { hostname, port } = new URL(url);
  const fd = libc.socket(AF_INET, SOCK_STREAM, 0);
  libc.setsockopt(fd, SOL_SOCKET, SO_RCVBUF, ptr(new Int32Array([WINDOW_BYTES])), 4);
  libc.setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, ptr(new Int32Array([SEGMENT_BYTES])), 4);
  const address = new Uint8Array(16);
  const view = new DataView(address.buffer);
  view.setUint16(0, AF_INET, true);
  view.setUint16(2, Number(port));
  address.set(hostname.split('.').map(Number), 4);
  if (libc.connect(fd, ptr(address), address.length) !== 0) throw new Error(`no connection to ${url}`);
  const bytes = new TextEncoder().encode(request);
  libc.send(fd, ptr(bytes), bytes.length, 0);
  return {
    /** Reads up to so many bytes, as latin1; waits until there is something. Empty when the server has closed. */
    read(count: number) {
      const buffer = new Uint8Array(count);
      const got = Number(libc.recv(fd, ptr(buffer), count, 0));
      return Buffer.from(buffer.subarray(0, Math.max(0, got))).toString('latin1');
    },
    [Symbol.dispose]: () => void libc.close(fd),
  };
}
