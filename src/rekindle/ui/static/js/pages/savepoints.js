// Savepoints of a job, and what is in one of them.
import { useApi } from "../api.js";
import * as format from "../format.js";
import * as model from "../model.js";
import { html, useState } from "../lib.js";
import { Ago, Copy, Empty, Facts, Loaded, Panel, Size, Table, When } from "../parts.js";

export function Savepoints({ job, path }) {
  const state = useApi(`${path}/savepoints`, 5000, model.savepoints);
  const [open, setOpen] = useState(null);
  return html`<${Loaded} state=${state}>
    ${({ savepoints }) =>
      html`<${Panel} title="Savepoints" id="savepoints" note="copies that can be moved, and started from" flush>
        ${savepoints.length
          ? html`<${Table}
              caption="Savepoints, the newest first"
              columns=${columns(open, setOpen)}
              rows=${savepoints}
              rowKey=${(one) => one.path}
              more=${(one) => open === one.path && html`<${Contents} one=${one} path=${path} />`}
            />`
          : html`<${Empty} title="No savepoint of this job is known here.">
              <div>Make one while the job runs:</div>
              <code>rekindle savepoint ${job.name}</code>
            <//>`}
      <//>`}
  <//>`;
}

const columns = (open, setOpen) => [
  {
    label: "Savepoint",
    head: true,
    cell: (one) =>
      html`<button
        type="button"
        class="button plain disclose"
        aria-expanded=${open === one.path ? "true" : "false"}
        onClick=${() => setOpen(open === one.path ? null : one.path)}
      >
        <span aria-hidden="true">${open === one.path ? "▾" : "▸"}</span> of checkpoint ${one.checkpoint}
      </button>`,
  },
  { label: "Made", cell: (one) => html`<${Ago} ms=${one.completed_ms} />` },
  { label: "Kind", cell: (one) => one.kind },
  { label: "Size", num: true, cell: (one) => html`<${Size} bytes=${one.size_bytes} />` },
  { label: "Where", cell: (one) => html`<code class="wrap">${one.path}</code>` },
];

const inputs = (found) => Object.entries(found).map(([uid, at]) => `${uid}: ${typeof at === "object" ? JSON.stringify(at) : at}`).join("; ");

/** A figure of all operators; null where one of them does not tell, or there is none. */
function total(state, name) {
  const known = state.length > 0 && state.every((one) => one[name] !== null);
  return known ? state.reduce((sum, one) => sum + one[name], 0) : null;
}

const OPERATORS = [
  { label: "Operator", head: true, cell: (one) => html`<span class="wrap">${one.name}<span class="muted"> ${one.operator}</span></span>` },
  { label: "Rows", num: true, cell: (one) => format.count(one.rows) },
  { label: "Bytes", num: true, cell: (one) => html`<${Size} bytes=${one.bytes} />` },
  { label: "Partitions", num: true, cell: (one) => format.count(one.partitions) },
];

const SUBTASKS = [
  { label: "Subtask", head: true, cell: (s) => html`<span class="wrap">${s.uid}<span class="muted">/${s.subtask}</span></span>` },
  { label: "Batch", num: true, cell: (s) => (s.batch < 0 ? format.NONE : format.count(s.batch)) },
  { label: "Watermark", cell: (s) => html`<${When} ms=${s.watermark_ms} />` },
  { label: "Inputs", cell: (s) => html`<span class="wrap">${inputs(s.inputs) || format.NONE}</span>` },
  { label: "State rows", num: true, cell: (s) => format.count(total(s.state, "rows")) },
  { label: "State", num: true, cell: (s) => html`<${Size} bytes=${total(s.state, "bytes")} />` },
  { label: "Finished", cell: (s) => (s.finished ? "yes" : "no") },
];

function State({ subtask }) {
  const caption = `Operators of ${subtask.uid}/${subtask.subtask} that keep state`;
  return html`<${Table} caption=${caption} columns=${OPERATORS} rows=${subtask.state} rowKey=${(one) => one.operator} />`;
}

function Contents({ one, path }) {
  const command = `rekindle run JOBFILE --from ${one.path}`;
  const state = useApi(`${path}/savepoints/${one.checkpoint}/contents`, 0);
  return html`<div class="stack">
    <p class="command"><code class="wrap">${command}</code> <${Copy} text=${command} label="Copy command" /></p>
    <${Loaded} state=${state}>
      ${(contents) =>
        html`<${Facts}
            items=${[
              ["Run", contents.run],
              ["Taken", html`<${When} ms=${contents.completed_ms} />`],
              ["Size", html`<${Size} bytes=${contents.size_bytes} />`],
              ["In-flight data", html`<${Size} bytes=${contents.in_flight_bytes} />`],
              ["Drained", contents.drained ? "yes: windows were emitted before their time" : "no"],
              ["Finished tasks", contents.finished_tasks.join(", ") || "none"],
            ]}
          />
          <${Table}
            caption="What is in it"
            columns=${SUBTASKS}
            rows=${contents.subtasks}
            rowKey=${(s) => `${s.uid}/${s.subtask}`}
            more=${(s) => s.state.length > 0 && html`<${State} subtask=${s} />`}
          />`}
    <//>
  </div>`;
}
