import { operation } from "../operation/operation.js";

export const getOpenApi = operation({
  id: "getOpenApi",
  method: "get",
  path: "openapi.json",
  role: "viewer",
  summary: "This API, as OpenAPI 3.1",
  answer: { type: "object" },
});
