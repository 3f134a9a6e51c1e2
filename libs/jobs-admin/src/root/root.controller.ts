import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { OPERATIONS } from "../openapi/operations.js";
import { getRoutes } from "./root.operations.js";

/** What is here, for whoever opens the address that `npm start` prints. */
@AdminController()
export class RootController {
  @Serves(getRoutes)
  routes(): { routes: string[] } {
    const others = OPERATIONS.filter(({ path }) => path !== "");
    return { routes: others.map(({ method, path }) => `${method.toUpperCase()} ${path}`) };
  }
}
