const PLAIN = /^[A-Za-z_$][\w$]*$/;

/** A path for people, e.g. `payload.items[3].at`; long keys are cut, odd ones quoted. */
export function pathText(root: string, keys: readonly PropertyKey[]): string {
  let text = root;
  for (const key of keys) {
    if (typeof key === "number") text += `[${key}]`;
    else if (typeof key === "symbol") text += `[${String(key)}]`;
    else if (PLAIN.test(key) && key.length <= 64) text += `.${key}`;
    else text += `[${JSON.stringify(key.length > 64 ? `${key.slice(0, 64)}…` : key)}]`;
  }
  return text;
}
