import { type AuditPage, JobAudit } from "nestjs-pg-jobs";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Input } from "../request/input.js";
import { listAudit } from "./audit.operations.js";

@AdminController()
export class AuditController {
  constructor(private readonly audit: JobAudit) {}

  @Serves(listAudit)
  async list(@Input() { query }: InputOf<typeof listAudit>): Promise<AuditPage> {
    const { limit, after, ...which } = query;
    return await this.audit.list(which, { limit, after });
  }
}
