// What is run in which order.

/**
 * Round by round, so that what changes on the machine meanwhile meets all workloads and peers alike; in each round
 * another peer begins.
 */
export function plan(workloads, peers, rounds) {
  const steps = [];
  for (let round = 0; round < rounds; round++) {
    for (const workload of workloads) {
      if (round >= (workload.rounds ?? rounds)) continue;
      const taking = peers.filter((peer) => workload.peers.includes(peer));
      for (const peer of rotated(taking, round)) steps.push({ workload, peer, round });
    }
  }
  return steps;
}

const rotated = (list, by) => list.map((_, index) => list[(index + by) % list.length]);
