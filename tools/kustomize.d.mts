/** kustomize 5.1 or newer, or a kubectl that has it: the command that renders a folder, or why there is none. */
export function findKustomize():
  | { readonly command: readonly string[]; readonly missing?: undefined }
  | { readonly command?: undefined; readonly missing: string };

/** What it prints; nothing that people have configured for their clusters is read. @throws what it says */
export function runKustomize(tool: string, args: readonly string[]): string;
