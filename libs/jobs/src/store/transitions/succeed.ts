import { finish } from "./finish.js";

/** running → succeeded, with the handler's result. */
export const succeed = finish("succeed", 1);
