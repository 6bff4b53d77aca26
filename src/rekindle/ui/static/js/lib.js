// What the pages are made of: Preact's elements written with htm. Values become text nodes and attributes, never markup.
import { Fragment, h, render } from "../vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { Fragment, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** A value that components follow: they render again when it is set to another one. */
export class Store {
  constructor(value) {
    this.value = value;
    this.listeners = new Set();
  }

  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of this.listeners) listener(value);
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore(store) {
  const [value, set] = useState(store.value);
  useEffect(() => {
    set(store.value);
    return store.listen(set);
  }, [store]);
  return value;
}

/** Whether a media query holds. */
export function useMedia(query) {
  const [matches, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const listen = () => set(media.matches);
    listen();
    media.addEventListener("change", listen);
    return () => media.removeEventListener("change", listen);
  }, [query]);
  return matches;
}
