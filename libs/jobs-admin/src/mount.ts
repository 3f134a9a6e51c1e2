import { type HttpServer, VersioningType } from "@nestjs/common";
import type { ApplicationConfig, HttpAdapterHost } from "@nestjs/core";

/** Where the module is mounted, as it was told. */
export const ADMIN_PATH = "nestjs-pg-jobs-admin:path";

const literal = (text: string) => text.replaceAll(/[^\w-]/g, String.raw`\$&`);

/** The pattern of a path; with parameters as Nest writes them, when it has some. */
export const patternOf = (path: string, parameters = false): string =>
  path
    .split("/")
    .filter(Boolean)
    .map((part) => `/${parameters && part.startsWith(":") ? "[^/]+" : literal(part)}`)
    .join("");

/** The pattern of the mount, below prefix and version, which may be set after the modules are made. */
export function mountPattern(config: ApplicationConfig, path: string): string {
  const version = config.getVersioning()?.type === VersioningType.URI ? "(?:/[^/]+)?" : "";
  return `(?:${patternOf(config.getGlobalPrefix())})?${version}${patternOf(path)}`;
}

interface Routing {
  addHook(name: "onRoute", hook: (route: { method: unknown; url: string }) => void): void;
  route(route: object): void;
}

/** To Fastify a slash at the end makes another path; whoever follows the document asks for the root with one. */
export function serveSlash(
  { httpAdapter }: HttpAdapterHost,
  config: ApplicationConfig,
  path: string,
): void {
  if (httpAdapter?.getType() !== "fastify") return;
  // HttpServer declares what the class of adapters leaves to each of them.
  if ((httpAdapter as HttpServer).getRouteMatchingOptions?.().ignoreTrailingSlash) return;
  const fastify = httpAdapter.getInstance<Routing>();
  fastify.addHook("onRoute", (route) => {
    if (route.method !== "GET" || !new RegExp(`^${mountPattern(config, path)}$`).test(route.url))
      return;
    fastify.route({ ...route, url: `${route.url}/` });
  });
}
