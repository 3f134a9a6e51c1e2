import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import type { IContainer } from "kubernetes-models/v1/Container";
import type { AppName } from "./environment.js";
import type { Resource, Workload } from "./kubernetes.js";
import { valuesOf } from "./kustomization.js";

// What is asked of resources: whose pods they are, and what these get.

export type Labels = Record<string, string>;

export const isWorkload = (resource: Resource): resource is Workload =>
  resource.kind === "Deployment" || resource.kind === "Job";
export const workloadsOf = (resources: readonly Resource[]) => resources.filter(isWorkload);
export const podOf = (workload: Workload) => workload.spec!.template.spec!;
export const containerOf = (workload: Workload): IContainer => {
  const { containers } = podOf(workload);
  if (containers.length !== 1)
    throw new Error(`expected one container, found ${containers.length}`);
  return containers[0]!;
};
/** api, worker, admin or migrate. */
export const nameOf = (workload: Workload): string => containerOf(workload).name;
export const deployed = (resources: readonly Resource[], app: AppName): IDeployment => {
  const found = resources.find(
    (one): one is IDeployment => one.kind === "Deployment" && nameOf(one) === app,
  );
  if (!found) throw new Error(`no deployment of ${app}`);
  return found;
};
export const probesOf = ({ startupProbe, livenessProbe, readinessProbe }: IContainer) => ({
  startup: startupProbe!,
  liveness: livenessProbe!,
  readiness: readinessProbe!,
});
export const bytes = (quantity: string | number): number => {
  const [, mebibytes] = /^(\d+)Mi$/.exec(String(quantity)) ?? [];
  if (mebibytes === undefined) throw new Error(`expected Mi, found ${quantity}`);
  return Number(mebibytes) * 1024 * 1024;
};

/** The values of a ConfigMap or Secret that a workload names. */
function sourceOf(resources: readonly Resource[], kind: "ConfigMap" | "Secret", name: string) {
  const found = resources.find((one) => one.kind === kind && one.metadata!.name === name);
  if (!found) throw new Error(`no ${kind} ${name}`);
  return valuesOf(found);
}

/** The environment that a container gets. */
export function environmentOf(resources: readonly Resource[], container: IContainer): Labels {
  const all = (container.envFrom ?? []).flatMap(({ configMapRef, secretRef }) => [
    ...(configMapRef ? [sourceOf(resources, "ConfigMap", configMapRef.name!)] : []),
    ...(secretRef ? [sourceOf(resources, "Secret", secretRef.name!)] : []),
  ]);
  const singly = (container.env ?? []).map(({ name, value, valueFrom }) => {
    const { configMapKeyRef, secretKeyRef } = valueFrom ?? {};
    const from = configMapKeyRef
      ? sourceOf(resources, "ConfigMap", configMapKeyRef.name!)[configMapKeyRef.key]
      : secretKeyRef && sourceOf(resources, "Secret", secretKeyRef.name!)[secretKeyRef.key];
    const found = value ?? from;
    if (found === undefined) throw new Error(`nothing says what ${name} is`);
    return { [name]: found };
  });
  return Object.assign({}, ...all, ...singly) as Labels;
}

export const policyOf = (resources: readonly Resource[], name: string) => {
  const found = resources.find(
    (one): one is INetworkPolicy => one.kind === "NetworkPolicy" && one.metadata!.name === name,
  );
  if (!found) throw new Error(`no policy of ${name}`);
  return found.spec!;
};

export const matches = (selector: Labels, labels: Labels = {}): boolean =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);
