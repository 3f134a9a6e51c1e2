import type { Deed, PayloadMatch } from "nestjs-pg-jobs";
import { operatorOf } from "../auth/operator.js";
import { startBulk } from "../bulk/bulk.operations.js";
import { REDACTED } from "../payloads/redaction.js";
import { pauseQueue, resumeQueue } from "../queues/queues.operations.js";
import { inputOf } from "../request/input.js";
import { type AnyRequest, paramsOf } from "../request/raw-request.js";

/** What a request is about to do, for those who look later; payloads are left out. */
export function deedOf(action: string, request: AnyRequest): Deed {
  const { name: operator, role } = operatorOf(request);
  const { query, body } = inputOf(request);
  const { why, by: _, payload, ...said } = { ...query, ...body };
  const named = Object.values(paramsOf(request)).join(" ");
  const about = [said.queue, said.action].find((one) => typeof one === "string");
  const target = named || (about ?? "");
  return {
    operator,
    role,
    action,
    target: storable(target).slice(0, 200),
    why: typeof why === "string" ? storable(why) : null,
    details: storableJson(
      JSON.parse(
        JSON.stringify({ ...said, ...ofPayload(action, payload), ...ofKey(action, said.key) }),
      ),
    ) as object,
  };
}

function ofPayload(action: string, payload: unknown): object {
  if (payload === undefined) return {};
  return action === startBulk.id
    ? { payload: { path: (payload as PayloadMatch).path } }
    : { edited: true };
}

/** A key that a limit reads from payloads is a part of them. */
const KEYED: readonly string[] = [pauseQueue.id, resumeQueue.id];
const ofKey = (action: string, key: unknown): object =>
  key !== undefined && KEYED.includes(action) ? { key: REDACTED } : {};

/** What stands in a path may be anything; PostgreSQL takes no NUL, and no half of a character. */
const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD");

/** Names of members too; a body is not deeper than `request/bodies.ts` lets through. */
function storableJson(value: unknown): unknown {
  if (typeof value === "string") return storable(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(storableJson);
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [storable(name), storableJson(item)]),
  );
}
