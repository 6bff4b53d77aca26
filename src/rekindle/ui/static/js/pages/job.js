// One job: its head, its tabs, and what stands in the first of them.
import { useApi } from "../api.js";
import { AT_REST_MS, Chart } from "../chart.js";
import * as format from "../format.js";
import * as model from "../model.js";
import { JobGraph } from "../graph.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import {
  Ago, Badge, Empty, Facts, Figures, isBad, Load, Loaded, MEANING, Panel, Problem, Segments, Size, Span, Table, Tabs,
  useNow, When,
} from "../parts.js";
import { now } from "../api.js";
import { Actions } from "./actions.js";
import { Checkpoints } from "./checkpoints.js";
import { History } from "./history.js";
import { Savepoints } from "./savepoints.js";
import { Settings } from "./settings.js";

const PAGES = [
  ["", "Overview", Overview],
  ["checkpoints", "Checkpoints", Checkpoints],
  ["savepoints", "Savepoints", Savepoints],
  ["history", "Runs and events", History],
  ["settings", "Settings", Settings],
];

export function JobPage({ id, rest, server }) {
  const path = `jobs/${encodeURIComponent(id)}`;
  const state = useApi(path, 2000, model.jobView);
  const [name = "", ...more] = rest;
  const [, title, Page] = PAGES.find(([key]) => key === name) ?? PAGES[0];
  const base = `#/jobs/${encodeURIComponent(id)}`;
  useEffect(() => {
    const bad = state.data && isBad(state.data.state) ? `(${state.data.state}) ` : "";
    document.title = `${bad}${state.data?.name ?? id} · ${title} · Rekindle`;
  }, [state.data, title]);
  const tabs = PAGES.map(([key, text]) => ({ text, href: key ? `${base}/${key}` : base, current: key === name }));
  return html`<nav class="crumbs" aria-label="Where you are"><a href="#/">Jobs</a> <span aria-hidden="true">/</span> <span class="wrap">${state.data?.name ?? id}</span></nav>
    <${Loaded} state=${state}>
      ${(job) => html`<${Head} job=${job} server=${server} path=${path} />
        <${Tabs} label="Pages of this job" items=${tabs} />
        <${Page} key=${name} job=${job} path=${path} base=${`${base}/${name}`} rest=${more} />`}
    <//>`;
}

function Head({ job, server, path }) {
  const at = useNow();
  const alive = !job.ended_ms && !isBad(job.state);
  const until = job.ended_ms ?? (alive ? at : job.heard_ms);
  return html`<div class="job-head">
      <div class="job-name">
        <h1 tabindex="-1">${job.name}</h1>
        <${Badge} state=${job.state} />
      </div>
      ${server?.actions && alive && html`<${Actions} job=${job} path=${path} />`}
      <p class="muted job-line">
        ${job.run !== null && html`<span>run ${job.run}</span>`} ${job.mode && html`<span>${job.mode}</span>`}
        ${job.started_ms && html`<span title=${format.exact(job.started_ms)}>${alive ? "up" : "ran"} ${format.age(until - job.started_ms)}</span>`}
        ${job.host && html`<span class="wrap">process ${job.pid} on ${job.host}</span>`}
        ${job.heard_ms && html`<span>${job.ended_ms ? html`ended <${Ago} ms=${job.ended_ms} />` : html`heard of <${Ago} ms=${job.heard_ms} />`}</span>`}
      </p>
    </div>
    <${Trouble} job=${job} />`;
}

function Trouble({ job }) {
  if (isBad(job.state))
    return html`<${Problem}
      head=${html`<span>${job.state}</span> ${job.error && MEANING[job.state] && html`<span class="meaning">${MEANING[job.state]}</span>`}`}
      error=${job.error}
      message=${MEANING[job.state]}
      next=${job.next_step}
    />`;
  if (!job.failure || job.ended_ms) return null;
  const waits = job.next_attempt_ms;
  const head = waits
    ? html`<span>It starts again <${Until} ms=${waits} /></span>`
    : html`<span>Last failure, <${Ago} ms=${job.failure.failed_ms} />: the job went past it</span>`;
  return html`<${Problem} tone="warn" head=${head} error=${job.failure} />`;
}

function Until({ ms }) {
  const left = ms - useNow();
  return html`<time title=${format.exact(ms)}>${left > 0 ? `in ${format.age(left)}` : "now"}</time>`;
}

// --- the overview ----------------------------------------------------------------------------------------------------

function Overview({ job, path }) {
  const [chosen, choose] = useState(null);
  const state = useApi(`${path}/graph`, 2000, model.graph);
  return html`<${Numbers} job=${job} />
    <${Panel} title="Graph" id="graph" note=${html`<${Legend} />`} flush>
      <${Loaded} state=${state}>
        ${(graph) => html`<${Drawing} graph=${graph} job=${job} chosen=${chosen} choose=${choose} />`}
      <//>
    <//>
    <${Tasks} job=${job} />
    <${Rates} job=${job} path=${path} />`;
}

function Drawing({ graph, job, chosen, choose }) {
  if (!graph.vertices.length)
    return html`<${Empty} title="The graph is not known yet.">It is written when the job's first run begins.<//>`;
  const labelled = {
    vertices: graph.vertices.map((one) => ({ ...one, status: status(job, one) })),
    edges: graph.edges.map((edge) => ({ ...edge, label: edgeLabel(edge), below: unread(edge), full: heldBack(graph, edge) })),
  };
  const vertex = labelled.vertices.find(({ id }) => id === chosen);
  return html`<${JobGraph} graph=${labelled} chosen=${chosen} onChoose=${(id) => choose(id === chosen ? null : id)} />
    <div aria-live="polite">
      ${vertex && html`<${Details} vertex=${vertex} job=${job} graph=${graph} onClose=${() => choose(null)} />`}
    </div>`;
}

/** A task that waits for most of its time waits for those that read its channels: too much lies unread there. */
function heldBack({ vertices }, edge) {
  return edge.kind === "channel" && vertices.find(({ id }) => id === edge.from)?.back_pressured > 0.5;
}

/** What lies in a channel: nothing is said of one that is empty. */
function unread(edge) {
  return edge.unread_bytes ? `${format.bytes(edge.unread_bytes)} unread` : "";
}

function edgeLabel(edge) {
  return edge.rows_per_second === null ? "" : `${format.rate(edge.rows_per_second)} / s`;
}

function Legend() {
  return html`<span class="legend"><i class="busy"></i>busy <i class="back"></i>back-pressured <i class="idle"></i>idle</span>`;
}

function Details({ vertex, job, graph, onClose }) {
  const into = graph.edges.filter((edge) => edge.to === vertex.id).map((edge) => edge.from);
  const out = graph.edges.filter((edge) => edge.from === vertex.id).map((edge) => edge.to);
  const name = (id) => graph.vertices.find((one) => one.id === id)?.name ?? id;
  const inputs = job.tasks.flatMap((task) => Object.entries(task.inputs ?? {}).filter(([uid]) => uid === vertex.name).map(([, input]) => ({ task, input })));
  return html`<div class="details">
    <div class="details-head">
      <h3 class="wrap">${vertex.kind} ${vertex.name}</h3>
      <button type="button" class="button small" onClick=${onClose}>Close</button>
    </div>
    <${Facts}
      items=${[
        ["Type", vertex.type],
        ["Status", vertex.status],
        ["Subtasks", vertex.parallelism],
        ["Reads", into.map(name).join(", ")],
        ["Feeds", out.map(name).join(", ")],
        ["Rows in", vertex.rows_in !== undefined && vertex.rows_in !== null ? `${format.rate(vertex.rows_in)} / s` : null],
        ["Rows out", vertex.rows_out !== undefined && vertex.rows_out !== null ? `${format.rate(vertex.rows_out)} / s` : null],
        ["Busy", vertex.busy !== null && vertex.busy !== undefined ? format.percent(vertex.busy) : null],
        ["Back-pressured", vertex.back_pressured !== null && vertex.back_pressured !== undefined ? format.percent(vertex.back_pressured) : null],
        ...inputs.map(({ task, input }) => [`Read by ${task.uid}/${task.subtask}`, inputText(input)]),
      ]}
    />
  </div>`;
}

function inputText(input) {
  return [
    input.ended ? "ended" : null,
    input.share !== null && input.share !== undefined ? `${format.percent(input.share)} read` : null,
    input.idle ? "idle" : null,
    input.rows_per_second !== null && input.rows_per_second !== undefined ? `${format.rate(input.rows_per_second)} rows / s` : null,
  ].filter(Boolean).join(", ") || "no data yet";
}

function Numbers({ job }) {
  const latest = job.checkpoint;
  const total = (value) => (value === null || value === undefined ? null : `${format.count(value)} in all`);
  return html`<${Figures}
    items=${[
      { label: "Rows in / s", value: format.rate(job.rows_in), note: total(job.totals?.rows_in) },
      { label: "Rows out / s", value: format.rate(job.rows_out), note: total(job.totals?.rows_out) },
      { label: "Watermark lag", value: format.duration(job.lag_ms), title: job.lag_ms === null ? "" : `${format.count(job.lag_ms)} ms` },
      {
        label: "Last checkpoint",
        value: latest ? html`<${Ago} ms=${latest.completed_ms} />` : format.NONE,
        note: latest && html`${latest.id} · ${format.duration(latest.duration_ms)}`,
      },
      { label: "Rows to commit", value: format.count(job.rows_uncommitted), title: "Written, and visible after the next checkpoint" },
      { label: "Restarts", value: format.count(job.totals?.restarts ?? job.restarts), tone: job.next_attempt_ms ? "warn" : "" },
    ]}
  />`;
}

function Watermark({ task }) {
  if (task.watermark_ms === null || task.watermark_ms === undefined) return format.NONE;
  // The end of an input is a watermark of the year 9999.
  if (task.watermark_ms > 250_000_000_000_000) return "end";
  return html`<${When} ms=${task.watermark_ms} />`;
}

/** What a task does, or did when its driver was last heard of. */
const status = (job, one) => (isBad(job.state) && one.status && one.status !== "closed" ? `was ${one.status}` : one.status);

const TASK_COLUMNS = [
  { label: "Subtask", head: true, cell: (task) => html`<span class="wrap">${task.uid}<span class="muted">/${task.subtask}</span></span>` },
  { label: "Status", cell: (task) => html`<${Badge} state=${task.status} />` },
  { label: "Batch", num: true, cell: (task) => (task.batch < 0 ? format.NONE : format.count(task.batch)) },
  { label: "Rows in / s", num: true, cell: (task) => format.rate(task.rows_in) },
  { label: "Rows out / s", num: true, cell: (task) => format.rate(task.rows_out) },
  { label: "Batch took", num: true, cell: (task) => html`<${Span} ms=${task.batch_duration_ms} />` },
  { label: "Watermark", num: true, cell: (task) => html`<${Watermark} task=${task} />` },
  { label: "Lag", num: true, cell: (task) => html`<${Span} ms=${task.lag_ms} />` },
  { label: "State", num: true, cell: (task) => html`<span title=${task.state_rows === null ? "" : `${format.count(task.state_rows)} rows`}><${Size} bytes=${task.state_bytes} /></span>` },
  { label: "Load", cell: (task) => html`<${Load} busy=${task.busy} back=${task.back_pressured} />` },
];

function Tasks({ job }) {
  if (!job.tasks.length) return null;
  return html`<${Panel} title="Tasks" id="tasks" note=${`${format.plural(job.tasks.length, "subtask")}${isBad(job.state) ? ", as last heard of" : ""}`} flush>
    <${Table}
      caption="Subtasks and what they do now"
      columns=${TASK_COLUMNS}
      rows=${job.tasks.map((task) => ({ ...task, status: status(job, task) }))}
      rowKey=${(task) => `${task.uid}/${task.subtask}`}
      rowClass=${(task) => (task.status === "restarting" ? "warn" : "")}
      more=${(task) => task.status === "restarting" && task.failure && html`<${Problem} tone="warn" head="It failed" error=${task.failure} />`}
    />
  <//>`;
}

// --- charts ----------------------------------------------------------------------------------------------------------

const SPANS = [
  [15, "15 min"],
  [60, "1 h"],
  [360, "6 h"],
];

function Rates({ job, path }) {
  const [minutes, choose] = useState(15);
  // A job that is over shows its last minutes.
  const end = job.ended_ms ?? (isBad(job.state) ? job.heard_ms : null);
  // The moment from which rows are wanted must not change with each reading: it moves by a tenth of the span.
  const step = minutes * 6_000;
  const since = Math.floor(((end ?? now()) + Math.round(job.ahead_ms / 60_000) * 60_000) / step) * step - minutes * 60_000;
  const read = useApi(`${path}/rates?since=${since - AT_REST_MS}`, 5000);
  const last = useRef({});
  if (read.data || last.current.path !== path) last.current = { path, state: read };
  const state = read.error ? read : last.current.state;
  const span = html`<${Segments} label="Span of the charts" options=${SPANS} value=${minutes} onChange=${choose} />`;
  return html`<${Panel} title="Rates" id="rates" right=${span} flush>
    <${Loaded} state=${state}>
      ${({ samples }) =>
        samples.length < 2
          ? html`<${Empty} title="Nothing was measured in this time.">A running job writes a sample every ten seconds, and every ten minutes while nothing changes.<//>`
          : html`<${Charts} samples=${samples} minutes=${minutes} ahead=${job.ahead_ms} alive=${!job.ended_ms && !isBad(job.state)} />`}
    <//>
  <//>`;
}

function Charts({ samples, minutes, ahead, alive }) {
  const tasks = useMemo(() => [...new Set(samples.flatMap((sample) => Object.keys(sample.tasks)))].sort(), [samples]);
  const end = alive ? undefined : samples.at(-1).time_ms;
  const latest = useRef();
  latest.current = () => {
    const until = (end ?? now() + ahead) / 1000;
    return [until - minutes * 60, until];
  };
  const range = useRef(() => latest.current()).current;
  const common = { samples, range, sync: "rates" };
  return html`<div class="charts">
    ${tasks.map((task) => {
      const of = (name) => (sample) => sample.tasks[task]?.[name];
      const shown = (name) => samples.some((sample) => known(sample.tasks[task]?.[name]));
      return html`<section key=${task} class="task-charts" aria-label=${`Charts of ${task}`}>
        <h3 class="wrap">${task}</h3>
        <div class="chart-row">
          <${Chart} ...${common} title="Rows / s" text=${format.rate}
            series=${[
              { label: "in", colour: "--series-1", value: of("rows_in"), fill: true },
              { label: "out", colour: "--series-2", value: of("rows_out") },
            ]} />
          <${Chart} ...${common} title="Batch" text=${format.duration} ticks=${format.short}
            series=${[{ label: "duration", colour: "--series-3", value: of("batch_ms"), fill: true }]} />
          ${shown("lag_ms") && html`<${Chart} ...${common} title="Watermark" text=${format.duration} ticks=${format.short}
            series=${[{ label: "lag", colour: "--series-1", value: of("lag_ms"), fill: true }]} />`}
          <${Chart} ...${common} title="Time" text=${format.percent} top=${1}
            series=${[
              { label: "busy", colour: "--busy", value: of("busy"), fill: true },
              { label: "back-pressured", colour: "--back", value: of("back_pressured"), fill: true },
            ]} />
        </div>
      </section>`;
    })}
  </div>`;
}

const known = (value) => value !== null && value !== undefined;
