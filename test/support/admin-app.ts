import { Module, type INestApplication } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { type JobsOptions, JobQueue } from "nestjs-pg-jobs";
import { JobsAdminModule, type JobsAdminOptions } from "nestjs-pg-jobs-admin";
import type { Bench } from "./harness.js";
import { AdminContract } from "./admin-contract.js";

/** What the API is served on. */
export const ADAPTERS = ["express", "fastify"] as const;
export type Adapter = (typeof ADAPTERS)[number];

export const TOKENS = {
  viewer: "a-token-for-viewers",
  operator: "a-token-for-operators",
  admin: "a-token-for-admins",
} as const;

/** An answer of the API with its body read. */
export interface AdminAnswer {
  status: number;
  headers: Headers;
  /** JSON of any shape. */
  body: Record<string, unknown>;
}

/** The app that it is mounted in. */
export interface Surroundings {
  jobs?: Partial<JobsOptions>;
  /** What is said of the app before it begins. */
  before?: (app: INestApplication) => void;
  /** Where the API is then; default `/admin`. */
  prefix?: string;
}

export interface Call {
  /** Whose token is sent; absent: the admin's; null: none. */
  as?: keyof typeof TOKENS | null;
  /** A string is sent as it is, everything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** The API in an app of its own, on loopback. Whatever it answers is held against its document. */
export class AdminApp {
  readonly jobs: JobQueue;
  readonly #contract = new AdminContract();

  private constructor(
    readonly app: INestApplication,
    readonly url: string,
    /** Before the routes of the API. */
    readonly prefix: string,
  ) {
    this.jobs = app.get(JobQueue);
  }

  static async open(
    bench: Bench,
    adapter: Adapter = "express",
    options: Partial<JobsAdminOptions> = { tokens: TOKENS },
    { jobs = {}, before = () => {}, prefix = "/admin" }: Surroundings = {},
  ): Promise<AdminApp> {
    @Module({ imports: [bench.root(jobs), JobsAdminModule.forRoot(options)] })
    class App {}
    const quiet = { logger: false, abortOnError: false } as const;
    const app =
      adapter === "fastify"
        ? await NestFactory.create(App, new FastifyAdapter(), quiet)
        : await NestFactory.create(App, quiet);
    before(app);
    await app.listen(0, "127.0.0.1");
    return new AdminApp(app, await app.getUrl(), prefix);
  }

  async get(path: string, call: Call = {}): Promise<AdminAnswer> {
    return await this.call("get", path, call);
  }

  async post(path: string, call: Call = {}): Promise<AdminAnswer> {
    return await this.call("post", path, call);
  }

  /** `path` is below the mount: `jobs/1-1?limit=1`. */
  async delete(path: string, call: Call = {}): Promise<AdminAnswer> {
    return await this.call("delete", path, call);
  }

  async call(
    method: string,
    path: string,
    { as = "admin", body, headers = {} }: Call = {},
  ): Promise<AdminAnswer> {
    const response = await fetch(
      `${this.url}${this.prefix}${/^\/?$/.test(path) ? path : `/${path}`}`,
      {
        method: method.toUpperCase(),
        headers: {
          ...(as === null ? {} : { authorization: `Bearer ${TOKENS[as]}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        body: typeof body === "string" || body === undefined ? body : JSON.stringify(body),
        signal: AbortSignal.timeout(15_000),
      },
    );
    const streams = response.headers.get("content-type") === "text/event-stream";
    const answer = {
      status: response.status,
      headers: response.headers,
      body: streams ? await firstOf(response) : ((await response.json()) as AdminAnswer["body"]),
    };
    this.#contract.check(method, path.split("?")[0]!, answer);
    return answer;
  }

  async close(): Promise<void> {
    await this.app.close();
  }
}

/** What the first event of a stream has; then it is left. */
async function firstOf(response: Response): Promise<AdminAnswer["body"]> {
  for await (const { data } of eventsOf(response)) return data;
  return {};
}

/** An event of a stream of the API. */
export interface AdminEvent {
  type: string;
  id: string;
  data: Record<string, unknown>;
}

/** The events of a stream, comments left out; leaving it ends it. */
export async function* eventsOf(response: Response): AsyncGenerator<AdminEvent, void, undefined> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const blocks = (text + decoder.decode(chunk, { stream: true })).split("\n\n");
    text = blocks.pop()!;
    for (const block of blocks) {
      const lines = block.split("\n").map((line) => line.split(/: (.*)/s));
      const of = (name: string) => lines.find(([field]) => field === name)?.[1] ?? "";
      const data = of("data");
      if (data !== "")
        yield { type: of("event"), id: of("id"), data: JSON.parse(data) as AdminEvent["data"] };
    }
  }
}

/** What an answer says, for what it should say. */
export const said = ({ status, body }: AdminAnswer): [number, unknown] => [status, body.code];
