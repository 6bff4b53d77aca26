// Light or dark: as the system has it, unless the reader chose.
import { html, Store, useStore } from "./lib.js";
import { Segments } from "./parts.js";

const KEY = "rekindle.theme";

/** auto | light | dark */
const chosen = new Store(document.documentElement.dataset.theme ?? "auto");
const system = matchMedia("(prefers-color-scheme: dark)");

/** What is shown: light | dark. A chart, which paints its own colours, follows it. */
export const scheme = new Store("light");

function apply() {
  const root = document.documentElement;
  if (chosen.value === "auto") delete root.dataset.theme;
  else root.dataset.theme = chosen.value;
  scheme.set(chosen.value === "auto" ? (system.matches ? "dark" : "light") : chosen.value);
}

chosen.listen(apply);
system.addEventListener("change", apply);
apply();

/** The value of a colour of base.css in the scheme that is shown. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export function ThemeSwitch() {
  const value = useStore(chosen);
  const choose = (next) => {
    chosen.set(next);
    try {
      if (next === "auto") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, next);
    } catch {
      // Kept until the page is left.
    }
  };
  const options = [
    ["auto", "Auto"],
    ["light", "Light"],
    ["dark", "Dark"],
  ];
  return html`<${Segments} label="Colours" options=${options} value=${value} onChange=${choose} />`;
}
