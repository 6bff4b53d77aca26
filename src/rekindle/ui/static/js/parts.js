// Parts that several pages have.
import { connection, now, tokenWanted } from "./api.js";
import * as format from "./format.js";
import { html, useEffect, useRef, useState, useStore } from "./lib.js";

// --- states ----------------------------------------------------------------------------------------------------------

/** State of a job, a task or a checkpoint → how it looks. What is not named is over, and quiet. */
const TONES = {
  RUNNING: "good",
  CREATED: "busy",
  STOPPING: "busy",
  RESTARTING: "warn",
  SILENT: "bad",
  LOST: "bad",
  FAILED: "bad",
  UNREADABLE: "bad",
  running: "good",
  starting: "busy",
  finishing: "busy",
  suspending: "busy",
  closing: "busy",
  waiting_for_final_checkpoint: "busy",
  restarting: "warn",
  completed: "good",
  in_progress: "busy",
  failed: "bad",
};

/** What a state means, for those that a reader has to act on. */
export const MEANING = {
  LOST: "The driver died without recording a result.",
  SILENT: "The driver gives no sign of life: its storage is full or read-only, it is stopped, it hangs, or its machine is away.",
  FAILED: "The run failed, and nothing restarts it.",
  RESTARTING: "A task failed and is started again.",
};

export const isBad = (state) => TONES[state] === "bad";

export function Badge({ state }) {
  const text = String(state ?? "unknown");
  return html`<span class="badge ${TONES[text] ?? ""}" data-state=${text}>${text.replaceAll("_", " ")}</span>`;
}

export function Sign() {
  return html`<svg class="sign" viewBox="0 0 20 20" aria-hidden="true">
    <path
      fill="currentColor"
      d="M10 1.8 19 18H1L10 1.8Zm-1 5.7v5.2h2V7.5H9Zm0 6.7v2h2v-2H9Z"
    />
  </svg>`;
}

/** Something that is wrong: what, why, and what to do next. */
export function Problem({ tone = "bad", head, error, message, next, children }) {
  return html`<div class="problem ${tone === "bad" ? "" : tone}">
    <${Sign} />
    <div class="head">${head}</div>
    ${(error?.code || error?.message || message) &&
    html`<p class="message">
      ${error?.code && html`<code class="code">${error.code}</code> `}${error?.message ?? message}
    </p>`}
    ${(error?.next_step || next) && html`<p class="next">${error?.next_step || next}</p>`} ${children}
  </div>`;
}

// --- time ------------------------------------------------------------------------------------------------------------

const ticking = new Set();
setInterval(() => {
  if (!document.hidden) for (const tick of ticking) tick();
}, 1000);

/** The server's time, to the second: a component that shows an age is drawn again when it changes. */
export function useNow() {
  const [, set] = useState(0);
  useEffect(() => {
    const tick = () => set((n) => n + 1);
    ticking.add(tick);
    return () => ticking.delete(tick);
  }, []);
  return now();
}

/** How long ago something was, the exact time in its title. */
export function Ago({ ms, suffix = " ago" }) {
  const at = useNow();
  if (ms === null || ms === undefined) return format.NONE;
  return html`<time datetime=${format.iso(ms)} title=${format.exact(ms)}>${format.age(at - ms)}${suffix}</time>`;
}

/** A time of day, the exact one in its title. */
export function When({ ms }) {
  if (ms === null || ms === undefined) return format.NONE;
  return html`<time class="nowrap" datetime=${format.iso(ms)} title=${format.exact(ms)}>${format.clock(ms)}</time>`;
}

export function Span({ ms }) {
  if (ms === null || ms === undefined) return format.NONE;
  return html`<span class="nowrap" title=${`${format.count(ms)} ms`}>${format.duration(ms)}</span>`;
}

export function Size({ bytes }) {
  if (bytes === null || bytes === undefined) return format.NONE;
  return html`<span class="nowrap" title=${`${format.count(bytes)} bytes`}>${format.bytes(bytes)}</span>`;
}

// --- figures ---------------------------------------------------------------------------------------------------------

/** How a task spends its time: busy, back-pressured, idle. */
export function Load({ busy, back }) {
  if (busy === null || busy === undefined) return format.NONE;
  const text = `busy ${format.percent(busy)}, back-pressured ${format.percent(back)}`;
  return html`<span class="load-line" title=${text}>
    <span class="load" aria-hidden="true">
      <i class="busy" style=${{ width: `${busy * 100}%` }}></i>
      <i class="back" style=${{ width: `${(back ?? 0) * 100}%` }}></i>
    </span>
    <span class="text" aria-hidden="true">${format.percent(Math.min(1, busy + (back ?? 0)))}</span>
    <span class="hidden-visually">${text}</span>
  </span>`;
}

export function Figures({ items }) {
  return html`<dl class="figures">
    ${items.map(
      ({ label, value, note, tone = "", title }) =>
        html`<div key=${label}>
          <dt>${label}</dt>
          <dd class=${tone} title=${title} data-figure=${label}>${value}${note && html`<small>${note}</small>`}</dd>
        </div>`,
    )}
  </dl>`;
}

export function Facts({ items }) {
  return html`<dl class="facts">
    ${items
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([label, value]) => [html`<dt key=${label}>${label}</dt>`, html`<dd key=${`${label} value`}>${value}</dd>`])}
  </dl>`;
}

/** A line of a few points, without axes: which way a figure goes. */
export function Sparkline({ values, label, width = 80, height = 20 }) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const top = Math.max(...known, 1e-9);
  const step = width / (values.length - 1);
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const from = i === 0 || values[i - 1] === null ? "M" : "L";
    path += `${from}${(i * step).toFixed(1)} ${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`;
  });
  return html`<svg class="sparkline" width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="img">
    <title>${label}</title>
    <path d=${path} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />
  </svg>`;
}

// --- tables and panels -----------------------------------------------------------------------------------------------

export function Panel({ title, note, right, children, flush = false, id }) {
  return html`<section class="panel" aria-labelledby=${id}>
    <header>
      <h2 id=${id}>${title}</h2>
      ${note && html`<span class="note">${note}</span>`} ${right && html`<span class="right">${right}</span>`}
    </header>
    ${flush ? children : html`<div class="body">${children}</div>`}
  </section>`;
}

/**
 * A table by its columns: `{label, cell(row), num, head, blank(row)}`. On a narrow screen each row is a card.
 * `more(row)` is a row below a row, over all columns.
 */
export function Table({ caption, columns, rows, rowKey, rowClass, more }) {
  return html`<div class="scroll">
    <table class="cards">
      <caption class="hidden-visually">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(
            ({ label, num, hint }) => html`<th key=${label} scope="col" class=${num ? "num" : ""} title=${hint}>${label}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => {
          const key = rowKey(row);
          const below = more?.(row);
          return [
            html`<tr key=${key} class=${rowClass?.(row) ?? ""}>
              ${columns.map(({ label, cell, num, head, blank }) => {
                const classes = `${num ? "num" : ""} ${blank?.(row) ? "blank" : ""}`;
                return head
                  ? html`<th key=${label} scope="row" class=${classes}>${cell(row)}</th>`
                  : html`<td key=${label} class=${classes} data-label=${label}>${cell(row)}</td>`;
              })}
            </tr>`,
            below && html`<tr key=${`${key} more`} class="more"><td colspan=${columns.length}>${below}</td></tr>`,
          ];
        })}
      </tbody>
    </table>
  </div>`;
}

export function Tabs({ label, items, inner = false }) {
  return html`<nav class=${inner ? "tabs inner" : "tabs"} aria-label=${label}>
    ${items.map(
      ({ text, href, current }) =>
        html`<a key=${href} href=${href} aria-current=${current ? "page" : undefined}>${text}</a>`,
    )}
  </nav>`;
}

// --- states of a page ------------------------------------------------------------------------------------------------

export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong>${children}</div>`;
}

/**
 * What was read, or why it is not there: loading, an error, or both data and an error of a later read.
 * Of what is gone nothing is shown: what it was would look like what it is.
 */
export function Loaded({ state, children }) {
  const { awaySince } = useStore(connection);
  if (state.data !== undefined && state.error?.status !== 404)
    return html`${state.error && html`<${Refused} error=${state.error} />`} ${children(state.data)}`;
  if (state.error) return html`<${Refused} error=${state.error} />`;
  return html`<p class="loading" role="status">${awaySince === null ? "Loading…" : "Waiting for the server…"}</p>`;
}

function Refused({ error }) {
  if (error.status === 401)
    return html`<${Problem} head="This server wants a token">
      <p><button type="button" class="button" onClick=${() => tokenWanted.set(true)}>Enter the token</button></p>
    <//>`;
  return html`<${Problem}
    head=${error.status === 404 ? "Not found" : "This could not be read"}
    error=${{ code: error.code, message: error.message, next_step: error.nextStep }}
  />`;
}

// --- small controls --------------------------------------------------------------------------------------------------

export function Copy({ text, label = "Copy" }) {
  const [done, set] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without TLS a page that is not on this machine has no clipboard.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    set(true);
    timer.current = setTimeout(() => set(false), 1500);
  }
  return html`<button type="button" class="button small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

export function Segments({ label, options, value, onChange }) {
  return html`<span class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([key, text]) =>
        html`<button key=${key} type="button" aria-pressed=${value === key} onClick=${() => onChange(key)}>
          ${text}
        </button>`,
    )}
  </span>`;
}

/** A modal dialog; Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, children }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${onClose}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}
