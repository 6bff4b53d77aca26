// Runs of a job and what happened in them; errors with their traces.
import { useApi } from "../api.js";
import * as format from "../format.js";
import * as model from "../model.js";
import { html, useState } from "../lib.js";
import { Ago, Badge, Copy, Empty, Loaded, Panel, Problem, Segments, Span, Table, useNow, When } from "../parts.js";
import { Log } from "./log.js";

export function History({ job, path }) {
  const [run, choose] = useState(null);
  return html`<${Runs} job=${job} path=${path} chosen=${run} onChoose=${choose} /><${Log} job=${job} path=${path} run=${run} /><${Events} path=${path} run=${run} onRun=${choose} />`;
}

function Lasted({ run }) {
  const at = useNow();
  if (run.ended_ms) return html`<${Span} ms=${run.ended_ms - run.started_ms} />`;
  if (run.state === "RUNNING" || run.state === "STOPPING") return format.age(at - run.started_ms);
  return format.NONE;
}

function Runs({ job, path, chosen, onChoose }) {
  const state = useApi(`${path}/runs`, 2000, model.runs);
  const [most, setMost] = useState(8);
  return html`<${Loaded} state=${state}>
    ${({ runs }) => html`<${Panel} title="Runs" id="runs" note=${`${format.plural(runs.length, "run")}, the newest first`} flush>
      ${runs.length
        ? html`<${Table}
            caption="Runs, the newest first"
            columns=${[
              { label: "Run", head: true, cell: (one) => one.run },
              { label: "State", cell: (one) => html`<${Badge} state=${one.state} />` },
              { label: "Started", cell: (one) => html`<${When} ms=${one.started_ms} />` },
              { label: "Lasted", num: true, cell: (one) => html`<${Lasted} run=${one} />` },
              { label: "Last checkpoint", num: true, cell: (one) => format.count(one.checkpoint) },
              { label: "From", cell: (one) => html`<span class="wrap">${one.restore_from ? html`<code>${one.restore_from}</code>` : "where it was"}</span>` },
              { label: "Where", cell: (one) => html`<span class="wrap">${one.host} (${one.pid})</span>` },
              {
                label: "Events and log",
                cell: (one) =>
                  html`<button type="button" class="button small" aria-pressed=${chosen === one.run} onClick=${() => onChoose(chosen === one.run ? null : one.run)}>
                    ${chosen === one.run ? "Of all runs" : "Only its own"}
                  </button>`,
              },
            ]}
            rows=${runs.slice(0, most)}
            rowKey=${(one) => one.run}
            rowClass=${(one) => (["FAILED", "LOST", "SILENT"].includes(one.state) ? "bad" : "")}
            more=${(one) => (one.error || one.notes?.length > 0) && html`<${RunEnd} one=${one} />`}
          />`
        : html`<${Empty} title="It has not run yet." />`}
      ${runs.length > most && html`<p class="more-line"><button type="button" class="button" onClick=${() => setMost(most + 50)}>Show more (${runs.length - most})</button></p>`}
    <//>`}
  <//>`;
}

function RunEnd({ one }) {
  return html`<div class="run-end">
    ${one.error && html`<p class="wrap"><code class="code bad-text">${one.error.code}</code> ${one.error.message}</p>`}
    ${one.notes?.map((note) => html`<p class="muted wrap" key=${note}>${note}</p>`)}
  </div>`;
}

const SEVERITIES = [
  ["info", "All"],
  ["warning", "Warnings and errors"],
  ["error", "Errors"],
];
const RANK = { info: 0, warning: 1, error: 2 };

function Events({ path, run, onRun }) {
  const state = useApi(`${path}/events?limit=1000${run === null ? "" : `&run=${run}`}`, 2000, model.events);
  const [least, choose] = useState("info");
  const [most, setMost] = useState(100);
  return html`<${Loaded} state=${state}>
    ${({ events }) => {
      const found = grouped(events.filter((event) => RANK[event.severity] >= RANK[least]).reverse());
      const note = run === null ? "the newest first" : html`of run ${run} <button type="button" class="button small" onClick=${() => onRun(null)}>all runs</button>`;
      return html`<${Panel} title="Events" id="events" note=${note} right=${html`<${Segments} label="Which events" options=${SEVERITIES} value=${least} onChange=${choose} />`} flush>
        ${found.length
          ? html`<ol class="events">${found.slice(0, most).map((event) => html`<${Line} key=${event.number ?? `${event.time_ms} ${event.kind} ${event.task}`} event=${event} />`)}</ol>`
          : html`<${Empty} title=${events.length ? "No event is that grave." : "Nothing is written down yet."} />`}
        ${found.length > most && html`<p class="more-line"><button type="button" class="button" onClick=${() => setMost(most + 400)}>Show more (${format.count(found.length - most)})</button></p>`}
      <//>`;
    }}
  <//>`;
}

/** Neighbours that only say that a checkpoint is completed become one line. */
function grouped(events) {
  const lines = [];
  for (const event of events) {
    const before = lines.at(-1);
    if (event.kind === "checkpoint_completed" && before?.kind === event.kind && before.run === event.run)
      lines[lines.length - 1] = { ...before, first: event, times: (before.times ?? 1) + 1 };
    else lines.push(event);
  }
  return lines;
}

function about(event) {
  const { first, times } = event;
  const number = (one) => one.checkpoint !== null && one.checkpoint !== undefined;
  return [
    `run ${event.run}`,
    event.task,
    first && number(event) ? `checkpoints ${first.checkpoint} to ${event.checkpoint}, ${times} of them` : null,
    !first && number(event) ? `checkpoint ${event.checkpoint}` : null,
    event.by ? `by ${event.by}` : null,
  ];
}

function Line({ event }) {
  const { error } = event;
  return html`<li class="event ${event.severity}">
    <div class="event-time"><${When} ms=${event.time_ms} /></div>
    <div class="event-text">
      <p>
        <b class="kind">${event.times ? "checkpoints completed" : event.kind.replaceAll("_", " ")}</b>
        ${event.message && !event.times && html` <span class="wrap">${event.message}</span>`}
      </p>
      ${event.path && html`<p><code class="wrap">${event.path}</code></p>`}
      ${error && html`<${Problem} tone=${event.severity === "error" ? "bad" : "warn"} error=${error} />`}
      ${error?.trace &&
      html`<details class="trace">
        <summary>Trace</summary>
        <div class="trace-tools"><${Copy} text=${error.trace} label="Copy trace" /></div>
        <pre class="trace" tabindex="0">${error.trace}</pre>
      </details>`}
    </div>
    <p class="event-about muted wrap">${about(event).filter(Boolean).join(" · ")}</p>
  </li>`;
}
