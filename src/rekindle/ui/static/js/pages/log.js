// The end of the log of a run, as `rekindle logs` shows all of it.
import { useApi } from "../api.js";
import * as format from "../format.js";
import { html, useLayoutEffect, useRef, useState } from "../lib.js";
import { Copy, Empty, Loaded, Panel, Segments } from "../parts.js";

const LINES = 200;

const LEVELS = [
  ["DEBUG", "All"],
  ["WARNING", "Warnings and errors"],
  ["ERROR", "Errors"],
];
const RANK = { DEBUG: 0, INFO: 1, WARNING: 2, ERROR: 3, CRITICAL: 4 };
const rank = (level) => RANK[level] ?? 1;
const tone = (level) => (rank(level) >= RANK.ERROR ? "error" : level === "WARNING" ? "warning" : "");

export function Log({ job, path, run }) {
  const state = useApi(`${path}/logs?limit=${LINES}${run === null ? "" : `&run=${run}`}`, 4000);
  const [least, choose] = useState("DEBUG");
  // A name of a job has no letter that a shell would read.
  const command = `rekindle logs ${job.job}${run === null ? "" : ` --run ${run}`}`;
  const note = html`${run === null ? "of the newest run" : `of run ${run}`}, the last ${LINES} lines. All: <code>${command}</code> <${Copy} text=${command} label="Copy command" />`;
  const right = html`<${Segments} label="Which lines" options=${LEVELS} value=${least} onChange=${choose} />`;
  return html`<${Panel} title="Log" id="log" note=${note} right=${right} flush>
    <${Loaded} state=${state}>
      ${(lines) => {
        const found = lines.filter((line) => rank(line.level) >= rank(least));
        return found.length
          ? html`<${Lines} key=${`${run} ${least}`} lines=${found} />`
          : html`<${Empty} title=${lines.length ? "No line is that grave." : "This run has no log."} />`;
      }}
    <//>
  <//>`;
}

/** Lines with keys that stay while older ones leave: a trace that was opened stays open. */
function keyed(lines) {
  const times = new Map();
  return lines.map((line) => {
    const what = `${line.time_ms} ${line.logger} ${line.message}`;
    times.set(what, (times.get(what) ?? 0) + 1);
    return [`${what} ${times.get(what)}`, line];
  });
}

/** The newest line stands last, and stays in sight unless the reader has scrolled up. */
function Lines({ lines }) {
  const box = useRef();
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const scrolled = ({ target }) => (atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 8);
  return html`<ol class="log" ref=${box} onScroll=${scrolled} tabindex="0" aria-label="Lines of the log, the newest last">
    ${keyed(lines).map(
      ([key, line]) => html`<li key=${key} class="log-line ${tone(line.level)}">
        <p><time datetime=${format.iso(line.time_ms)} title=${format.exact(line.time_ms)}>${format.clock(line.time_ms)}</time> <b>${line.level}</b> <bdi class="muted">${line.logger}:</bdi> <bdi class="text">${line.message}</bdi></p>
        ${line.trace && html`<details class="trace"><summary>Trace</summary><pre class="trace" tabindex="0">${line.trace}</pre></details>`}
      </li>`,
    )}
  </ol>`;
}
