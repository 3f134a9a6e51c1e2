/** How far a path has been followed. */
interface Step {
  path: readonly string[];
  at: number;
}

/** How far all paths have been followed, at one place of a value. Each is made once, however many places are alike. */
export class Standing {
  /** A path ends here. */
  readonly ends: boolean;
  /** Some path leads here, or further. */
  readonly leads: boolean;
  /** What paths call what lies next; all other names are alike to them. */
  readonly #names: ReadonlySet<string>;
  readonly #members = new Map<string, Standing>();
  readonly #items = new Map<string, Standing>();

  private constructor(
    private readonly steps: readonly Step[],
    private readonly made: Map<string, Standing>,
  ) {
    this.leads = steps.length > 0;
    this.ends = steps.some(({ path, at }) => at === path.length);
    this.#names = new Set(steps.flatMap(namesAt));
  }

  /** Before the first name of each. */
  static at(paths: readonly (readonly string[])[]): Standing {
    const made = new Map<string, Standing>();
    return Standing.#of(
      paths.map((path) => ({ path, at: 0 })),
      made,
    );
  }

  static #of(steps: readonly Step[], made: Map<string, Standing>): Standing {
    const byName = new Map(steps.map((step) => [`${step.path.join(".")} ${step.at}`, step]));
    const name = [...byName.keys()].sort().join("\n");
    const known = made.get(name);
    if (known) return known;
    const standing = new Standing([...byName.values()], made);
    made.set(name, standing);
    return standing;
  }

  /** Of the member of an object. */
  member(name: string): Standing {
    return this.#through(this.#members, name, () => following(this.steps, name));
  }

  /** Of an item of a list: paths go through lists, or name the item. */
  item(index: number): Standing {
    const name = String(index);
    return this.#through(this.#items, name, () => [...this.steps, ...following(this.steps, name)]);
  }

  /** Of an item that is counted from the end of its list: any of them may be meant. */
  someItem(): Standing {
    const numbers = [...this.#names].filter((name) => /^\d+$/.test(name));
    const named = numbers.flatMap((name) => following(this.steps, name));
    return Standing.#of([...this.steps, ...following(this.steps, "-1"), ...named], this.made);
  }

  #through(known: Map<string, Standing>, name: string, steps: () => Step[]): Standing {
    const alike = this.#names.has(name) ? name : "";
    const found = known.get(alike) ?? Standing.#of(steps(), this.made);
    known.set(alike, found);
    return found;
  }
}

/** The names that would lead on from a step. */
function namesAt({ path, at }: Step): string[] {
  const part = path[at];
  if (part === undefined || part === "*") return [];
  return part === "**" ? namesAt({ path, at: at + 1 }) : [part];
}

/** Where these steps lead through a name. */
function following(steps: readonly Step[], name: string): Step[] {
  return steps.flatMap(({ path, at }): Step[] => {
    const part = path[at];
    const next = { path, at: at + 1 };
    if (part === "**")
      return [{ path, at }, ...(next.at === path.length ? [next] : following([next], name))];
    return part === "*" || part === name ? [next] : [];
  });
}
