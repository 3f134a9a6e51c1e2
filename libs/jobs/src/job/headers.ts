/** Which schedule a job is of. */
export interface ScheduledRun {
  readonly name: string;
  /** The tick: when it was due, however late it runs. */
  readonly tick?: Date;
}

/** Which event a job is a delivery of. */
export interface DeliveredEvent {
  readonly name: string;
  /** The one that it was published with; absent: none. */
  readonly routingKey?: string;
}

/** What brought a job, as it is kept with it. */
interface Headers {
  schedule?: string;
  /** In ms. */
  tick?: number;
  event?: string;
  routingKey?: string;
}

/** The JSON text of the headers of a delivery. */
export const eventHeaders = ({ name, routingKey }: DeliveredEvent): string =>
  JSON.stringify({ event: name, routingKey });

/** The schedule that JSON text of headers tells of; null: none. */
export function scheduleIn(headers: string | null): ScheduledRun | null {
  const { schedule, tick } = parsed(headers);
  if (schedule === undefined) return null;
  return tick === undefined ? { name: schedule } : { name: schedule, tick: new Date(tick) };
}

/** The event that it tells of; undefined: none. */
export function eventIn(headers: string | null): DeliveredEvent | undefined {
  const { event, routingKey } = parsed(headers);
  if (event === undefined) return undefined;
  return routingKey === undefined ? { name: event } : { name: event, routingKey };
}

const parsed = (headers: string | null): Headers =>
  headers === null ? {} : (JSON.parse(headers) as Headers);
