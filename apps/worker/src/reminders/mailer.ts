import { Injectable, Logger } from "@nestjs/common";

export interface Mail {
  to: string;
  text: string;
}

export interface SendOptions {
  /** The same mail is not sent twice under one key. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** The mail server does not take it. */
export class MailRefusedError extends Error {
  override readonly name = "MailRefusedError";
}

/** Stands for a mail service: it sends nothing, and refuses addresses that end in `.invalid`. */
@Injectable()
export class Mailer {
  readonly #logger = new Logger(Mailer.name);

  async send(
    { to }: Mail,
    { idempotencyKey, signal }: SendOptions,
  ): Promise<{ messageId: string }> {
    signal.throwIfAborted();
    const domain = to.slice(to.lastIndexOf("@") + 1);
    if (domain.endsWith(".invalid")) {
      throw new MailRefusedError(`the mail server refuses mail to ${domain}`, {
        cause: new Error(`getaddrinfo ENOTFOUND ${domain}`),
      });
    }
    this.#logger.log("Mail sent", { domain, idempotencyKey });
    return { messageId: `${idempotencyKey}@mail.example.com` };
  }
}
