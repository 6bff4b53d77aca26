// A small chart over time, by uPlot. Charts of a page share their cursor and their span.
import { html, useEffect, useRef, useStore } from "./lib.js";
import { colour, scheme } from "./themes.js";
import uPlot from "../vendor/uplot.js";

const HEIGHT = 118;

/** A driver writes no sample for as long as nothing changes, but for no longer than this. */
export const AT_REST_MS = 600_000;
const GAP_MS = AT_REST_MS + 60_000;

/** Columns for uPlot, with an empty point in each gap: there was no driver, or another one. */
function aligned(samples, series) {
  const columns = [[], ...series.map(() => [])];
  let before;
  for (const sample of samples) {
    if (before && (sample.run !== before.run || sample.time_ms - before.time_ms > GAP_MS)) {
      columns[0].push((before.time_ms + 1000) / 1000);
      for (const column of columns.slice(1)) column.push(null);
    }
    columns[0].push(sample.time_ms / 1000);
    series.forEach(({ value }, i) => columns[i + 1].push(value(sample) ?? null));
    before = sample;
  }
  return columns;
}

export function Chart({ title, samples, series, text, ticks = text, sync, range, top }) {
  const box = useRef();
  const plot = useRef();
  const shown = useStore(scheme);
  const data = aligned(samples, series);
  const latest = (i) => data[i + 1].findLast((value) => value !== null);

  useEffect(() => {
    const [line, muted] = [colour("--line"), colour("--muted")];
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(box.current.clientWidth, 160),
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: sync }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { range: () => range() }, y: { range: (_, least, most) => [0, top ?? Math.max(most * 1.1, least, 1)] } },
      axes: [
        { ...axis, size: 22, space: 60, values: [
          [3600, "{HH}:{mm}", null, null, null, null, null, null, 1],
          [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
          [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
        ] },
        { ...axis, size: 56, space: 28, values: (_, splits) => splits.map((value) => ticks(value)) },
      ],
      series: [
        {},
        ...series.map((one) => ({
          label: one.label,
          stroke: colour(one.colour),
          width: 1.5,
          fill: one.fill ? colour(one.colour).replace("rgb(", "rgba(").replace(")", ", 0.12)") : undefined,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: { setCursor: [(u) => read(u)] },
    };
    plot.current = new uPlot(options, data, box.current);
    const watch = new ResizeObserver(() => {
      const width = Math.max(box.current?.clientWidth ?? 0, 160);
      if (plot.current && width !== plot.current.width) plot.current.setSize({ width, height: HEIGHT });
    });
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [shown, series.length, sync]);

  useEffect(() => plot.current?.setData(data), [samples, range]);

  const values = useRef([]);
  /** Show the values under the cursor, or the latest ones. */
  function read(u) {
    series.forEach((one, i) => {
      const value = u.cursor.idx === null || u.cursor.idx === undefined ? undefined : u.data[i + 1][u.cursor.idx];
      const found = value ?? u.data[i + 1].findLast((other) => other !== null);
      const node = values.current[i]?.firstChild;
      if (node) node.data = found === undefined || found === null ? "–" : text(found);
    });
  }

  const now = series.map((one, i) => `${one.label} ${latest(i) === undefined ? "unknown" : text(latest(i))}`).join(", ");
  return html`<figure class="chart">
    <figcaption>
      <span class="title">${title}</span>
      ${series.map(
        (one, i) =>
          html`<span class="key" key=${one.label}>
            <i style=${{ background: `var(${one.colour})` }}></i>${one.label}
            <b ref=${(node) => (values.current[i] = node)}>${latest(i) === undefined ? "–" : text(latest(i))}</b>
          </span>`,
      )}
    </figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${title}: ${now}`}></div>
  </figure>`;
}
