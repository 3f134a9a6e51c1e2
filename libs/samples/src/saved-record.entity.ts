import { Column, Entity, PrimaryColumn } from "typeorm";

/** A record that is searched for: the API saves it together with its job, the worker brings the index up to date. */
@Entity({ name: "record", schema: "samples" })
export class SavedRecord {
  @PrimaryColumn("uuid")
  id: string;

  @Column("text")
  text: string;

  /** One more with each change. */
  @Column("integer")
  revision: number;
}
