// Numbers, sizes and times as people read them. Nothing here depends on the locale: a page shows what REST shows.

export const NONE = "–";
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

/** A figure a second: whole from ten up, else one decimal. */
export function rate(value) {
  if (!known(value)) return NONE;
  return value !== 0 && Math.abs(value) < 9.95 ? value.toFixed(1) : count(value);
}

export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = value;
  while (size >= 1023.95 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.95 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

export function percent(share) {
  return known(share) ? `${Math.round(share * 100)} %` : NONE;
}

/** A span of time in its two largest units. */
export function duration(value) {
  if (!known(value)) return NONE;
  const ms = Math.abs(value);
  const sign = value < 0 ? "-" : "";
  if (ms < 1000) return `${sign}${Math.round(ms)} ms`;
  if (ms < 9_950) return `${sign}${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${sign}${s} s`;
  const [m, h, d] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86_400)];
  if (m < 60) return `${sign}${m} min${s % 60 ? ` ${s % 60} s` : ""}`;
  if (h < 48) return `${sign}${h} h${m % 60 ? ` ${m % 60} min` : ""}`;
  if (d < 730) return `${sign}${d} d${h % 24 ? ` ${h % 24} h` : ""}`;
  return `${sign}${Math.floor(d / 365)} years`;
}

/** A span in one unit, for an axis. */
export function short(ms) {
  const [size, unit] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]].find(([one]) => ms >= one) ?? [1, "ms"];
  return `${Number((ms / size).toFixed(1))} ${unit}`;
}

/** A span in whole seconds: one that grows while it is looked at. */
export function age(ms) {
  if (!known(ms)) return NONE;
  return duration(Math.max(0, Math.round(ms / 1000) * 1000)).replace(/^0 ms$/, "0 s").replace(".0 s", " s");
}

const two = (value) => String(value).padStart(2, "0");

/** Date and time where the reader is. */
export function clock(ms) {
  if (!known(ms)) return NONE;
  const t = new Date(ms);
  if (Number.isNaN(t.getTime())) return NONE;
  const date = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
  return `${date} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

/** Exact, with the offset from UTC. */
export function exact(ms) {
  const t = new Date(ms);
  if (!known(ms) || Number.isNaN(t.getTime())) return "";
  const offset = -t.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${clock(ms)}.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")} ${zone}`;
}

export function iso(ms) {
  const t = new Date(ms);
  return known(ms) && !Number.isNaN(t.getTime()) ? t.toISOString() : undefined;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
