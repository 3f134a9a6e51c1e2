// What keeps the sample busy: a few requests every few seconds, as a user of the API would send them.
import { randomInt } from "node:crypto";

const PEOPLE = ["ada", "grace", "alan", "edsger", "barbara", "donald"];
const THINGS = ["water the plants", "call the bank", "renew the passport", "back up the photos"];
const pick = (list) => list[randomInt(list.length)];

const SAMPLES = [
  {
    every: 5_000,
    path: "/reminders",
    body: () => ({ to: `${pick(PEOPLE)}@example.com`, text: pick(THINGS) }),
  },
  {
    every: 5_000,
    path: "/thumbnails",
    // one image in ten is broken, which the worker finds out
    body: () => ({ imageUrl: `https://images.example.com/${randomInt(1e9)}.jpg` }),
  },
];

/** @returns a function that ends it */
export function postSamples(api, log) {
  const timers = SAMPLES.map((sample) => {
    let failing = false;
    const post = async () => {
      const problem = await send(`${api}${sample.path}`, sample.body());
      // once, not every five seconds
      if (problem && !failing) log(`POST ${sample.path}: ${problem}`);
      failing = Boolean(problem);
    };
    void post();
    return setInterval(() => void post(), sample.every);
  });
  return () => {
    for (const timer of timers) clearInterval(timer);
  };
}

async function send(url, body) {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(4_000),
    });
    return response.ok ? undefined : `${response.status} ${await response.text()}`;
  } catch (error) {
    return error.cause?.message ?? error.message;
  }
}
