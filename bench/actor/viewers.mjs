// Those who look at the admin API.
import { setTimeout as sleep } from "node:timers/promises";

/** Between two requests: an operator who clicks, not a load test. */
const PAUSE_MS = 20;

export class Viewers {
  #url;
  #leaving = new AbortController();

  constructor(url) {
    this.#url = url;
  }

  /** So many follow, until they leave; each has been told what there is. */
  async follow(count) {
    await Promise.all(Array.from({ length: count }, () => this.#followOne()));
  }

  leave() {
    this.#leaving.abort();
  }

  /** How long each of these took, in ms, round by round. */
  async read(paths, rounds) {
    const times = Object.fromEntries(paths.map((path) => [path, []]));
    for (let round = 0; round < rounds; round++)
      for (const path of paths) {
        const from = performance.now();
        const response = await fetch(`${this.#url}/${path}`);
        await response.arrayBuffer();
        if (response.status !== 200)
          throw new Error(`${path}: expected 200, found ${response.status}`);
        times[path].push(performance.now() - from);
        await sleep(PAUSE_MS);
      }
    return times;
  }

  async #followOne() {
    const { signal } = this.#leaving;
    const response = await fetch(`${this.#url}/events`, { signal });
    if (response.status !== 200) throw new Error(`events: expected 200, found ${response.status}`);
    const reader = response.body.getReader();
    let text = "";
    while (!text.includes("event: stats"))
      text += new TextDecoder().decode((await reader.read()).value);
    void drained(reader).catch(() => {}); // he leaves, or the app ends
  }
}

async function drained(reader) {
  while (!(await reader.read()).done);
}
