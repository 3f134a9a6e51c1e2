import type { ExecutionContext } from "@nestjs/common";
import { HttpAdapterHost } from "@nestjs/core";
import type { OptionsCheck } from "nestjs-pg-jobs";
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { ProblemException } from "../problem.js";
import { type AnyRequest, rawOf } from "../request/raw-request.js";
import type { Door } from "./door.js";
import type { AdminOperator } from "./operator.js";
import { ADMIN_ROLES, type AdminRole } from "./roles.js";

/** Bearer tokens by role: several of one, while they are changed. Each of at least 16 characters. */
export type AdminTokens = { readonly [role in AdminRole]?: string | readonly string[] };

const LEAST = 16;
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;

interface Credential {
  digest: Buffer;
  operator: AdminOperator;
}

/** Lets in whoever has a token: `Authorization: Bearer <token>`; 401 without one, 403 for another one. */
export class TokenDoor implements Door {
  readonly remedy = "Use a token of that role.";
  readonly #secret = randomBytes(32);
  readonly #credentials: readonly Credential[];

  constructor(
    tokens: AdminTokens,
    private readonly host: HttpAdapterHost,
  ) {
    this.#credentials = ADMIN_ROLES.flatMap((role) =>
      [tokens[role] ?? []].flat().map((token, index) => ({
        digest: this.#digest(token),
        operator: { name: index === 0 ? role : `${role} ${index + 1}`, role },
      })),
    );
  }

  async admit(context: ExecutionContext): Promise<AdminOperator> {
    const http = context.switchToHttp();
    const { authorization = "" } = rawOf(http.getRequest<AnyRequest>()).headers;
    const [, token] = BEARER.exec(authorization) ?? [];
    if (token === undefined) {
      const { httpAdapter } = this.host;
      httpAdapter.setHeader(http.getResponse(), "www-authenticate", 'Bearer realm="admin"');
      const expected = "Expected the header Authorization: Bearer <token>.";
      throw new ProblemException(401, "UNAUTHORIZED", expected);
    }
    const operator = this.#find(token);
    if (operator) return operator;
    throw new ProblemException(403, "FORBIDDEN", "The token is not one of this deployment.");
  }

  /** Compares with all of them, whichever fits: how long it takes says nothing. */
  #find(token: string): AdminOperator | undefined {
    const sent = this.#digest(token);
    let found: AdminOperator | undefined;
    for (const { digest, operator } of this.#credentials)
      if (timingSafeEqual(digest, sent)) found = operator;
    return found;
  }

  /** Digests have one length, whatever was sent, and nobody outside knows any. */
  #digest(token: string): Buffer {
    return createHmac("sha256", this.#secret).update(token).digest();
  }
}

/** Says to `check` what does not fit; never a token. */
export function checkTokens(check: OptionsCheck, given: unknown): void {
  if (!check.object("tokens", given, ADMIN_ROLES)) return;
  const places = new Map<string, string>();
  for (const role of ADMIN_ROLES) {
    const said = given[role];
    if (said === undefined) continue;
    const tokens: readonly unknown[] = Array.isArray(said) ? said : [said];
    if (tokens.length === 0) check.add(`tokens.${role}: expected a token, found an empty list`);
    tokens.forEach((token, index) => {
      const at = Array.isArray(said) ? `tokens.${role}[${index}]` : `tokens.${role}`;
      checkToken(check, at, token);
      if (typeof token !== "string") return;
      const other = places.get(token);
      if (other !== undefined)
        check.add(`${at}: expected a token of its own, found that of ${other}`);
      places.set(token, other ?? at);
    });
  }
  if (places.size === 0) check.add("tokens: expected at least one token, found none");
}

function checkToken(check: OptionsCheck, at: string, token: unknown): void {
  if (typeof token !== "string")
    check.add(`${at}: expected a text, found ${token === null ? "null" : typeof token}`);
  else if (token.length < LEAST)
    check.add(`${at}: expected at least ${LEAST} characters, found ${token.length}`);
  else if (!TOKEN.test(token))
    check.add(`${at}: expected letters, digits and . _ ~ + / - only, as a bearer token has`);
}
