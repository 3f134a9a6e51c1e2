import { Watchdog } from "./watchdog.js";

/** A loop, a database and a clock, by hand. */
function scene() {
  const state = { since: undefined as number | undefined, answers: true, repairs: 0 };
  const connection = () => ({
    hangsFor: 0,
    served: true,
    restarts: 0,
    answers(): Promise<boolean> {
      return Promise.resolve(this.served);
    },
    restart(): void {
      this.restarts++;
      state.repairs++;
    },
  });
  const [claims, front] = [connection(), connection()];
  const lines: string[] = [];
  const dog = new Watchdog({
    turnSince: () => state.since,
    claims,
    front,
    answers: () => Promise.resolve(state.answers),
    log: (level, message) => void lines.push(`${level}: ${message}`),
  });
  return { state, claims, front, lines, dog };
}

describe("a loop", () => {
  it("that turns is left alone, however long ago it began", async () => {
    const { state, lines, dog } = scene();
    for (let now = 0; now < 100_000; now += 2_000) {
      state.since = now % 4_000 === 0 ? undefined : now - 1_900;
      await dog.look(now);
    }
    expect([state.repairs, lines, dog.stuck]).toEqual([0, [], false]);
  });

  it("that stands still is repaired, told of, and told of when it goes on", async () => {
    const { state, lines, dog } = scene();
    state.since = 1_000;
    await dog.look(15_999);
    expect(state.repairs).toBe(0);
    await dog.look(16_000);
    expect(state.repairs).toBe(1);
    state.since = 16_100;
    await dog.look(18_000);
    await dog.look(30_999);
    expect(lines).toHaveLength(1);
    state.since = undefined;
    await dog.look(31_000);
    expect(lines).toEqual([
      expect.stringMatching(/^warn: the claim loop stands still although the database answers/),
      "log: the claim loop goes on",
    ]);
    expect([state.repairs, dog.stuck]).toEqual([1, false]);
  });

  it("that no repair helps is called stuck, once, and tried again; and no more when it goes on", async () => {
    const { state, lines, dog } = scene();
    state.since = 0;
    for (let now = 0; now <= 60_000; now += 1_000) await dog.look(now);
    expect(state.repairs).toBe(4);
    expect(dog.stuck).toBe(true);
    expect(lines.map((line) => line.split(":")[0])).toEqual(["warn", "warn", "error"]);
    state.since = undefined;
    await dog.look(75_000);
    expect(dog.stuck).toBe(false);
  });

  it("that waits for a database which is away is left alone", async () => {
    const { state, lines, dog } = scene();
    state.since = 0;
    state.answers = false;
    for (let now = 0; now < 100_000; now += 2_000) await dog.look(now);
    expect([state.repairs, lines]).toEqual([0, []]);
    state.answers = true;
    await dog.look(100_000);
    expect(state.repairs).toBe(1);
  });

  it("that waits in line behind what others send is left alone", async () => {
    const { state, front, lines, dog } = scene();
    state.since = 0;
    front.served = false;
    for (let now = 0; now < 100_000; now += 2_000) await dog.look(now);
    expect([state.repairs, lines]).toEqual([0, []]);
    front.served = true;
    await dog.look(100_000);
    expect(state.repairs).toBe(1);
  });

  it("whose connection hangs gets that one anew, and no other", async () => {
    const { front, claims, lines, dog } = scene();
    front.hangsFor = 14_999;
    await dog.look(0);
    expect(lines).toEqual([]);
    front.hangsFor = 15_000;
    await dog.look(1_000);
    expect([claims.restarts, front.restarts]).toEqual([0, 1]);
    front.hangsFor = 0;
    claims.hangsFor = 15_000;
    await dog.look(16_000);
    expect([claims.restarts, front.restarts]).toEqual([1, 1]);
    await dog.look(31_000);
    expect(dog.stuck).toBe(true);
  });

  it("whose connection moves while the database is asked is left alone", async () => {
    const { state, front, lines, dog } = scene();
    front.hangsFor = 15_000;
    const looking = dog.look(20_000);
    front.hangsFor = 0;
    await looking;
    expect([state.repairs, lines]).toEqual([0, []]);
  });

  it("whose answer comes while the database is asked is left alone", async () => {
    const { state, lines, dog } = scene();
    state.since = 0;
    const looking = dog.look(20_000);
    state.since = 20_000;
    await looking;
    expect([state.repairs, lines]).toEqual([0, []]);
  });
});
