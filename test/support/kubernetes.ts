import { createRequire } from "node:module";
import path from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import type { IJob } from "kubernetes-models/batch/v1/Job";
import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import type { IPodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { IConfigMap } from "kubernetes-models/v1/ConfigMap";
import type { INamespace } from "kubernetes-models/v1/Namespace";
import type { ISecret } from "kubernetes-models/v1/Secret";
import type { IService } from "kubernetes-models/v1/Service";
import type { IScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import type { ITriggerAuthentication } from "@kubernetes-models/keda/keda.sh/v1alpha1/TriggerAuthentication";
import ts from "typescript";

// What Kubernetes has against a manifest, by its own OpenAPI schemas: compiled to validators, and to types.

const ROOT = path.resolve(import.meta.dirname, "../..");
const require = createRequire(import.meta.url);

export type Workload = IDeployment | IJob;

/** The resources that we have. */
export type Resource =
  | Workload
  | INetworkPolicy
  | IPodDisruptionBudget
  | IConfigMap
  | INamespace
  | ISecret
  | IService
  | IScaledObject
  | ITriggerAuthentication;

interface Validated {
  validate(): void;
}

/** Who has the schemas of a version. */
const modelsOf = (apiVersion: string): string =>
  apiVersion.startsWith("keda.sh/") ? "@kubernetes-models/keda" : "kubernetes-models";

/** For messages. */
export const titleOf = ({ kind, metadata }: Resource): string => `${kind} ${metadata?.name}`;

/** Wrong types and formats, and what is missing; a kind or version that does not exist. */
export function schemaProblems(resource: Resource): string[] {
  const { apiVersion, kind } = resource;
  let Model: new (data: Resource) => Validated;
  try {
    const models = require(`${modelsOf(apiVersion)}/${apiVersion}/${kind}`) as Record<
      string,
      typeof Model
    >;
    Model = models[kind]!;
  } catch {
    return [`${titleOf(resource)}: Kubernetes knows no ${kind} of ${apiVersion}`];
  }
  try {
    new Model(resource).validate();
    return [];
  } catch (error) {
    return [`${titleOf(resource)}: ${(error as Error).message}`];
  }
}

/** Declarations that were read before. */
const PARSED = new Map<string, ts.SourceFile | undefined>();

/** Fields that Kubernetes does not know, which the schemas let pass: a resource is type-checked as a literal. */
export function typeProblems(resources: readonly Resource[]): string[] {
  const files = new Map(
    resources.map((resource, n) => [path.join(ROOT, `resource-${n}.ts`), sourceOf(resource)]),
  );
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    lib: ["lib.es2023.d.ts"],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const disk = { ...host };
  host.fileExists = (file) => files.has(file) || disk.fileExists(file);
  host.readFile = (file) => files.get(file) ?? disk.readFile(file);
  host.getSourceFile = (file, version, ...rest) => {
    const text = files.get(file);
    if (text !== undefined) return ts.createSourceFile(file, text, version);
    if (!PARSED.has(file)) PARSED.set(file, disk.getSourceFile(file, version, ...rest));
    return PARSED.get(file);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  const titles = new Map([...files.keys()].map((file, n) => [file, titleOf(resources[n]!)]));
  return ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ messageText, file }) =>
        `${titles.get(file?.fileName ?? "") ?? file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
    );
}

const sourceOf = (resource: Resource): string =>
  `import type { I${resource.kind} } from "${modelsOf(resource.apiVersion)}/${resource.apiVersion}/${resource.kind}";\n` +
  `export const resource: I${resource.kind} = ${JSON.stringify(resource, undefined, 2)};\n`;
