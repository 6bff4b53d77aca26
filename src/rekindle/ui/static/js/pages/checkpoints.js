// Checkpoints, with the tabs of Flink's dashboard: overview, history, summary, configuration, and one checkpoint.
import { useApi } from "../api.js";
import * as format from "../format.js";
import * as model from "../model.js";
import { html, useState } from "../lib.js";
import { Ago, Badge, Copy, Empty, Facts, Figures, Loaded, Panel, Problem, Segments, Size, Span, Table, Tabs, When } from "../parts.js";

const TABS = [
  ["overview", "Overview", Overview],
  ["history", "History", Listing],
  ["summary", "Summary", Summary],
  ["configuration", "Configuration", Configuration],
];

export function Checkpoints({ job, path, base, rest }) {
  const [name = "overview", id] = rest;
  const [, , Page] = TABS.find(([key]) => key === name) ?? TABS[0];
  const items = TABS.map(([key, text]) => ({ text, href: `${base}/${key}`, current: key === name }));
  return html`<${Tabs} label="Checkpoints" items=${items} inner />
    ${name === "history" && id
      ? html`<${One} key=${id} id=${id} path=${path} base=${base} />`
      : html`<${Page} job=${job} path=${path} base=${base} />`}`;
}

const link = (base, checkpoint) => `${base}/history/${checkpoint.id}`;

// --- overview --------------------------------------------------------------------------------------------------------

function Overview({ path, base }) {
  const state = useApi(`${path}/checkpoints?limit=1000`, 2000, model.checkpoints);
  return html`<${Loaded} state=${state}>
    ${({ counts, latest }) => html`<${Figures}
        items=${[
          { label: "Triggered", value: format.count(counts.triggered) },
          { label: "In progress", value: format.count(counts.in_progress) },
          { label: "Completed", value: format.count(counts.completed) },
          { label: "Failed", value: format.count(counts.failed), tone: counts.failed ? "bad" : "" },
          { label: "Restored", value: format.count(counts.restored) },
        ]}
      />
      <div class="pair">
        <${Latest} title="Latest completed checkpoint" none="None is completed yet." one=${latest.completed} base=${base} />
        <${Latest} title="Latest failed checkpoint" none="None has failed." one=${latest.failed} base=${base} />
        <${Latest} title="Latest savepoint" none="None was made." one=${latest.savepoint} base=${base} />
        <${Restored} one=${latest.restored} />
      </div>`}
  <//>`;
}

function Latest({ title, none, one, base }) {
  const id = title.toLowerCase().replaceAll(" ", "-");
  if (!one) return html`<${Panel} title=${title} id=${id}><p class="muted">${none}</p><//>`;
  const right = html`<a href=${link(base, one)}>Details</a>`;
  return html`<${Panel} title=${title} id=${id} note=${html`number ${one.id}`} right=${right}>
    ${one.failure && html`<p class="message bad-text wrap">${one.failure}</p>`}
    <${Facts}
      items=${[
        ["Kind", one.kind],
        ["Triggered", html`<${When} ms=${one.triggered_ms} />`],
        [one.completed_ms ? "Completed" : "Failed", html`<${Ago} ms=${one.completed_ms ?? one.failed_ms} />`],
        ["Duration, end to end", known(one.duration_ms) ? html`<${Span} ms=${one.duration_ms} />` : null],
        ["Commit of the sinks", known(one.commit_ms) ? html`<${Span} ms=${one.commit_ms} />` : null],
        ["State", known(one.state_bytes) ? html`<${Size} bytes=${one.state_bytes} />` : null],
        ["In-flight data", known(one.in_flight_bytes) ? html`<${Size} bytes=${one.in_flight_bytes} />` : null],
        ["Path", one.savepoint || one.path ? html`<code>${one.savepoint ?? one.path}</code>` : null],
      ]}
    />
  <//>`;
}

function Restored({ one }) {
  return html`<${Panel} title="Latest restore" id="latest-restore">
    ${one
      ? html`<${Facts}
          items=${[
            ["Checkpoint", one.checkpoint],
            ["Restored", html`<${Ago} ms=${one.restored_ms} />`],
            ["Type", one.checkpoint === null ? "savepoint" : "checkpoint"],
            ["Run", one.run],
            ["Path", one.path ? html`<code>${one.path}</code>` : null],
          ]}
        />`
      : html`<p class="muted">This job has always begun where it was.</p>`}
  <//>`;
}

const known = (value) => value !== null && value !== undefined;

// --- history ---------------------------------------------------------------------------------------------------------

const acknowledged = (one) => [one.acknowledged, one.subtasks];

const HISTORY = (base) => [
  { label: "Number", head: true, cell: (one) => html`<a href=${link(base, one)}>${one.id}</a>` },
  { label: "Status", cell: (one) => html`<${Badge} state=${one.status} />` },
  { label: "Kind", cell: (one) => one.kind },
  {
    label: "Acknowledged",
    num: true,
    cell: (one) => {
      const [done, of] = acknowledged(one);
      return of ? `${done} / ${of}` : format.NONE;
    },
  },
  { label: "Triggered", num: true, cell: (one) => html`<${When} ms=${one.triggered_ms} />` },
  { label: "Duration", num: true, cell: (one) => html`<${Span} ms=${one.duration_ms} />` },
  { label: "Commit", num: true, hint: "How long the sinks took to commit", cell: (one) => html`<${Span} ms=${one.commit_ms} />` },
  { label: "State", num: true, cell: (one) => html`<${Size} bytes=${one.state_bytes} />` },
  { label: "In flight", num: true, cell: (one) => html`<${Size} bytes=${one.in_flight_bytes} />` },
];

const WHICH = [
  ["all", "All"],
  ["failed", "Failed"],
  ["savepoint", "Savepoints"],
];

function Listing({ path, base }) {
  const state = useApi(`${path}/checkpoints?limit=1000`, 2000, model.checkpoints);
  const [which, choose] = useState("all");
  const [most, setMost] = useState(50);
  return html`<${Loaded} state=${state}>
    ${({ history }) => {
      const found = history.filter((one) => which === "all" || one.status === which || (which === "savepoint" && (one.kind === "savepoint" || one.savepoint)));
      return html`<${Panel}
        title="History"
        id="checkpoint-history"
        note=${`the newest first; ${format.plural(history.length, "checkpoint")} kept here`}
        right=${html`<${Segments} label="Which checkpoints" options=${WHICH} value=${which} onChange=${choose} />`}
        flush
      >
        ${found.length
          ? html`<${Table}
              caption="Checkpoints, the newest first"
              columns=${HISTORY(base)}
              rows=${found.slice(0, most)}
              rowKey=${(one) => `${one.run} ${one.id} ${one.triggered_ms}`}
              rowClass=${(one) => `row-link ${one.status === "failed" ? "bad" : ""}`}
              more=${(one) => one.failure && html`<span class="bad-text wrap">${one.failure}</span>`}
            />`
          : html`<${Empty} title="There is none." />`}
        ${found.length > most &&
        html`<p class="more-line"><button type="button" class="button" onClick=${() => setMost(most + 200)}>Show more (${format.count(found.length - most)})</button></p>`}
      <//>`;
    }}
  <//>`;
}

// --- one -------------------------------------------------------------------------------------------------------------

function One({ id, path, base }) {
  const state = useApi(`${path}/checkpoints/${encodeURIComponent(id)}`, 2000, model.checkpoint);
  return html`<p class="back-line"><a href=${`${base}/history`}>← History</a></p>
    <${Loaded} state=${state}>
      ${(one) => {
        const [done, of] = acknowledged(one);
        return html`<div class="title-line">
            <h2 class="large">Checkpoint ${one.id}</h2>
            <${Badge} state=${one.status} />
          </div>
          ${one.failure && html`<${Problem} head="It failed" message=${one.failure} />`}
          <${Figures}
            items=${[
              { label: "Duration, end to end", value: html`<${Span} ms=${one.duration_ms} />` },
              { label: "Acknowledged", value: of ? `${done} / ${of}` : format.NONE },
              { label: "Commit of the sinks", value: html`<${Span} ms=${one.commit_ms} />` },
              { label: "State", value: html`<${Size} bytes=${one.state_bytes} />` },
              { label: "In-flight data", value: html`<${Size} bytes=${one.in_flight_bytes} />` },
            ]}
          />
          <${Panel} title="Facts" id="facts">
            <${Facts}
              items=${[
                ["Kind", one.kind],
                ["Run", one.run],
                ["Triggered", html`<${When} ms=${one.triggered_ms} />`],
                ["Completed", one.completed_ms ? html`<${When} ms=${one.completed_ms} />` : null],
                ["Failed", one.failed_ms ? html`<${When} ms=${one.failed_ms} />` : null],
                ["Path", one.path ? html`<code>${one.path}</code> <${Copy} text=${one.path} />` : null],
                ["Savepoint", one.savepoint ? html`<code>${one.savepoint}</code> <${Copy} text=${one.savepoint} />` : null],
              ]}
            />
          <//>
          <${Sinks} sinks=${one.sinks} />
          <${Subtasks} subtasks=${one.parts} status=${one.status} />`;
      }}
    <//>`;
}

function Sinks({ sinks }) {
  if (!sinks.length) return null;
  return html`<${Panel} title="Sinks" id="sinks" flush>
    <${Table}
      caption="How long each sink took to commit"
      columns=${[
        { label: "Sink", head: true, cell: ([uid]) => html`<span class="wrap">${uid}</span>` },
        { label: "Commit", num: true, hint: "Without what had to be repeated", cell: ([, ms]) => html`<${Span} ms=${ms} />` },
      ]}
      rows=${sinks}
      rowKey=${([uid]) => uid}
    />
  <//>`;
}

/** When a subtask acknowledged; one that has not may still do so only while the checkpoint is being taken. */
function Acknowledged({ s, status }) {
  if (s.finished) return "finished before";
  if (known(s.acknowledged_ms)) return html`<${Span} ms=${s.acknowledged_ms} />`;
  return status === "in_progress" ? html`<${Badge} state="in_progress" />` : "never";
}

const SUBTASKS = (status) => [
  { label: "Subtask", head: true, cell: (s) => html`<span class="wrap">${s.uid}<span class="muted">/${s.subtask}</span></span>` },
  { label: "Acknowledged", num: true, hint: "After the trigger", cell: (s) => html`<${Acknowledged} s=${s} status=${status} />` },
  { label: "Alignment", num: true, hint: "How long the barriers took to arrive on all channels", cell: (s) => html`<${Span} ms=${s.alignment_ms} />` },
  { label: "Snapshot", num: true, hint: "From the barriers until Spark had committed the batch", cell: (s) => html`<${Span} ms=${s.sync_ms} />` },
  { label: "State", num: true, cell: (s) => html`<${Size} bytes=${s.state_bytes} />` },
  { label: "In flight", num: true, cell: (s) => html`<${Size} bytes=${s.in_flight_bytes} />` },
  { label: "Unaligned", cell: (s) => (s.unaligned ? "yes" : "no") },
];

const PARTS = [
  ["acknowledged_ms", "Acknowledged", (ms) => html`<${Span} ms=${ms} />`],
  ["alignment_ms", "Alignment", (ms) => html`<${Span} ms=${ms} />`],
  ["sync_ms", "Snapshot", (ms) => html`<${Span} ms=${ms} />`],
  ["state_bytes", "State", (size) => html`<${Size} bytes=${size} />`],
  ["in_flight_bytes", "In flight", (size) => html`<${Size} bytes=${size} />`],
];

function Subtasks({ subtasks, status }) {
  if (!subtasks.length)
    return html`<section class="panel"><${Empty} title="What its subtasks took was not written down.">An older version took it, or its history is deleted.<//></section>`;
  const rows = PARTS.map(([key, label, show]) => {
    const values = subtasks.map((s) => s[key]).filter(known);
    if (!values.length) return null;
    return { label, show, min: Math.min(...values), avg: values.reduce((a, b) => a + b, 0) / values.length, max: Math.max(...values) };
  }).filter(Boolean);
  const figure = (key) => (row) => row.show(row[key]);
  return html`<${Panel} title="Subtasks" id="subtasks" flush>
      <${Table} caption="Subtasks of this checkpoint" columns=${SUBTASKS(status)} rows=${subtasks} rowKey=${(s) => `${s.uid}/${s.subtask}`} />
    <//>
    ${subtasks.length > 1 && rows.length > 0 &&
    html`<${Panel} title="Over all subtasks" id="over-subtasks" flush>
      <${Table}
        caption="Least, average and most of the subtasks"
        columns=${[
          { label: "Figure", head: true, cell: (row) => row.label },
          { label: "Min", num: true, cell: figure("min") },
          { label: "Average", num: true, cell: figure("avg") },
          { label: "Max", num: true, cell: figure("max") },
        ]}
        rows=${rows}
        rowKey=${(row) => row.label}
      />
    <//>`}`;
}

// --- summary ---------------------------------------------------------------------------------------------------------

const MEASURED = [
  ["duration_ms", "Duration, end to end", Span, "ms"],
  ["commit_ms", "Commit of the sinks", Span, "ms"],
  ["state_bytes", "State", Size, "bytes"],
  ["in_flight_bytes", "In-flight data", Size, "bytes"],
  ["alignment_ms", "Alignment of a subtask", Span, "ms"],
  ["sync_ms", "Snapshot of a subtask", Span, "ms"],
];

const SPREAD = [
  ["min", "Min"],
  ["avg", "Average"],
  ["max", "Max"],
  ["p50", "p50"],
  ["p90", "p90"],
  ["p95", "p95"],
  ["p99", "p99"],
  ["p999", "p99.9"],
];

function Summary({ path }) {
  const state = useApi(`${path}/checkpoints/summary`, 5000);
  return html`<${Loaded} state=${state}>
    ${(summary) => {
      const rows = MEASURED.filter(([key]) => summary[key]);
      if (!rows.length) return html`<section class="panel"><${Empty} title="No checkpoint is completed yet.">The summary begins with the first one.<//></section>`;
      const columns = [
        { label: "Figure", head: true, cell: ([, label]) => label },
        ...SPREAD.map(([part, label]) => ({
          label,
          num: true,
          cell: ([key, , Shown, unit]) => html`<${Shown} ...${{ [unit]: summary[key][part] }} />`,
        })),
      ];
      const note = `over the latest ${format.plural(summary.count, "completed checkpoint")}`;
      return html`<${Panel} title="Summary" id="summary" note=${note} flush>
        <${Table} caption="How the figures of completed checkpoints are spread" columns=${columns} rows=${rows} rowKey=${([key]) => key} />
      <//>`;
    }}
  <//>`;
}

// --- configuration ---------------------------------------------------------------------------------------------------

function Configuration({ path }) {
  const state = useApi(`${path}/checkpoints/config`, 10_000);
  return html`<${Loaded} state=${state}>
    ${(config) => html`<${Panel} title="Configuration" id="configuration" note="of the current run, or the last one" flush>
      <${Table}
        caption="Settings of checkpoints"
        columns=${[
          { label: "Setting", head: true, cell: ([key]) => key.replace(/_ms$/, "").replaceAll("_", " ") },
          { label: "Value", cell: ([key, value]) => html`<span class="wrap">${key.endsWith("_ms") ? format.duration(value) : String(value)}</span>` },
        ]}
        rows=${Object.entries(config).filter(([, value]) => value !== null && value !== "")}
        rowKey=${([key]) => key}
      />
    <//>`}
  <//>`;
}
