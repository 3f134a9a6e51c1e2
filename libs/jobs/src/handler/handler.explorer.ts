import { Injectable } from "@nestjs/common";
import { DiscoveryService, MetadataScanner, ModulesContainer } from "@nestjs/core";
import { OptionsError } from "../job/errors.js";
import { resolve } from "../job/definition.js";
import { type ParsedDefaults, resolvePolicy } from "../job/defaults.js";
import { parseHandlerOptions, parseScheduledOptions } from "../job/handler-options.js";
import { eitherLimits } from "../job/limit.js";
import { parseSubscriber } from "../job/subscriber.js";
import type { Handler } from "./handler.js";
import { HandlerPipelines, PipelineError } from "./handler-pipelines.js";
import { type HandlerMetadata, JOB_HANDLER } from "./job-handler.decorator.js";

type Wrapper = ReturnType<DiscoveryService["getProviders"]>[number];
type NestModule = NonNullable<Wrapper["host"]>;

/** A method with our mark. */
interface Found {
  wrapper: Wrapper;
  prototype: object;
  method: string | symbol;
  name: string;
  metadata: HandlerMetadata;
  told: Told;
}

/** What holds for all handlers of a worker. */
export interface Told {
  readonly defaults: ParsedDefaults;
  /** Whether guards and interceptors of the whole app run around them. */
  readonly globals: boolean;
  readonly service: string;
}

/** The handlers that were found, and what is wrong with them, one sentence a problem. */
export interface Exploration {
  readonly handlers: readonly Handler[];
  readonly problems: readonly string[];
}

/** Finds the methods with `@JobHandler()`. */
@Injectable()
export class HandlerExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly modules: ModulesContainer,
    private readonly pipelines: HandlerPipelines,
  ) {}

  /**
   * The handlers in `root` and what it imports.
   * @param workers the module classes whose imports may have handlers; one that none of them imports is a problem,
   * because its module, and what it needs, would be destroyed before the worker has drained.
   */
  explore(root: object, workers: readonly object[], told: Told): Exploration {
    const problems: string[] = [];
    const mine = this.#reachable((module) => module.instance === root);
    const anybodys = this.#reachable((module) => workers.includes(module.metatype));
    const handlers = new Map<string, Handler>();
    for (const wrapper of [...this.discovery.getProviders(), ...this.discovery.getControllers()]) {
      const prototype = prototypeOf(wrapper);
      if (!prototype) continue;
      problems.push(...this.#misplaced(prototype));
      for (const [method, metadata] of this.#marked(prototype)) {
        const name = `${className(prototype)}.${String(method)}`;
        if (!wrapper.host || !anybodys.has(wrapper.host)) {
          problems.push(
            `${name}: its module ${wrapper.host?.name ?? "?"} is not imported by the worker; add it to forWorker({ imports: [${wrapper.host?.name ?? "…"}] })`,
          );
        } else if (mine.has(wrapper.host)) {
          this.#add(handlers, problems, {
            wrapper,
            prototype,
            method,
            name,
            metadata,
            told,
          });
        }
      }
    }
    return { handlers: [...handlers.values()], problems };
  }

  #add(handlers: Map<string, Handler>, problems: string[], found: Found): void {
    const { wrapper, prototype, method, name, metadata, told } = found;
    if (metadata.again)
      problems.push(
        `${name}: expected one of @JobHandler, @ScheduledJob and @OnEvent, found several; give each a method of its own`,
      );
    try {
      const { definition, own, schedule, subscription } = optionsOf(metadata, name, told.service);
      const other = handlers.get(definition.kind);
      if (other)
        problems.push(
          `${name}: "${definition.kind}" has a handler already, ${other.name}; a kind has one`,
        );
      handlers.set(definition.kind, {
        definition,
        concurrency: own.concurrency,
        limits: eitherLimits(definition.limits, own.limits),
        batch: own.batch,
        schedule,
        subscription,
        policy: resolvePolicy(definition, own, told.defaults),
        run: this.pipelines.of(wrapper, prototype, method, told.globals),
        name,
      });
    } catch (error) {
      if (error instanceof PipelineError) return void problems.push(`${name}: ${error.message}`);
      if (!(error instanceof OptionsError)) throw error;
      problems.push(...error.problems.map((problem) => `${name}: ${problem}`));
    }
  }

  /** Methods with our mark, inherited ones too. Getters are never touched. */
  #marked(prototype: object): [string | symbol, HandlerMetadata][] {
    const names = [...this.scanner.getAllMethodNames(prototype), ...symbolMethods(prototype)];
    return names.flatMap((method) => {
      const metadata = markOf((prototype as Record<string | symbol, object>)[method]!);
      return metadata ? [[method, metadata] as [string | symbol, HandlerMetadata]] : [];
    });
  }

  /** A mark that nobody would ever look at. */
  #misplaced(prototype: object): string[] {
    const owner = (prototype as Record<string, unknown>).constructor;
    if (typeof owner !== "function" || owner === Object || owner === Function) return [];
    return Object.entries(Object.getOwnPropertyDescriptors(owner))
      .filter(([, { value }]) => typeof value === "function" && markOf(value as object))
      .map(
        ([method]) =>
          `${className(prototype)}.${method}: a static method cannot handle jobs; make it a method of the provider`,
      );
  }

  /** The modules that satisfy `isRoot`, and all that they import, at any depth. */
  #reachable(isRoot: (module: NestModule) => boolean): Set<NestModule> {
    const found = new Set<NestModule>([...this.modules.values()].filter(isRoot));
    for (const module of found) for (const imported of module.imports) found.add(imported);
    return found;
  }
}

function optionsOf(metadata: HandlerMetadata, name: string, service: string) {
  const { options } = metadata;
  if ("event" in metadata)
    return {
      ...parseSubscriber(metadata.event, options, { service, method: name }),
      schedule: null,
    };
  const definition = resolve(metadata.definition);
  const parsed = metadata.scheduled
    ? parseScheduledOptions(options, `@ScheduledJob on ${name}`)
    : { own: parseHandlerOptions(options, `@JobHandler on ${name}`), schedule: null };
  return { definition, ...parsed, subscription: null };
}

/** The class of what is provided; none for what is not there yet, and for an alias: it is the same provider again. */
function prototypeOf(wrapper: Wrapper): object | undefined {
  if (wrapper.isAlias) return undefined;
  // The metatype of a factory is the factory.
  if (!wrapper.isNotMetatype) return (wrapper.metatype as { prototype?: object }).prototype;
  const { instance } = wrapper as { instance: unknown };
  return typeof instance === "object" && instance !== null
    ? (Object.getPrototypeOf(instance) as object | undefined)
    : undefined;
}

/** Nest's scanner knows names only. */
function symbolMethods(prototype: object): symbol[] {
  const found = new Map<symbol, PropertyDescriptor>();
  for (
    let at: object | null = prototype;
    at && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    for (const symbol of Object.getOwnPropertySymbols(at))
      if (!found.has(symbol)) found.set(symbol, Object.getOwnPropertyDescriptor(at, symbol)!);
  }
  return [...found].flatMap(([symbol, { value }]) => (typeof value === "function" ? [symbol] : []));
}

const markOf = (method: object): HandlerMetadata | undefined =>
  Reflect.getMetadata(JOB_HANDLER, method) as HandlerMetadata | undefined;

const className = (prototype: object): string => prototype.constructor?.name || "(anonymous)";
