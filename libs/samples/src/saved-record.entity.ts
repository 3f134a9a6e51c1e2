import { Column, Entity, PrimaryColumn } from "typeorm";
import type { RecordSort } from "./contracts.js";

/** A record that is searched for: the API saves it together with its job, the worker brings the index up to date. */
@Entity({ name: "record", schema: "samples" })
export class SavedRecord {
  @PrimaryColumn("uuid")
  id: string;

  @Column("text")
  text: string;

  @Column("text")
  sort: RecordSort;

  /** One more with each change. */
  @Column("integer")
  revision: number;
}
