// The REST API, read again and again. What was read stays on the page while the server is away.
import { Store, useEffect, useState } from "./lib.js";

const BASE = new URL("api/v1/", document.baseURI);
const TOKEN = "rekindle.token";
/** A server, or a network, that says nothing for so long is away: a browser alone would wait for minutes. */
const PATIENCE_MS = 15_000;

/** When the server last answered, and since when it has not. */
export const connection = new Store({ awaySince: null });
/** Whether the reader is asked for a token: the server wants one, and has none of us, or a wrong one. */
export const tokenWanted = new Store(false);
/** The token at which the reader last closed the question. Answers that were on their way do not ask again. */
let declined;
/** Milliseconds that the server's clock is ahead of ours: ages are shown by the server's. */
let ahead = 0;

export const now = () => Date.now() + ahead;

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server answered with ${status}.`);
    this.status = status;
    this.code = error?.code ?? `HTTP_${status}`;
    this.nextStep = error?.next_step;
  }
}

export function token() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** Keep the token for as long as this tab is open. */
export function keepToken(value) {
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // A browser that keeps nothing asks each time.
  }
  declined = undefined;
  tokenWanted.set(false);
  for (const again of waiting) again();
}

/** Close the question for the token until the reader wants it, or has entered another one. */
export function declineToken() {
  declined = token();
  tokenWanted.set(false);
}

async function request(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  // Not in Authorization, where the browser puts the password that a proxy may want.
  if (token()) headers["X-Rekindle-Token"] = token();
  const response = await fetch(new URL(path, BASE), { cache: "no-cache", ...options, headers });
  const answered = Date.parse(response.headers.get("Date"));
  // The header has whole seconds.
  if (!Number.isNaN(answered)) ahead = Math.abs(answered - Date.now()) > 2000 ? answered - Date.now() : 0;
  const text = await response.text();
  if (response.ok) return text;
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  throw new ApiError(response.status, body?.error);
}

/** Ask for something. Throws an ApiError with the code and the next step of the command line. */
export async function act(path, body) {
  // With no token rather than without: the server then lets the page ask for it, not the browser.
  const options = { method: "POST", headers: { "Content-Type": "application/json", "X-Rekindle-Token": "" }, body: JSON.stringify(body ?? {}) };
  return JSON.parse((await request(path, options)) || "{}");
}

const waiting = new Set();

/**
 * Read a path of the API now, and again every so often while the page is visible.
 * `shape` makes of an answer what the page shows. The result has `data`, or `error`, or neither while the first answer is awaited; data outlive later errors.
 */
export function useApi(path, every = 2000, shape = (found) => found) {
  const [state, set] = useState({ path: null });
  useEffect(() => {
    if (!path) return undefined;
    let live = true;
    let timer;
    let text;
    let failures = 0;
    let asked = new AbortController();

    async function read() {
      clearTimeout(timer);
      const mine = (asked = new AbortController());
      const sent = token();
      let reached = true;
      let refused = false;
      const late = setTimeout(() => mine.abort(), PATIENCE_MS);
      try {
        const found = await request(path, { signal: mine.signal });
        if (!live) return;
        failures = 0;
        if (connection.value.awaySince !== null) connection.set({ awaySince: null });
        if (found !== text) {
          text = found;
          set({ path, data: shape(JSON.parse(found)) });
        }
      } catch (error) {
        if (!live) return;
        failures += 1;
        reached = error instanceof ApiError;
        if (!reached) {
          const silent = mine.signal.aborted;
          if ((failures > 1 || text === undefined || silent) && connection.value.awaySince === null)
            connection.set({ awaySince: now() - (silent ? PATIENCE_MS : 0) });
        } else {
          if (connection.value.awaySince !== null) connection.set({ awaySince: null });
          refused = error.status === 401;
          if (refused && sent === token() && sent !== declined) tokenWanted.set(true);
          text = undefined;
          set((before) => ({ path, data: before.path === path ? before.data : undefined, error }));
        }
      } finally {
        clearTimeout(late);
      }
      // What is read once is read until there is an answer.
      const pause = every || (reached ? 0 : 2000);
      if (live && pause && !document.hidden && !refused && !tokenWanted.value)
        timer = setTimeout(read, Math.min(pause * 2 ** Math.min(failures, 3), Math.max(pause, 10_000)));
    }

    const shown = () => document.hidden || read();
    document.addEventListener("visibilitychange", shown);
    waiting.add(read);
    read();
    return () => {
      live = false;
      clearTimeout(timer);
      asked.abort();
      waiting.delete(read);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [path, every]);
  return state.path === path ? state : { path };
}
