// One field of a cron expression: which of its numbers it names.

export interface CronField {
  /** In ascending order; those that name all are told by {@link CronField.all}. */
  readonly values: readonly number[];
  /** It leaves nothing out. */
  readonly all: boolean;
}

export interface FieldRange {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Names for the numbers, from `min` on. */
  readonly names?: readonly string[];
}

const PART = /^(\*|\?|[a-z0-9]+)(?:-([a-z0-9]+))?(?:\/(\d{1,4}))?$/i;

/**
 * Reads lists, ranges and steps. What cron programs understand differently is refused.
 * @returns the field, or what is wrong with it.
 */
export function parseField(text: string, range: FieldRange): CronField | string {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const problem = addPart(part, range, found);
    if (problem !== undefined) return `${range.name}: ${problem}`;
  }
  const values = [...found].sort((a, b) => a - b);
  return { values, all: values.length === range.max - range.min + 1 };
}

/** Answers what is wrong. */
function addPart(part: string, range: FieldRange, found: Set<number>): string | undefined {
  const { min, max, names } = range;
  const expected = `expected ${min}..${max}${names ? ` or ${names[0]}..${names.at(-1)}` : ""}`;
  const [, from = "", to, step] = PART.exec(part) ?? [];
  const any = from === "*" || from === "?";
  if (from === "" || (any && to !== undefined))
    return `${expected}, lists, ranges or steps of them, found ${JSON.stringify(part)}`;
  const first = any ? min : numberOf(from, range);
  const last = any || (to === undefined && step !== undefined) ? max : numberOf(to ?? from, range);
  if (first === undefined || last === undefined)
    return `${expected}, found ${JSON.stringify(first === undefined ? from : to)}`;
  if (last < first)
    return `expected a range that ascends, found ${JSON.stringify(part)}; write ${first}-${max},${min}-${last}`;
  const by = step === undefined ? 1 : Number(step);
  if (by < 1 || (step !== undefined && by > max - min))
    return `expected a step of 1..${max - min}, found ${JSON.stringify(part)}: a step begins anew with each round of the field`;
  for (let value = first; value <= last; value += by) found.add(value);
  return undefined;
}

function numberOf(text: string, { min, max, names }: FieldRange): number | undefined {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  const value = named >= 0 ? named + min : /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}
