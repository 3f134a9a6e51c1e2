import { isIPv6 } from "node:net";

/** So many wrong credentials an address may send at once, and one more each second. */
const BURST = 60;
const EACH_MS = 1_000;
const MOST_ADDRESSES = 10_000;

interface Bucket {
  left: number;
  at: number;
}

/** Counts wrong credentials by address; remembers so many addresses, the newest, and no more. */
export class Failures {
  readonly #buckets = new Map<string, Bucket>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** How many addresses it remembers. */
  get size(): number {
    return this.#buckets.size;
  }

  /**
   * One more from there.
   * @returns `wait`: in how many seconds one is answered as what it is again, 0: this one still is; `last`: none is after it.
   */
  add(address: string): { wait: number; last: boolean } {
    const network = networkOf(address);
    const now = this.now();
    const { left, at } = this.#buckets.get(network) ?? { left: BURST, at: now };
    const filled = Math.min(BURST, left + (now - at) / EACH_MS);
    const taken = filled >= 1;
    this.#remember(network, { left: taken ? filled - 1 : filled, at: now });
    return { wait: taken ? 0 : 1, last: taken && filled < 2 };
  }

  #remember(network: string, bucket: Bucket): void {
    // A map keeps the order in which it was filled: the first is the one that was silent for longest.
    this.#buckets.delete(network);
    this.#buckets.set(network, bucket);
    if (this.#buckets.size <= MOST_ADDRESSES) return;
    for (const oldest of this.#buckets.keys()) {
      this.#buckets.delete(oldest);
      return;
    }
  }
}

/** Whoever has one IPv6 address has a network of them. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address.slice(0, 64);
  const [front, back] = address
    .replace(/%.*$/, "")
    .split("::")
    .map((half) => half.split(":").filter(Boolean)) as [string[], string[] | undefined];
  const zeros = Array.from({ length: 8 - front.length - (back?.length ?? 0) }, () => "0");
  const groups = back === undefined ? front : [...front, ...zeros, ...back];
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
