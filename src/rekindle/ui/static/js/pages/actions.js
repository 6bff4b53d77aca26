// What a reader may ask of a running job, where the server allows it. Each is asked for once more, and says what it does.
import { act, keepToken, token } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog, Problem } from "../parts.js";

const VERBS = [
  {
    name: "checkpoint",
    text: "Checkpoint",
    does: "A checkpoint is taken now. What the sinks hold becomes visible with it. The job runs on.",
    confirm: "Take a checkpoint",
  },
  {
    name: "savepoint",
    text: "Savepoint",
    does: "A checkpoint is taken now and copied to a place of its own, which can be moved and started from. The job runs on.",
    confirm: "Make a savepoint",
  },
  {
    name: "stop",
    text: "Stop",
    does: "The batches under way are finished, a last checkpoint is committed, and the job ends. rekindle run resumes right after it.",
    confirm: "Stop the job",
    tone: "danger",
  },
  {
    name: "drain",
    text: "Drain",
    does: "The job ends for good: every open window is emitted, complete or not, and committed. It is not meant to be resumed.",
    confirm: "Drain the job",
    tone: "danger",
  },
  {
    name: "cancel",
    text: "Cancel",
    does: "The job ends now, without a checkpoint. Rows since the last checkpoint are not committed; rekindle run reads them again.",
    confirm: "Cancel the job",
    tone: "danger",
  },
];

const TOKEN = "It is that of --token-file or REKINDLE_UI_TOKEN, or else the one that the server printed when it began.";

/** How an error is headed. One that is not the server's own, of a proxy or of the network, says nothing of the driver. */
function head(error) {
  if (error.status === 401) return "The token is not the right one";
  return error.nextStep ? "It was not done" : "No answer came. It may be done all the same: see the events of the job";
}

/** What the driver answered. */
function said(verb, answer) {
  if (!answer.done) return "The driver needs longer; the events of the job say what comes of it.";
  return [answer.checkpoint === null ? "" : `Checkpoint ${answer.checkpoint} is complete.`, answer.state ? `The job is ${answer.state}.` : "", ...answer.notes].filter(Boolean).join(" ");
}

export function Actions({ job, path }) {
  const [verb, ask] = useState(null);
  return html`<div class="actions" role="group" aria-label="Actions">
    ${VERBS.map(
      (one) =>
        html`<button key=${one.name} type="button" class="button" data-action=${one.name} onClick=${() => ask(one)}>${one.text}</button>`,
    )}
    ${verb && html`<${Confirm} key=${verb.name} verb=${verb} job=${job} path=${path} onClose=${() => ask(null)} />`}
  </div>`;
}

function Confirm({ verb, job, path, onClose }) {
  const [state, set] = useState({});
  const [secret, setSecret] = useState("");
  const needed = state.error?.status === 401 || !token();

  async function send(event) {
    event.preventDefault();
    if (needed && secret) keepToken(secret);
    set({ busy: true });
    try {
      set({ answer: await act(`${path}/${verb.name}`) });
    } catch (error) {
      if (error.status === 401) keepToken(null);
      set({ error });
    }
  }

  const { answer, error, busy } = state;
  return html`<${Dialog} title=${`${verb.confirm}: ${job.name}`} onClose=${onClose}>
    ${answer
      ? html`<p role="status"><b>${answer.done ? "Done." : "Asked for."}</b> <span class="wrap">${said(verb, answer)}</span></p>
          ${answer.savepoint && html`<p><code class="wrap">${answer.savepoint}</code></p>`}
          <div class="buttons"><button type="button" class="button primary" onClick=${onClose}>Close</button></div>`
      : html`<p>${verb.does}</p>
          <form onSubmit=${send}>
            ${needed &&
            html`<label>
              Token of the server
              <input type="password" autocomplete="off" required value=${secret} onInput=${(e) => setSecret(e.target.value)} />
            </label>`}
            <div role="alert">
              ${error &&
              html`<${Problem}
                head=${head(error)}
                error=${{ code: error.code, message: error.message, next_step: error.status === 401 ? TOKEN : error.nextStep }}
              />`}
            </div>
            <div class="buttons">
              <button type="button" class="button" onClick=${onClose}>Do nothing</button>
              <button class="button ${verb.tone ?? "primary"}" disabled=${busy}>${busy ? "Asking the driver…" : verb.confirm}</button>
            </div>
          </form>`}
  <//>`;
}
