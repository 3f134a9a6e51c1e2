import { Inject } from "@nestjs/common";
import { ADMIN_PATH } from "../mount.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { openApi } from "./document.js";
import { getOpenApi } from "./openapi.operations.js";
import { OPERATIONS, SCHEMAS } from "./operations.js";

@AdminController()
export class OpenApiController {
  readonly #document: object;

  constructor(@Inject(ADMIN_PATH) path: string) {
    this.#document = openApi(OPERATIONS, SCHEMAS, path);
  }

  @Serves(getOpenApi)
  document(): object {
    return this.#document;
  }
}
