export default async function globalTeardown() {
  await globalThis.testPooler?.stop();
  await globalThis.testPostgres?.stop();
}
