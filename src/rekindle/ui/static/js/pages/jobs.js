// All jobs of the storages: those that need a person first, then the table.
import { useApi } from "../api.js";
import * as format from "../format.js";
import * as model from "../model.js";
import { html, useEffect, useState } from "../lib.js";
import { Ago, Badge, Empty, isBad, Load, Loaded, MEANING, Problem, Segments, Sparkline, Table, useNow } from "../parts.js";

const href = (job, page = "") => `#/jobs/${encodeURIComponent(job.id)}${page && `/${page}`}`;

/** LOST, SILENT and FAILED jobs, and those that go on only after a failure. */
const troubled = (job) => isBad(job.state) || job.state === "RESTARTING" || Boolean(job.failure && job.next_attempt_ms);

function Attention({ jobs }) {
  if (!jobs.length) return null;
  return html`<section aria-labelledby="attention">
    <h2 id="attention" class="attention">
      ${format.plural(jobs.length, "job needs", "jobs need")} attention
    </h2>
    <ul class="stack">
      ${jobs.map((job) => html`<li key=${job.id}><${Trouble} job=${job} /></li>`)}
    </ul>
  </section>`;
}

/** A storage that cannot be read has no jobs in the list: that must not look as if it had none. */
function Unread({ storages }) {
  return html`<section aria-label="Storages that cannot be read">
    <ul class="stack">
      ${storages.map(
        ({ index, location, error }) => html`<li key=${index}>
          <${Problem} head=${html`The jobs of <span class="wrap">${location}</span> are not shown`} error=${error} />
        </li>`,
      )}
    </ul>
  </section>`;
}

function Trouble({ job }) {
  const error = job.error ?? job.failure;
  const head = html`<${Badge} state=${isBad(job.state) ? job.state : "RESTARTING"} />
    <a href=${href(job)}>${job.name}</a>
    <span class="when">
      ${job.state === "FAILED" && job.ended_ms
        ? html`failed <${Ago} ms=${job.ended_ms} />`
        : job.heard_ms && html`last heard of <${Ago} ms=${job.heard_ms} />`}
    </span>`;
  return html`<${Problem}
    tone=${isBad(job.state) ? "bad" : "warn"}
    head=${head}
    error=${error}
    message=${MEANING[job.state]}
    next=${job.next_step}
  >
    ${error && MEANING[job.state] && job.state !== "FAILED" && html`<p class="muted">${MEANING[job.state]}</p>`}
  <//>`;
}

function Uptime({ job }) {
  const at = useNow();
  if (!job.started_ms) return format.NONE;
  const until = job.ended_ms ?? (isBad(job.state) ? job.heard_ms : at);
  return html`<span title=${`run ${job.run}, started ${format.exact(job.started_ms)}`}>${format.age(until - job.started_ms)}</span>`;
}

const columns = (several, server, recent) => [
  {
    label: "Job",
    head: true,
    cell: (job) => html`<a class="job-link wrap" href=${href(job)}>${job.name}</a>
      ${several && html` <span class="muted small">${server?.storages[job.storage]?.location}</span>`}`,
  },
  { label: "State", cell: (job) => html`<${Badge} state=${job.state} />` },
  { label: "Uptime", num: true, cell: (job) => html`<${Uptime} job=${job} />` },
  {
    label: "Last checkpoint",
    num: true,
    cell: (job) => (job.checkpoint ? html`<${Ago} ms=${job.checkpoint.completed_ms} />` : format.NONE),
  },
  {
    label: "Watermark lag",
    num: true,
    blank: (job) => job.lag_ms === null,
    cell: (job) => html`<span title=${job.lag_ms === null ? "" : `${format.count(job.lag_ms)} ms`}>${format.duration(job.lag_ms)}</span>`,
  },
  {
    label: "Rows in / s",
    num: true,
    blank: (job) => job.rows_in === null,
    cell: (job) => html`<span class="spark">
      <${Sparkline} values=${recent?.get(job.id) ?? []} label=${`Rows in a second, in the last ten minutes: ${job.name}`} />
      <b data-rate=${job.rows_in}>${format.rate(job.rows_in)}</b>
    </span>`,
  },
  { label: "Rows out / s", num: true, blank: (job) => job.rows_out === null, cell: (job) => format.rate(job.rows_out) },
  {
    label: "Load",
    hint: "Of the busiest subtask: busy, and back-pressured",
    blank: (job) => job.busy === null,
    cell: (job) => html`<${Load} busy=${job.busy} back=${job.back_pressured} />`,
  },
];

const RANK = { LOST: 0, FAILED: 1, SILENT: 2, UNREADABLE: 2, RESTARTING: 3, STOPPING: 4, RUNNING: 5, CREATED: 5 };
const order = (a, b) => (RANK[a.state] ?? 9) - (RANK[b.state] ?? 9) || a.name.localeCompare(b.name);

export function Jobs({ server }) {
  const state = useApi("jobs", 2000, model.jobs);
  const several = server?.storages.length > 1;
  const { data: storages } = useApi(several ? "storages" : null, 5000);
  const unread = storages?.filter((one) => one.error) ?? [];
  useEffect(() => {
    const bad = (state.data?.jobs.filter(troubled).length ?? 0) + unread.length;
    document.title = `${bad ? `(${bad}!) ` : ""}Jobs · Rekindle`;
  }, [state.data, unread.length]);
  return html`<h1 tabindex="-1">Jobs</h1>
    ${unread.length > 0 && state.data && html`<${Unread} storages=${unread} />`}
    <${Loaded} state=${state}>${({ jobs }) => html`<${Listing} jobs=${jobs} server=${server} />`}<//>`;
}

const GROUPS = [
  ["all", "All", () => true],
  ["live", "Running", (job) => ["RUNNING", "CREATED", "STOPPING", "RESTARTING"].includes(job.state)],
  ["bad", "Need attention", troubled],
  ["over", "Ended", (job) => ["FINISHED", "STOPPED", "DRAINED", "CANCELED"].includes(job.state)],
];

function Listing({ jobs, server }) {
  const { data: recent } = useApi("recent", 10_000, model.recent);
  const [text, setText] = useState("");
  const [group, setGroup] = useState("all");
  if (!jobs.length) {
    const storage = server?.storages[0]?.location;
    return html`<section class="panel">
      <${Empty} title="No job has run in this storage yet.">
        <div>Run one, and it appears here by itself:</div>
        <code>rekindle run JOBFILE${storage ? ` --storage ${storage}` : ""}</code>
      <//>
    </section>`;
  }
  const [, , within] = GROUPS.find(([key]) => key === group);
  const found = jobs.filter((job) => within(job) && job.name.toLowerCase().includes(text.toLowerCase())).sort(order);
  const several = new Set(jobs.map((job) => job.storage)).size > 1;
  const options = GROUPS.map(([key, label, test]) => [key, `${label} ${jobs.filter(test).length}`]);
  return html`<${Attention} jobs=${jobs.filter(troubled).sort(order)} />
    <section class="panel" aria-label="All jobs">
      <header>
        <${Segments} label="Which jobs" options=${options} value=${group} onChange=${setGroup} />
        <span class="right">
          <input
            type="search"
            placeholder="Find a job"
            aria-label="Find a job by its name"
            value=${text}
            onInput=${(event) => setText(event.target.value)}
          />
        </span>
      </header>
      ${found.length
        ? html`<${Table}
            caption="Jobs"
            columns=${columns(several, server, recent)}
            rows=${found}
            rowKey=${(job) => job.id}
            rowClass=${(job) => `row-link ${isBad(job.state) ? "bad" : troubled(job) ? "warn" : ""}`}
          />`
        : html`<${Empty} title="No job is like that." />`}
    </section>`;
}
