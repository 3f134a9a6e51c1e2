import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { once } from "node:events";

/**
 * `pass`: bytes go through. `mute`: requests reach the server, its answers are held up. `deaf`: requests are
 * held up, answers pass. `blackhole`: connections stay open and new ones are accepted, but no byte
 * arrives on either side, as behind a dead network. `reset`: connections end with RST, old and new.
 */
export type ProxyMode = "pass" | "mute" | "deaf" | "blackhole" | "reset";

/** Stands in front of a server, on loopback, and breaks the connection on demand. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private readonly links = new Set<Link>();
  private current: ProxyMode = "pass";
  private trigger: { texts: readonly string[]; mode: ProxyMode } | undefined;

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

  get connections(): number {
    return this.links.size;
  }

  /** By these `client_port`s `pg_stat_activity` knows what comes through here. */
  get ports(): number[] {
    return [...this.links].flatMap((link) => link.port ?? []);
  }

  /** Bytes that are held up: a request under way in `deaf`, an answer in `mute`. */
  get held(): number {
    let bytes = 0;
    for (const link of this.links) bytes += link.held;
    return bytes;
  }

  /** Whether something with this text is held up. */
  holds(text: string): boolean {
    return [...this.links].some((link) => link.keeps(text));
  }

  /** The same database, through this proxy. */
  url(databaseUrl: string): string {
    const url = new URL(databaseUrl);
    url.hostname = "127.0.0.1";
    url.port = String(this.port);
    return url.href;
  }

  /** From `blackhole`, `mute` or `deaf` back to `pass`, what was held up in between arrives. */
  setMode(mode: ProxyMode): void {
    this.current = mode;
    if (mode === "reset") this.resetAll();
    for (const link of this.links) link.update(mode);
  }

  /** The request with one of these texts still arrives, its answer does not. */
  muteFrom(...texts: string[]): void {
    this.trigger = { texts, mode: "mute" };
  }

  /** The request with one of these texts does not arrive. */
  deafFrom(...texts: string[]): void {
    this.trigger = { texts, mode: "deaf" };
  }

  /** Ends all present connections with RST; the mode stays. */
  resetAll(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  /** Ends the clients' side with RST; what is held up arrives at the server when `deliver` is called. */
  orphanAll(): { deliver(): void } {
    const links = [...this.links];
    for (const link of links) link.orphan();
    return {
      deliver: () => {
        for (const link of links) link.deliver();
      },
    };
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
    const link = new Link(client, upstream, (chunk) => {
      if (!this.trigger?.texts.some((text) => chunk.includes(text))) return;
      const { mode } = this.trigger;
      this.trigger = undefined;
      this.setMode(mode);
    });
    this.links.add(link);
    for (const socket of [client, upstream]) {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.once("close", () => this.sockets.delete(socket));
    }
    upstream.once("close", () => this.links.delete(link));
    link.update(this.current);
  }
}

/** Two sockets that pass their bytes, and their ends, on to each other. */
class Link {
  private mode: ProxyMode = "pass";
  private readonly kept: { to: Socket; chunk: Buffer }[] = [];
  private orphaned = false;

  constructor(
    private readonly client: Socket,
    private readonly upstream: Socket,
    onRequest: (chunk: Buffer) => void,
  ) {
    client.on("data", onRequest);
    this.forward(client, upstream);
    this.forward(upstream, client);
  }

  get held(): number {
    return this.kept.reduce((sum, { chunk }) => sum + chunk.length, 0);
  }

  keeps(text: string): boolean {
    return this.kept.some(({ chunk }) => chunk.includes(text));
  }

  get port(): number | undefined {
    return this.upstream.localPort;
  }

  update(mode: ProxyMode): void {
    if (this.orphaned) return;
    this.mode = mode;
    for (const socket of [this.client, this.upstream]) {
      if (mode === "blackhole") socket.pause();
      else socket.resume();
    }
    this.flush();
  }

  /** The client is gone; what it has sent is still on its way. */
  orphan(): void {
    this.orphaned = true;
    this.client.resetAndDestroy();
  }

  deliver(): void {
    this.mode = "pass";
    this.flush();
    this.upstream.end();
  }

  private flush(): void {
    for (const one of this.kept.splice(0)) {
      if (this.holds(one.to === this.upstream ? this.client : this.upstream)) this.kept.push(one);
      else one.to.write(one.chunk);
    }
  }

  private holds(from: Socket): boolean {
    return this.mode === (from === this.client ? "deaf" : "mute");
  }

  private forward(from: Socket, to: Socket): void {
    from.on("data", (chunk: Buffer) => {
      if (this.holds(from)) this.kept.push({ to, chunk });
      else if (to.writable && !to.write(chunk)) from.pause();
    });
    to.on("drain", () => {
      if (this.mode !== "blackhole") from.resume();
    });
    from.on("end", () => this.orphaned || to.end());
    from.on("error", () => this.orphaned || to.resetAndDestroy());
    from.on("close", () => this.orphaned || to.destroySoon());
  }
}

function addressOf(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl);
  return { host: hostname, port: Number(port || 5432) };
}
