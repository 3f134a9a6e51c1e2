import { finish, finishWithin } from "./finish.js";

/** running → succeeded, with the handler's result. */
export const succeed = finish("succeed", 1);

/** The same at the end of the transaction that the handler has written in. */
export const succeedWithin = finishWithin("succeed", 1);
