// A job's graph, laid out by dagre and drawn in SVG: sources, tasks, sinks, and what flows between them.
import * as format from "./format.js";
import { html, useMemo, useMedia } from "./lib.js";
import { Graph, layout } from "../vendor/dagre.js";

const SIZE = { task: [196, 86], source: [168, 50], sink: [168, 50] };
/** Across the screen a line runs under its label; down the screen the label stands beside it. */
const LABEL = {
  LR: { width: 92, height: 20, labelpos: "c" },
  TB: { width: 80, height: 30, labelpos: "r", labeloffset: 8 },
};
const MARGIN = 10;
/** So small it may become to fit; what is still wider is scrolled. */
const SMALLEST = 0.75;

/** Where everything is. Only the shape of the graph counts, so numbers that change move nothing. */
function arrange(shape, rankdir) {
  const { vertices, edges } = JSON.parse(shape);
  const graph = new Graph();
  graph.setGraph({ rankdir, nodesep: 22, ranksep: rankdir === "LR" ? 36 : 26, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [id, kind] of vertices) {
    const [width, height] = SIZE[kind] ?? SIZE.task;
    graph.setNode(id, { width, height });
  }
  for (const [from, to] of edges) {
    if (graph.hasNode(from) && graph.hasNode(to))
      graph.setEdge(from, to, { ...LABEL[rankdir] });
  }
  layout(graph);
  const { width, height } = graph.graph();
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    beside: rankdir === "TB",
    vertices: new Map(vertices.map(([id]) => [id, graph.node(id)])),
    edges: new Map(edges.map(([from, to]) => [`${from} ${to}`, graph.edge(from, to)])),
  };
}

/** A line through points, rounded at each of them. */
function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, i) => {
    const next = rest[i + 1];
    if (next) path += `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
    else path += `L${point.x} ${point.y}`;
  });
  return path;
}

/** As much of a text as fits; all of it is in the title. */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Vertex({ vertex, at, chosen, onChoose }) {
  const { width, height } = at;
  const { kind, name } = vertex;
  const task = kind === "task";
  const choose = () => onChoose(vertex.id);
  const key = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  };
  const lines = task
    ? [
        `${format.rate(vertex.rows_in)} rows / s`,
        vertex.lag_ms === null || vertex.lag_ms === undefined ? vertex.status : `lag ${format.duration(vertex.lag_ms)}`,
      ]
    : [[vertex.type, vertex.note].filter(Boolean).join(" · ")];
  const busy = vertex.busy ?? 0;
  const back = vertex.back_pressured ?? 0;
  const share = task && vertex.busy !== null ? `busy ${format.percent(busy)}, back-pressured ${format.percent(back)}` : "";
  const label = [`${kind} ${name}`, vertex.status, ...lines, share].filter(Boolean).join(", ");
  const tone = !task || vertex.busy === null ? "" : back > 0.5 ? "back" : busy > 0.8 ? "hot" : "";
  return html`<g
    class="vertex ${kind} ${tone} ${vertex.bad ? "bad" : ""} ${chosen ? "chosen" : ""}"
    transform="translate(${at.x - width / 2} ${at.y - height / 2})"
    role="button"
    tabindex="0"
    aria-pressed=${chosen ? "true" : "false"}
    aria-label=${label}
    data-vertex=${vertex.id}
    onClick=${choose}
    onKeyDown=${key}
  >
    <title>${`${kind} ${name}`}</title>
    <rect class="box" width=${width} height=${height} rx=${task ? 6 : height / 2} />
    ${task
      ? html`<text class="name" x="12" y="22">${cut(name, vertex.parallelism > 1 ? 18 : 23)}</text>
          ${vertex.parallelism > 1 && html`<text class="par" x=${width - 12} y="22">× ${vertex.parallelism}</text>`}
          <text class="line" x="12" y="41">${lines[0]}</text>
          <text class="line" x="12" y="58">${cut(lines[1] ?? "", 24)}</text>
          <rect class="track" x="12" y="69" width=${width - 62} height="7" rx="3.5" />
          <rect class="back" x="12" y="69" width=${(width - 62) * Math.min(1, busy + back)} height="7" rx="3.5" />
          <rect class="busy" x="12" y="69" width=${(width - 62) * busy} height="7" rx="3.5" />
          <text class="share" x=${width - 12} y="76">${vertex.busy === null ? format.NONE : format.percent(Math.min(1, busy + back))}</text>`
      : html`<text class="name" x=${width / 2} y="21" text-anchor="middle">${cut(name, 20)}</text>
          <text class="line" x=${width / 2} y="37" text-anchor="middle">${cut(lines[0], 24)}</text>`}
  </g>`;
}

function Edge({ edge, at, beside }) {
  const anchor = beside ? "start" : "middle";
  const x = beside ? at.x - LABEL.TB.width / 2 : at.x;
  const y = at.y + (beside && edge.below ? -2 : 4);
  return html`<g class="edge ${edge.full ? "full" : ""}" data-edge=${`${edge.from} ${edge.to}`}>
    <path d=${curve(at.points)} marker-end="url(#arrow)" />
    ${edge.full && html`<title>Too much lies unread here: the task before it waits</title>`}
    ${edge.label && html`<text x=${x} y=${y} text-anchor=${anchor}>${edge.label}</text>`}
    ${edge.below && html`<text class="below" x=${x} y=${y + 13} text-anchor=${anchor}>${edge.below}</text>`}
  </g>`;
}

export function JobGraph({ graph, chosen, onChoose }) {
  const narrow = useMedia("(max-width: 720px)");
  const shape = JSON.stringify({
    vertices: graph.vertices.map(({ id, kind }) => [id, kind]),
    edges: graph.edges.map(({ from, to }) => [from, to]),
  });
  const drawn = useMemo(() => arrange(shape, narrow ? "TB" : "LR"), [shape, narrow]);
  return html`<div class="graph scroll">
    <svg
      width=${drawn.width}
      style=${{ maxWidth: "100%", minWidth: `${Math.round(drawn.width * SMALLEST)}px`, height: "auto" }}
      viewBox="0 0 ${drawn.width} ${drawn.height}"
      role="group"
      aria-label="Graph of the job: sources, tasks and sinks"
    >
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
          <path d="M0 .5 7.5 4 0 7.5z" />
        </marker>
      </defs>
      ${graph.edges.map((edge) => {
        const at = drawn.edges.get(`${edge.from} ${edge.to}`);
        return at && html`<${Edge} key=${`${edge.from} ${edge.to}`} edge=${edge} at=${at} beside=${drawn.beside} />`;
      })}
      ${graph.vertices.map(
        (vertex) =>
          html`<${Vertex}
            key=${vertex.id}
            vertex=${vertex}
            at=${drawn.vertices.get(vertex.id)}
            chosen=${chosen === vertex.id}
            onChoose=${onChoose}
          />`,
      )}
    </svg>
  </div>`;
}
