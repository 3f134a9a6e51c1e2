/**
 * `beside` are jobs that nobody counts: they wait, run or have succeeded.
 *
 * @throws unless every job was run `runsEach` times and settled, by the handlers' count and by the peer's tables
 */
export async function settledExactlyOnce(stage, reports, { jobs, runsEach = 1, beside = 0 }) {
  const wrong = [];
  for (let n = 0; n < jobs; n++) {
    const runs = reports.reduce((sum, report) => sum + report.runs[n], 0);
    if (runs !== runsEach) wrong.push(`job ${n} ran ${runs} times instead of ${runsEach}`);
  }
  const strays = reports.reduce((sum, report) => sum + report.strays, 0);
  if (strays > 0) wrong.push(`${strays} jobs ran that are not of this run`);
  const { unfinished, succeeded, failed } = await stage.producer.call("tally");
  if (unfinished < 0) wrong.push(`${-unfinished} that waited before it are gone`);
  if (unfinished > beside) wrong.push(`${unfinished} are unfinished`);
  const besides = beside - unfinished;
  if (succeeded !== null && succeeded !== jobs + besides)
    wrong.push(`${succeeded} have succeeded instead of ${jobs + besides}`);
  if (failed !== null && failed !== 0) wrong.push(`${failed} have failed`);
  refuse(wrong);
}

/** @throws unless so many jobs wait, by the peer's tables */
export async function stored(stage, jobs) {
  const { unfinished } = await stage.producer.call("tally");
  refuse(unfinished === jobs ? [] : [`${unfinished} jobs wait instead of ${jobs}`]);
}

function refuse(wrong) {
  if (wrong.length > 0)
    throw new Error(`${wrong.length} things are wrong: ${wrong.slice(0, 3).join(", ")}`);
}
