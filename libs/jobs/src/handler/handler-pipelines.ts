import { Injectable } from "@nestjs/common";
import {
  ApplicationConfig,
  type ContextId,
  ContextIdFactory,
  type DiscoveryService,
  ExternalContextCreator,
  ModuleRef,
  ModulesContainer,
  type NestContainer,
} from "@nestjs/core";
import type { Handler } from "./handler.js";
import { filtered, filtersOf } from "./handler-filters.js";
import { PARAMS, completeParams, hasParams, paramsFactory } from "./handler-params.js";
import type { JobContext } from "./job-context.js";
import { JOB_CONTEXT_TYPE } from "./job-host.js";
import { leftOut } from "./left-out.js";
import { isIntercepted, keepVerdicts, verdictStands } from "./returned-verdicts.js";

type Wrapper = ReturnType<DiscoveryService["getProviders"]>[number];
type Instance = Record<string | symbol, (payload: unknown, job: unknown) => unknown>;

/** What Nest is asked to run around a method. */
const ENHANCERS = ["__guards__", "__interceptors__", "__pipes__", "__exceptionFilters__"];

const WHAT = "guards, interceptors, pipes, filters and decorated parameters need";

/** A provider that cannot have what its handler asks for. */
export class PipelineError extends Error {}

/**
 * What stands between a claim and a method. Nothing, for most of them: a method without enhancers of a provider that
 * lives as long as the app is called as it is. The others are put together by Nest, once if they can be.
 */
@Injectable()
export class HandlerPipelines {
  /** By whether the enhancers of the whole app take part. */
  readonly #creators = new Map<boolean, ExternalContextCreator>();

  constructor(
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
  ) {}

  /** @throws PipelineError */
  of(
    wrapper: Wrapper,
    prototype: object,
    method: string | symbol,
    globals: boolean,
  ): Handler["run"] {
    const scoped = wrapper.isTransient || !wrapper.isDependencyTreeStatic();
    const owner = prototype.constructor;
    const body = (prototype as Instance)[method]!;
    const own =
      hasParams(owner, method) ||
      ENHANCERS.some((key) => Reflect.hasMetadata(key, body) || Reflect.hasMetadata(key, owner));
    const enhanced = own || globals;
    if (enhanced && typeof method === "symbol")
      throw new PipelineError(`${WHAT} a named method, found a symbol`);
    // Nest would leave them out without a word.
    if (own && wrapper.isNotMetatype)
      throw new PipelineError(
        `${WHAT} a provider that Nest makes from its class, found a factory or value`,
      );
    const missing = leftOut(wrapper, owner, method, body);
    if (missing.length > 0) throw new PipelineError(missing.join("; "));
    if (!scoped) {
      const instance = wrapper.instance as Instance;
      if (!enhanced) return (payload, job) => instance[method]!(payload, job);
      return this.#around(wrapper, owner, instance, method as string, globals);
    }
    const module = moduleRefOf(wrapper);
    return async (payload, job) => {
      const contextId = ContextIdFactory.getByRequest(job);
      // What a durable provider sees is not this job: it outlives it.
      const request: unknown = wrapper.isDependencyTreeDurable()
        ? (contextId as { payload?: unknown }).payload
        : job;
      module.registerRequestByContextId(request, contextId);
      const instance = await module.resolve<Instance>(wrapper.token, contextId, { strict: true });
      if (!enhanced) return instance[method]!(payload, job);
      return await this.#around(
        wrapper,
        owner,
        instance,
        method as string,
        globals,
        contextId,
      )(payload, job);
    };
  }

  #around(
    wrapper: Wrapper,
    owner: object,
    instance: Instance,
    method: string,
    globals: boolean,
    contextId?: ContextId,
  ): Handler["run"] {
    completeParams(owner, method);
    const body = instance[method]!;
    const made = this.#creator(globals).create(
      instance,
      body,
      method,
      PARAMS,
      paramsFactory,
      contextId,
      wrapper.id,
      { guards: true, interceptors: true, filters: false },
      JOB_CONTEXT_TYPE,
    ) as (payload: unknown, job: JobContext) => Promise<unknown>;
    const run = globals || isIntercepted(owner, body) ? verdictStands(made) : made;
    const filters = filtersOf(owner, body);
    if (filters.length === 0) return run;
    const module = moduleRefOf(wrapper);
    return async (payload, job) => {
      try {
        return await run(payload, job);
      } catch (error) {
        throw await filtered(filters, module, contextId, error, [payload, job]);
      }
    };
  }

  /** Nest's own would run what the app has for its requests: their guards ask for headers, their pipes rewrite. */
  #creator(globals: boolean): ExternalContextCreator {
    let creator = this.#creators.get(globals);
    if (!creator) {
      const container = {
        applicationConfig: globals
          ? new GuardsAndInterceptors(this.config)
          : new ApplicationConfig(),
        getModules: () => this.modules,
      };
      creator = keepVerdicts(
        ExternalContextCreator.fromContainer(container as unknown as NestContainer),
      );
      this.#creators.set(globals, creator);
    }
    return creator;
  }
}

/** Of what holds for the whole app: pipes would rewrite payloads, filters would answer requests. */
class GuardsAndInterceptors extends ApplicationConfig {
  constructor(app: ApplicationConfig) {
    super();
    if (app.getGlobalRequestGuards().length + app.getGlobalRequestInterceptors().length > 0)
      throw new PipelineError(
        "globalEnhancers: expected global guards and interceptors that live as long as the app, found request-scoped ones; use @UseGuards and @UseInterceptors on the handlers",
      );
    this.useGlobalGuards(...app.getGlobalGuards());
    this.useGlobalInterceptors(...app.getGlobalInterceptors());
  }
}

/** Resolves what the handler's own module sees. */
function moduleRefOf({ host, token }: Wrapper): ModuleRef {
  const found: unknown = host?.providers.get(ModuleRef)?.instance;
  if (!(found instanceof ModuleRef)) throw new PipelineError(`no module has ${String(token)}`);
  return found;
}
