import { Module } from "@nestjs/common";

/** A Nest module without a class of its own. */
export function moduleOf(metadata) {
  // oxlint-disable-next-line typescript/no-extraneous-class -- its decorator is a call
  const made = class {};
  Module(metadata)(made);
  return made;
}
