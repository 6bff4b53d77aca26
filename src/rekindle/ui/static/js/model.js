// Answers of the API as the pages show them: a job with the graph and the subtasks in one.

import { now } from "./api.js";

const NEXT = {
  LOST: "Run it again: rekindle run JOBFILE. It resumes from its last checkpoint by itself.",
  SILENT: "See whether its storage is full or read-only. Look at the process on its machine: if it hangs, kill it and run the job again.",
};

const BAD = ["FAILED", "LOST", "SILENT", "UNREADABLE"];

/** Answers are some seconds old: a clock that differs by less is not seen to differ. */
const SAME_CLOCK_MS = 60_000;

/** Milliseconds that the clock of a job's driver is ahead of the server's: its times are shown by the server's. */
function ahead({ heartbeat_ms, heartbeat_age_ms }) {
  if (heartbeat_ms === null || heartbeat_age_ms === null) return 0;
  const differs = heartbeat_ms + heartbeat_age_ms - now();
  return Math.abs(differs) > SAME_CLOCK_MS ? differs : 0;
}

function job(overview) {
  const ahead_ms = ahead(overview);
  const ours = (ms) => (ms === null ? null : ms - ahead_ms);
  const restarting = overview.state === "RUNNING" && (overview.subtasks.restarting > 0 || overview.next_attempt_ms !== null);
  const bad = BAD.includes(overview.state);
  return {
    ...overview,
    name: overview.job,
    state: restarting ? "RESTARTING" : overview.state,
    ahead_ms,
    started_ms: ours(overview.started_ms),
    heard_ms: ours(overview.heartbeat_ms),
    checkpoint:
      overview.latest_checkpoint === null
        ? null
        : {
            id: overview.latest_checkpoint,
            completed_ms: ours(overview.latest_checkpoint_ms),
            duration_ms: overview.latest_checkpoint_duration_ms,
          },
    error: bad ? overview.error : null,
    failure: bad ? null : overview.error,
    next_step: NEXT[overview.state],
    rows_in: overview.rows_in_per_second,
    rows_out: overview.rows_out_per_second,
    totals: { rows_in: overview.rows_in, rows_out: overview.rows_out, restarts: overview.restarts_total },
  };
}

export const jobs = (found) => ({ jobs: found.map(job) });

export function jobView({ overview, subtasks, savepoint, notes }) {
  const live = overview.state === "RUNNING" || overview.state === "STOPPING";
  const tasks = subtasks.map(({ status, rates }) => ({
    ...status,
    watermark_ms: status.watermark,
    rows_in: live ? status.rows_per_second : null,
    rows_out: rates?.rows_out ?? null,
    lag_ms: live ? status.lag_ms : null,
    busy: live ? status.busy : null,
    back_pressured: live ? status.back_pressured : null,
  }));
  return { ...job(overview), tasks, savepoint, notes };
}

export function graph({ vertices, edges }) {
  return {
    vertices: vertices.map((one) => ({
      ...one,
      name: one.uid,
      rows_in: one.rows_in_per_second,
      rows_out: one.rows_out_per_second,
      bad: one.status === "restarting",
      note: one.kind === "source" ? sourceNote(one) : "",
    })),
    edges: edges.map((one) => ({ ...one, from: one.source, to: one.target })),
  };
}

function sourceNote(source) {
  if (source.status === "ended") return "ended";
  if (source.share !== null) return `${Math.round(source.share * 100)} % read`;
  return source.status === "idle" ? "idle" : "";
}

export const checkpoints = (found) => ({
  counts: found.counts,
  history: found.history,
  latest: {
    completed: found.latest_completed,
    failed: found.latest_failed,
    savepoint: found.latest_savepoint,
    restored: found.latest_restored,
  },
});

export const checkpoint = ({ overview, record }) => ({ ...overview, parts: record.subtasks, sinks: Object.entries(record.sink_commit_ms) });

export const savepoints = (found) => ({ savepoints: found });

export const runs = (found) => ({ runs: found });

export const events = (found) => ({ events: found.map(({ number, event }) => ({ ...event, number })) });

/** Job → what it read in its last ten minutes, for the small lines of the list. */
export const recent = (found) => new Map(found.map((one) => [one.id, one.rows_in_per_second]));
