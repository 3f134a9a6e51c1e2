import { Column, CreateDateColumn, Entity, PrimaryColumn } from "typeorm";

/** Whether a reminder was sent. */
export type ReminderState = "pending" | "sent";

/** A reminder: the API saves it together with its job, the worker sends it. */
@Entity({ name: "reminder", schema: "samples" })
export class Reminder {
  @PrimaryColumn("uuid")
  id: string;

  /** A mail address. */
  @Column("text", { name: "recipient" })
  to: string;

  @Column("text")
  text: string;

  @Column("text", { default: "pending" })
  state: ReminderState;

  /** Null until it is sent. */
  @Column("timestamptz", { name: "sent_at", nullable: true })
  sentAt: Date | null;

  @CreateDateColumn({ name: "created_at", type: "timestamptz" })
  createdAt: Date;
}
