import { list, object, text } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";

export const getRoutes = operation({
  id: "getRoutes",
  method: "get",
  path: "",
  role: "viewer",
  summary: "What is here",
  answer: object({ routes: list(text) }),
});
