// Settings in force in the newest run.
import { useApi } from "../api.js";
import { html } from "../lib.js";
import { Empty, Loaded, Panel, Table } from "../parts.js";

export function Settings({ path }) {
  const state = useApi(`${path}/settings`, 10_000);
  return html`<${Loaded} state=${state}>
    ${({ run, settings, what }) => {
      const rows = Object.entries(settings);
      if (!rows.length)
        return html`<section class="panel"><${Empty} title="The settings are not known.">An older version started this run.<//></section>`;
      return html`<${Panel} title="Settings" id="settings" note=${`in force in run ${run}`} flush>
        <${Table}
          caption="Settings in force"
          columns=${[
            { label: "Setting", head: true, cell: ([key]) => html`<span class="wrap"><code>${key}</code>${what[key] && html` <span class="muted small">${what[key]}</span>`}</span>` },
            { label: "Value", cell: ([, value]) => html`<span class="wrap">${value}</span>` },
          ]}
          rows=${rows}
          rowKey=${([key]) => key}
        />
      <//>`;
    }}
  <//>`;
}
