import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { once } from "node:events";

/**
 * `pass`: bytes go through. `blackhole`: connections stay open and new ones are accepted, but no byte
 * arrives on either side, as behind a dead network. `reset`: connections end with RST, old and new.
 */
export type ProxyMode = "pass" | "blackhole" | "reset";

/** Stands in front of a server, on loopback, and breaks the connection on demand. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private readonly links = new Set<Link>();
  private current: ProxyMode = "pass";

  private constructor(
    private readonly server: Server,
    private readonly target: { host: string; port: number },
  ) {
    server.on("connection", (client) => this.accept(client));
  }

  /** `target` is a database URL, or where to connect to. */
  static async start(target: string | { host: string; port: number }): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server, typeof target === "string" ? addressOf(target) : target);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get mode(): ProxyMode {
    return this.current;
  }

  /** The same database, through this proxy. */
  url(databaseUrl: string): string {
    const url = new URL(databaseUrl);
    url.hostname = "127.0.0.1";
    url.port = String(this.port);
    return url.href;
  }

  /** From `blackhole` back to `pass`, what was held up in between arrives. */
  setMode(mode: ProxyMode): void {
    this.current = mode;
    if (mode === "reset") this.resetAll();
    for (const link of this.links) link.update(mode);
  }

  /** Ends all present connections with RST; the mode stays. */
  resetAll(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  async close(): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private accept(client: Socket): void {
    if (this.current === "reset") {
      client.on("error", () => {});
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(this.target);
    const link = new Link(client, upstream);
    this.links.add(link);
    for (const socket of [client, upstream]) {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.sockets.delete(socket);
        this.links.delete(link);
      });
    }
    link.update(this.current);
  }
}

/** Two sockets that pass their bytes, and their ends, on to each other. */
class Link {
  private mode: ProxyMode = "pass";

  constructor(
    private readonly client: Socket,
    private readonly upstream: Socket,
  ) {
    this.forward(client, upstream);
    this.forward(upstream, client);
  }

  update(mode: ProxyMode): void {
    this.mode = mode;
    for (const socket of [this.client, this.upstream]) {
      if (mode === "blackhole") socket.pause();
      else socket.resume();
    }
  }

  private forward(from: Socket, to: Socket): void {
    from.on("data", (chunk) => {
      if (to.writable && !to.write(chunk)) from.pause();
    });
    to.on("drain", () => {
      if (this.mode === "pass") from.resume();
    });
    from.on("end", () => to.end());
    from.on("error", () => to.resetAndDestroy());
    from.on("close", () => to.destroySoon());
  }
}

function addressOf(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl);
  return { host: hostname, port: Number(port || 5432) };
}
