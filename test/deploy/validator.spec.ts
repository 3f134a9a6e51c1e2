import { type Resource, schemaProblems, typeProblems } from "../support/kubernetes.js";
import { written } from "../support/kustomization.js";

// What the manifests are held to would find what is wrong with them.

describe("the validator refuses", () => {
  const [good] = written("base").filter((one) => one.kind === "Deployment");
  /** The first deployment with something else in it. */
  const changed = (change: (text: string) => string): Resource => {
    const before = JSON.stringify(good);
    const after = change(before);
    expect(after).not.toBe(before);
    return JSON.parse(after) as Resource;
  };

  it("nothing of what is right", () => {
    expect(schemaProblems(good!)).toEqual([]);
    expect(typeProblems([good!])).toEqual([]);
  });

  it.each([
    ["a version that does not exist", '"apps/v1"', '"apps/v7"'],
    ["a kind that does not exist", '"Deployment"', '"Deploymint"'],
    ["the version of another kind", '"apps/v1"', '"batch/v1"'],
  ])("%s", (_, from, to) => {
    const wrong = changed((text) => text.replace(from, to));
    expect(schemaProblems(wrong)).toEqual([expect.stringMatching(/Kubernetes knows no/)]);
    expect(typeProblems([wrong])).not.toEqual([]);
  });

  it.each([
    ["a port that is a string", /"containerPort":\d+/, '"containerPort":"3000"', "containerPort"],
    ["a number of replicas that is none", /"replicas":\d+/, '"replicas":"two"', "replicas"],
    [
      "a flag that is a word",
      '"readOnlyRootFilesystem":true',
      '"readOnlyRootFilesystem":"yes"',
      "readOnlyRootFilesystem",
    ],
    ["a list that is none", /"drop":\["ALL"\]/, '"drop":"ALL"', "drop"],
  ])("%s", (_, from, to, where) => {
    const wrong = changed((text) => text.replace(from, to));
    expect(schemaProblems(wrong)).toEqual([expect.stringContaining(where)]);
    expect(typeProblems([wrong])).not.toEqual([]);
  });

  it("what lacks a part that it needs", () => {
    const wrong = changed((text) => text.replace(/"selector":\{"matchLabels":\{[^}]*\}\},/, ""));
    expect(schemaProblems(wrong)).toEqual([expect.stringContaining("selector")]);
  });

  it.each([
    ["at the top of the spec", '"replicas"', '"replica"'],
    ["of the pod", '"terminationGracePeriodSeconds"', '"terminationGracePeriodSecond"'],
    ["of the container", '"livenessProbe"', '"livelinessProbe"'],
    ["of its rights", '"readOnlyRootFilesystem"', '"readOnlyRootFileSystem"'],
  ])("a misspelt field: %s", (_, from, to) => {
    const wrong = changed((text) => text.replace(from, to));
    expect(typeProblems([wrong])).toEqual([expect.stringContaining(to.replaceAll('"', ""))]);
  });
});
