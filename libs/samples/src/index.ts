export {
  DeliverEvent,
  MakeThumbnail,
  RECORD_SORTS,
  RecordChanged,
  type RecordSort,
  SendReminder,
} from "./contracts.js";
export { Reminder, type ReminderState } from "./reminder.entity.js";
export { SavedRecord } from "./saved-record.entity.js";
export { ensureSamples } from "./ensure-samples.js";
export { SamplesModule, samplesDataSource } from "./samples.module.js";
export { EnvironmentError, field, orExit, readEnvironment } from "./environment.js";
export { type LauncherMessage, endWithLauncher, tellLauncher } from "./launcher.js";
export { type ServeOptions, configureHttp, serveHttp } from "./serve-http.js";
